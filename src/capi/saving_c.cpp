#include "cache.hpp"
#include "content.hpp"
#include "ddpcache/saving.h"
#include "guard.hpp"
#include "saved.hpp"

using ddpcache::Cache;
using ddpcache::cache_of;
using ddpcache::guarded;
using ddpcache::null_argument;
using ddpcache::Status;

extern "C" {

int32_t dc_cache_save(dc_cache *cache, const char *path, dc_progress progress, void *user, int64_t *saved,
                      dc_error *error) {
  return guarded(error, [&]() -> Status {
    if (!cache || !path) return null_argument(cache ? "path" : "cache");
    return cache_of(cache)->save(path, progress, user, saved);
  });
}

int32_t dc_cache_restore(const char *path, const char *name, const char *directory, const char *fingerprint,
                         const dc_cache_options *options, dc_progress progress, void *user, dc_cache **cache,
                         dc_error *error) {
  return guarded(error, [&]() -> Status {
    if (!cache) return null_argument("cache");
    *cache = nullptr;
    if (!path) return null_argument("path");
    if (Status status = ddpcache::check_name(name); !status.ok()) return status;
    dc_cache_options ours;
    if (options) {
      if (Status status = ddpcache::import_options(options, &ours); !status.ok()) return status;
    }
    Cache *restored = nullptr;
    const Status status = ddpcache::restore_cache(
        {path, name, directory, fingerprint, options ? &ours : nullptr, progress, user}, &restored);
    *cache = reinterpret_cast<dc_cache *>(restored);
    return status;
  });
}

int32_t dc_saved_info_get(const char *path, dc_saved_info *info, dc_error *error) {
  return guarded(error, [&]() -> Status {
    if (!path) return null_argument("path");
    return ddpcache::export_sized(info, "info",
                                  [&](dc_saved_info *ours) { return ddpcache::describe_saved(path, ours); });
  });
}

}  // extern "C"
