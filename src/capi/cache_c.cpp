#include <algorithm>
#include <cstring>

#include "cache.hpp"
#include "ddpcache/cache.h"
#include "ddpcache/keys.h"
#include "ddpcache/report.h"
#include "guard.hpp"

namespace {

using ddpcache::Cache;
using ddpcache::cache_of;
using ddpcache::export_sized;
using ddpcache::failure;
using ddpcache::Fill;
using ddpcache::guarded;
using ddpcache::import_options;
using ddpcache::null_argument;
using ddpcache::Status;

Fill *fill_of(dc_fill *fill) { return reinterpret_cast<Fill *>(fill); }

Status negative(const char *name, int64_t value) {
  return failure(DC_ERROR_RANGE, "%s is %lld, below 0", name, static_cast<long long>(value));
}

constexpr uint32_t kOptionsSizeMin = sizeof(dc_cache_options);  // of the first version

}  // namespace

namespace ddpcache {

// A struct of a later version than this library's is read as far as this library knows it; what it does not know must
// not have been set.
Status import_options(const dc_cache_options *options, dc_cache_options *ours) {
  if (!options) return null_argument("options");
  const uint32_t size = options->struct_size;
  if (size < kOptionsSizeMin || size > 4096) {
    return failure(DC_ERROR_ARGUMENT, "options.struct_size is %u: call dc_cache_options_init first", size);
  }
  if (Status status = ddpcache::check_unknown_options(options, size, sizeof *ours); !status.ok()) return status;
  dc_cache_options_init(ours, sizeof *ours);
  std::memcpy(ours, options, std::min<size_t>(size, sizeof *ours));
  if (ours->reserved != 0) return failure(DC_ERROR_UNSUPPORTED, "options.reserved is %u, not 0", ours->reserved);
  if (ours->keep > 1 || ours->partial > 1) {
    return failure(DC_ERROR_RANGE, "keep is %u and partial %u: each is 0 or 1", ours->keep, ours->partial);
  }
  if (ours->interleave > 1 || ours->huge_pages > 1) {
    return failure(DC_ERROR_RANGE, "interleave is %u and huge_pages %u: each is 0 or 1", ours->interleave,
                   ours->huge_pages);
  }
  return ours->timeout_ns < 0 ? negative("timeout_ns", ours->timeout_ns) : Status();
}

}  // namespace ddpcache

namespace {

Status attach(decltype(Cache::attach) *how, const char *name, const char *directory, int64_t timeout_ns,
              dc_cache **cache) {
  if (!cache) return null_argument("cache");
  *cache = nullptr;
  if (timeout_ns < 0) return negative("timeout_ns", timeout_ns);
  if (Status status = ddpcache::check_name(name); !status.ok()) return status;
  Cache *opened = nullptr;
  const Status status = how(name, directory, timeout_ns, &opened);
  *cache = reinterpret_cast<dc_cache *>(opened);
  return status;
}

}  // namespace

extern "C" {

int32_t dc_cache_options_init(dc_cache_options *options, uint32_t struct_size) {
  if (!options || struct_size < kOptionsSizeMin || struct_size > 4096) return DC_ERROR_ARGUMENT;
  std::memset(static_cast<void *>(options), 0, struct_size);
  options->struct_size = struct_size;
  options->timeout_ns = 10'000'000'000;
  return DC_OK;
}

int32_t dc_cache_open(const char *name, const char *directory, const char *fingerprint, const dc_cache_options *options,
                      dc_cache **cache, dc_error *error) {
  return guarded(error, [&]() -> Status {
    if (!cache) return null_argument("cache");
    *cache = nullptr;
    dc_cache_options ours;
    if (Status status = import_options(options, &ours); !status.ok()) return status;
    if (Status status = ddpcache::check_name(name); !status.ok()) return status;
    if (fingerprint && strnlen(fingerprint, DC_FINGERPRINT_BYTES_MAX + 1) > DC_FINGERPRINT_BYTES_MAX) {
      return failure(DC_ERROR_RANGE, "the fingerprint is longer than %d bytes", DC_FINGERPRINT_BYTES_MAX);
    }
    Cache *opened = nullptr;
    const Status status = Cache::open(name, directory, fingerprint, ours, &opened);
    *cache = reinterpret_cast<dc_cache *>(opened);
    return status;
  });
}

int32_t dc_cache_attach(const char *name, const char *directory, int64_t timeout_ns, dc_cache **cache,
                        dc_error *error) {
  return guarded(error, [&] { return attach(Cache::attach, name, directory, timeout_ns, cache); });
}

int32_t dc_cache_attach_read_only(const char *name, const char *directory, int64_t timeout_ns, dc_cache **cache,
                                  dc_error *error) {
  return guarded(error, [&] { return attach(Cache::attach_read_only, name, directory, timeout_ns, cache); });
}

int32_t dc_cache_close(dc_cache *cache) {
  return guarded(nullptr, [&]() -> Status { return cache ? cache_of(cache)->close() : Status(); });
}

int32_t dc_cache_unlink(const char *name, const char *directory, dc_error *error) {
  return guarded(error, [&]() -> Status {
    if (Status status = ddpcache::check_name(name); !status.ok()) return status;
    return ddpcache::unlink_cache(name, directory);
  });
}

int32_t dc_cache_gc(const char *directory, int32_t *removed, dc_error *error) {
  return guarded(error, [&]() -> Status {
    int32_t count = 0;
    const Status status = ddpcache::collect_garbage(directory, &count);
    if (removed) *removed = count;
    return status;
  });
}

int32_t dc_cache_list(const char *directory, uint8_t *buffer, uint64_t buffer_bytes, uint64_t *needed_bytes,
                      dc_error *error) {
  return guarded(error, [&]() -> Status {
    if (!needed_bytes) return null_argument("needed_bytes");
    if (!buffer && buffer_bytes > 0) return null_argument("buffer");
    std::vector<std::string> names;
    if (Status status = ddpcache::list_caches(directory, &names); !status.ok()) return status;
    std::string text;
    for (const std::string &name : names) text += name + "\n";
    *needed_bytes = text.size();
    if (text.size() > buffer_bytes) {
      return failure(DC_ERROR_BUFFER, "the names take %zu bytes, the buffer has %llu", text.size(),
                     static_cast<unsigned long long>(buffer_bytes));
    }
    if (!text.empty()) std::memcpy(buffer, text.data(), text.size());
    return {};
  });
}

int32_t dc_cache_estimate(const dc_cache_options *options, uint64_t sample_bytes, uint64_t *capacity_bytes,
                          uint64_t *total_bytes, dc_error *error) {
  return guarded(error, [&]() -> Status {
    if (!capacity_bytes || !total_bytes) return null_argument(capacity_bytes ? "total_bytes" : "capacity_bytes");
    dc_cache_options ours;
    if (Status status = import_options(options, &ours); !status.ok()) return status;
    return ddpcache::estimate(ours, sample_bytes, capacity_bytes, total_bytes);
  });
}

int32_t dc_cache_view(dc_cache *cache, int64_t index, dc_view *view) {
  return guarded(nullptr, [&]() -> Status {
    if (!view) return DC_ERROR_ARGUMENT;
    view->owner = nullptr;
    return cache ? cache_of(cache)->view(index, view) : Status(DC_ERROR_ARGUMENT);
  });
}

void dc_cache_view_release(dc_view *view) {
  if (view && view->owner) Cache::release(view);
}

int32_t dc_view_array(const dc_view *view, uint32_t number, dc_array *array) {
  return guarded(nullptr, [&]() -> Status {
    if (!view || !view->owner || !array) return DC_ERROR_ARGUMENT;
    if (number >= view->array_count) return DC_ERROR_RANGE;
    dc_array found;
    if (!ddpcache::read_array(view->record, view->record_bytes, number, &found)) return DC_ERROR_RECORD;
    *array = found;
    return {};
  });
}

const char *dc_view_structure(const dc_view *view, uint64_t *bytes) {
  uint64_t length = 0;
  const char *text =
      view && view->owner ? ddpcache::read_structure(view->record, view->record_bytes, &length) : nullptr;
  if (bytes) *bytes = length;
  return text;
}

int32_t dc_cache_contains(dc_cache *cache, int64_t index) {
  return guarded(nullptr, [&]() -> Status { return cache ? cache_of(cache)->contains(index) : DC_ERROR_ARGUMENT; });
}

int32_t dc_cache_load(dc_cache *cache, int64_t index, dc_loader loader, void *user, int64_t timeout_ns, dc_view *view) {
  return guarded(nullptr, [&]() -> Status {
    if (!view) return DC_ERROR_ARGUMENT;
    view->owner = nullptr;
    if (!cache || !loader) return DC_ERROR_ARGUMENT;
    if (timeout_ns < 0) return DC_ERROR_RANGE;
    return cache_of(cache)->load(index, loader, user, timeout_ns, view);
  });
}

int32_t dc_cache_fill_begin(dc_cache *cache, int64_t index, int64_t timeout_ns, dc_fill **fill) {
  return guarded(nullptr, [&]() -> Status {
    if (!fill) return DC_ERROR_ARGUMENT;
    *fill = nullptr;
    if (!cache) return DC_ERROR_ARGUMENT;
    if (timeout_ns < 0) return DC_ERROR_RANGE;
    Fill *begun = nullptr;
    const Status status = cache_of(cache)->begin_fill(index, timeout_ns, &begun);
    *fill = reinterpret_cast<dc_fill *>(begun);
    return status;
  });
}

int32_t dc_cache_fill_allocate(dc_fill *fill, dc_array *arrays, uint32_t count, const char *structure,
                               dc_error *error) {
  return guarded(error, [&]() -> Status {
    if (!fill) return null_argument("fill");
    const Status usable = fill_of(fill)->usable_here();
    if (usable.code() == DC_MISS) return failure(DC_ERROR_STATE, "the fill was begun before a fork, by the parent");
    return usable.ok() ? fill_of(fill)->allocate(arrays, count, structure) : usable;
  });
}

int32_t dc_cache_fill_commit(dc_fill *fill) {
  return guarded(nullptr, [&]() -> Status {
    if (!fill) return DC_ERROR_ARGUMENT;
    Fill *ours = fill_of(fill);
    const Status usable = ours->usable_here();
    if (usable.code() == DC_MISS || ours->is_of_loader()) return DC_ERROR_STATE;
    if (!usable.ok()) return usable;
    const Status status = ours->commit();
    if (status.ok() || status.code() == DC_ERROR_LOST) delete ours;
    return status;
  });
}

int32_t dc_cache_fill_abort(dc_fill *fill) {
  return guarded(nullptr, [&]() -> Status {
    if (!fill) return {};
    Fill *ours = fill_of(fill);
    const Status usable = ours->usable_here();
    if (usable.code() == DC_MISS) return {};
    if (!usable.ok()) return usable;
    if (ours->is_of_loader()) return DC_ERROR_STATE;
    delete ours;
    return {};
  });
}

int64_t dc_cache_fill_index(const dc_fill *fill) { return fill ? reinterpret_cast<const Fill *>(fill)->index() : -1; }

int32_t dc_cache_remove(dc_cache *cache, int64_t index) {
  return guarded(nullptr, [&]() -> Status { return cache ? cache_of(cache)->remove(index) : DC_ERROR_ARGUMENT; });
}

int32_t dc_cache_remove_batch(dc_cache *cache, const int64_t *indices, int64_t count, int64_t *removed) {
  return guarded(nullptr, [&]() -> Status {
    if (!cache || (!indices && count > 0)) return DC_ERROR_ARGUMENT;
    if (count < 0) return DC_ERROR_RANGE;
    int64_t dropped = 0;
    Status status = cache_of(cache)->remove_batch(indices, count, &dropped);
    if (removed) *removed = dropped;
    return status;
  });
}

int32_t dc_cache_clear(dc_cache *cache, int64_t *removed) {
  return guarded(nullptr, [&]() -> Status {
    if (!cache) return DC_ERROR_ARGUMENT;
    int64_t dropped = 0;
    Status status = cache_of(cache)->clear(&dropped);
    if (removed) *removed = dropped;
    return status;
  });
}

int32_t dc_cache_intern(dc_cache *cache, const uint8_t *key, uint64_t key_bytes, int64_t *index) {
  return guarded(nullptr, [&]() -> Status {
    if (!cache || (!key && key_bytes > 0) || !index) return DC_ERROR_ARGUMENT;
    return cache_of(cache)->intern(key, key_bytes, index);
  });
}

int32_t dc_cache_lookup(dc_cache *cache, const uint8_t *key, uint64_t key_bytes, int64_t *index) {
  return guarded(nullptr, [&]() -> Status {
    if (!cache || (!key && key_bytes > 0) || !index) return DC_ERROR_ARGUMENT;
    return cache_of(cache)->lookup(key, key_bytes, index);
  });
}

int32_t dc_cache_view_key(dc_cache *cache, const uint8_t *key, uint64_t key_bytes, dc_view *view) {
  return guarded(nullptr, [&]() -> Status {
    if (!view) return DC_ERROR_ARGUMENT;
    view->owner = nullptr;
    if (!cache || (!key && key_bytes > 0)) return DC_ERROR_ARGUMENT;
    return cache_of(cache)->view_key(key, key_bytes, view);
  });
}

int32_t dc_cache_info_get(dc_cache *cache, dc_cache_info *info) {
  return guarded(nullptr, [&]() -> Status {
    if (!cache) return DC_ERROR_ARGUMENT;
    return export_sized(info, "info", [&](dc_cache_info *ours) {
      cache_of(cache)->info(ours);
      return Status();
    });
  });
}

int32_t dc_cache_stats_get(dc_cache *cache, int32_t scope, dc_cache_stats *stats) {
  return guarded(nullptr, [&]() -> Status {
    if (!cache) return DC_ERROR_ARGUMENT;
    if (scope != DC_STATS_CACHE && scope != DC_STATS_CLIENT) return DC_ERROR_RANGE;
    return export_sized(stats, "stats", [&](dc_cache_stats *ours) {
      cache_of(cache)->stats(scope, ours);
      return Status();
    });
  });
}

int32_t dc_cache_check(dc_cache *cache, dc_cache_report *report, dc_error *error) {
  return guarded(error, [&]() -> Status {
    if (!cache) return null_argument("cache");
    if (report)
      return export_sized(report, "report", [&](dc_cache_report *ours) { return cache_of(cache)->check(ours); });
    dc_cache_report unwanted = {};
    return cache_of(cache)->check(&unwanted);
  });
}

}  // extern "C"
