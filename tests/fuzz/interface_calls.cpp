// One call of each function.
#include <array>
#include <cstdlib>

#include "interface.hpp"

namespace ddpcache::fuzz {

// Base.

void Interface::call_dc_version() { DC_MUST(dc_version() != nullptr); }
void Interface::call_dc_abi_version() { DC_MUST(dc_abi_version() == DC_ABI_VERSION); }
void Interface::call_dc_strerror() { DC_MUST(dc_strerror(static_cast<int32_t>(input_.number())) != nullptr); }

// Opening and closing.

void Interface::call_dc_cache_options_init() {
  const uint32_t size = rarely() ? static_cast<uint32_t>(input_.number()) : sizeof(dc_cache_options);
  outcome(dc_cache_options_init(reinterpret_cast<dc_cache_options *>(memory(std::min(size, 8'000u))), size));
}

void Interface::call_dc_cache_open() {
  if (!may_open()) return;
  dc_cache *opened = nullptr;
  const char *where = directory();
  const dc_cache_options *options = cache_options();
  const char *called = name();
  const int32_t status =
      outcome(dc_cache_open(called, where, text(2'000), options, rarely() ? nullptr : &opened, error()));
  if (status == DC_OK) keep_cache(opened, called);
}

void Interface::call_dc_cache_attach() {
  if (!may_open()) return;
  dc_cache *opened = nullptr;
  if (outcome(dc_cache_attach(name(), directory(), timeout_ns(), rarely() ? nullptr : &opened, error())) == DC_OK) {
    caches_.push_back(opened);
  }
}

void Interface::call_dc_cache_attach_read_only() {
  if (!may_open()) return;
  dc_cache *opened = nullptr;
  if (outcome(dc_cache_attach_read_only(name(), directory(), timeout_ns(), rarely() ? nullptr : &opened, error())) ==
      DC_OK) {
    caches_.push_back(opened);
  }
}

// Not from a callback of the same handle: a caller may not end what a call of his is using.
void Interface::call_dc_cache_close() {
  if (depth_ > 0) return;
  dc_cache *ended = cache();
  const int32_t status = outcome(dc_cache_close(ended));
  DC_MUST(status == DC_OK || status == DC_ERROR_STATE);
  if (status == DC_OK) forget(&caches_, ended);
}

void Interface::call_dc_cache_unlink() {
  if (may_open()) outcome(dc_cache_unlink(name(), directory(), error()));
}
void Interface::call_dc_cache_gc() {
  if (may_open()) outcome(dc_cache_gc(directory(), output<int32_t>(), error()));
}
void Interface::call_dc_cache_list() {
  const uint64_t bytes = room();
  outcome(dc_cache_list(directory(), memory(bytes), bytes, output<uint64_t>(), error()));
}
void Interface::call_dc_cache_estimate() {
  const dc_cache_options *options = cache_options();
  outcome(dc_cache_estimate(options, input_.number(), output<uint64_t>(), output<uint64_t>(), error()));
}

// Looking.

void Interface::call_dc_cache_view() {
  dc_cache *from = cache();
  fill_view([&](dc_view *view) { return dc_cache_view(from, index(), view); });
}

void Interface::call_dc_cache_view_release() {
  dc_view *released = rarely() ? nullptr : view();
  dc_cache_view_release(released);
  if (!released) return;
  DC_MUST(released->owner == nullptr);
  forget(&views_, released);
}

void Interface::call_dc_view_array() {
  dc_array array;
  const dc_view *of = rarely() ? nullptr : view();
  if (outcome(dc_view_array(of, input_.below(70), rarely() ? nullptr : &array)) != DC_OK) return;
  DC_MUST(array.data != nullptr && array.dimensions <= DC_DIMENSIONS_MAX);
}

void Interface::call_dc_view_structure() {
  uint64_t bytes = 0;
  const dc_view *of = rarely() ? nullptr : view();
  const char *found = dc_view_structure(of, rarely() ? nullptr : &bytes);
  DC_MUST(!found || std::strlen(found) <= DC_STRUCTURE_BYTES_MAX);
}

void Interface::call_dc_cache_contains() { outcome(dc_cache_contains(cache(), index())); }

void Interface::call_dc_cache_residency() {
  const int64_t first = index(), count = rarely() ? input_.signed_number() : input_.byte();
  // As much as is ever asked for of a cache that is made here.
  uint8_t *bitmap = memory(static_cast<uint64_t>(std::clamp<int64_t>(count, 0, 8'000)) / 8 + 1);
  outcome(dc_cache_residency(cache(), first, count, bitmap));
}

void Interface::call_dc_cache_read() {
  const uint64_t bytes = room();
  dc_cache *from = cache();
  outcome(dc_cache_read(from, index(), input_.below(70), memory(bytes), bytes, output<uint64_t>()));
}

void Interface::call_dc_cache_structure() {
  const uint64_t bytes = room();
  dc_cache *from = cache();
  outcome(dc_cache_structure(from, index(), memory(bytes), bytes, output<uint64_t>()));
}

// Batches. A count that is larger than the memory is the caller's own fault, so such ones are below 0 only.

void Interface::call_dc_cache_read_batch() {
  const int64_t count = count_below(20);
  const uint64_t bytes = rarely() && count < 1 ? input_.number() : input_.byte();
  int64_t *which = indices(count);
  uint8_t *buffer = memory(static_cast<uint64_t>(std::max<int64_t>(0, count)) * std::min<uint64_t>(bytes, 1'000));
  int32_t *statuses = array_of<int32_t>(static_cast<uint64_t>(std::max<int64_t>(0, count)));
  outcome(dc_cache_read_batch(cache(), which, count, input_.below(66), buffer, bytes, statuses, input_.below(70)));
}

void Interface::call_dc_cache_gather() {
  const int64_t count = count_below(20);
  const uint64_t places = static_cast<uint64_t>(std::max<int64_t>(0, count));
  int64_t *which = indices(count);
  const uint32_t part_count = rarely() ? input_.below(70) : 1 + input_.below(3);
  dc_gather *parts = array_of<dc_gather>(part_count);
  for (uint32_t p = 0; parts && p < part_count; ++p) {
    parts[p].number = rarely() ? input_.byte() : input_.below(3);
    parts[p].reserved = rarely() ? input_.byte() : 0;
    if (input_.coin()) {
      parts[p].sample_bytes = input_.byte();
      parts[p].buffer = memory(places * parts[p].sample_bytes);
      continue;
    }
    int64_t *offsets = reinterpret_cast<int64_t *>(memory((places + 1) * sizeof(int64_t), true));
    for (uint64_t i = 0; i < places; ++i) offsets[i + 1] = offsets[i] + input_.byte();
    parts[p].buffer = memory(static_cast<uint64_t>(offsets[places]));
    parts[p].offsets = offsets;
    if (rarely()) offsets[input_.below(static_cast<uint32_t>(places) + 1)] = -1 - input_.byte();
  }
  int32_t *statuses = array_of<int32_t>(places);
  outcome(dc_cache_gather(cache(), which, count, parts, part_count, statuses, input_.below(70)));
}

void Interface::call_dc_cache_describe_batch() {
  const int64_t count = count_below(20);
  const uint64_t places = static_cast<uint64_t>(std::max<int64_t>(0, count));
  int64_t *which = indices(count);
  dc_array *descriptions = array_of<dc_array>(places);
  uint32_t *counts = array_of<uint32_t>(places);
  uint64_t *structures = array_of<uint64_t>(places);
  outcome(dc_cache_describe_batch(cache(), which, count, input_.below(66), descriptions, counts, structures,
                                  array_of<int32_t>(places)));
}

void Interface::call_dc_cache_populate() {
  if (may_open()) outcome(dc_cache_populate(cache()));
}

// Filling and removing.

void Interface::call_dc_cache_load() {
  dc_cache *from = cache();
  const int64_t which = index(), timeout = timeout_ns();
  const dc_loader by = rarely() ? nullptr : loader;
  fill_view([&](dc_view *view) { return dc_cache_load(from, which, by, this, timeout, view); });
}

void Interface::call_dc_cache_fill_begin() {
  dc_cache *of = cache();
  const int64_t which = index();
  dc_fill *begun = nullptr;
  if (outcome(dc_cache_fill_begin(of, which, timeout_ns(), rarely() ? nullptr : &begun)) == DC_OK) {
    fills_.push_back(begun);
  }
}

void Interface::call_dc_cache_fill_allocate() { allocate(fill()); }

void Interface::call_dc_cache_fill_commit() {
  dc_fill *ended = fill();
  const int32_t status = outcome(dc_cache_fill_commit(ended));
  if (status == DC_OK || status == DC_ERROR_LOST) forget(&fills_, ended);
}

void Interface::call_dc_cache_fill_abort() {
  dc_fill *ended = fill();
  DC_MUST(dc_cache_fill_abort(ended) == DC_OK);
  forget(&fills_, ended);
}

void Interface::call_dc_cache_fill_index() { DC_MUST(dc_cache_fill_index(fill()) >= -1); }
void Interface::call_dc_cache_remove() { outcome(dc_cache_remove(cache(), index())); }

void Interface::call_dc_cache_remove_batch() {
  const int64_t count = count_below(20);
  int64_t *which = indices(count);
  outcome(dc_cache_remove_batch(cache(), which, count, output<int64_t>()));
}

void Interface::call_dc_cache_clear() { outcome(dc_cache_clear(cache(), output<int64_t>())); }

// Keys.

void Interface::call_dc_cache_intern() {
  const std::span<const uint8_t> bytes = key();
  outcome(dc_cache_intern(cache(), rarely() ? nullptr : bytes.data(), bytes.size(), output<int64_t>()));
}
void Interface::call_dc_cache_lookup() {
  const std::span<const uint8_t> bytes = key();
  outcome(dc_cache_lookup(cache(), rarely() ? nullptr : bytes.data(), bytes.size(), output<int64_t>()));
}
void Interface::call_dc_cache_view_key() {
  const std::span<const uint8_t> bytes = key();
  dc_cache *from = cache();
  const uint8_t *data = rarely() ? nullptr : bytes.data();
  fill_view([&](dc_view *view) { return dc_cache_view_key(from, data, bytes.size(), view); });
}

// Reports.

void Interface::call_dc_cache_info_get() {
  outcome(dc_cache_info_get(cache(), reinterpret_cast<dc_cache_info *>(sized(sizeof(dc_cache_info)))));
}
void Interface::call_dc_cache_stats_get() {
  dc_cache_stats *stats = reinterpret_cast<dc_cache_stats *>(sized(sizeof(dc_cache_stats)));
  outcome(dc_cache_stats_get(cache(), static_cast<int32_t>(input_.below(4)) - 1, stats));
}
void Interface::call_dc_cache_check() {
  dc_cache_report *report = reinterpret_cast<dc_cache_report *>(sized(sizeof(dc_cache_report)));
  DC_MUST(outcome(dc_cache_check(cache(), report, error())) != DC_ERROR_DAMAGED);
}

// Saving.

void Interface::call_dc_cache_save() {
  if (saves_left_-- <= 0) return;
  dc_cache *from = cache();
  const char *to = path();
  outcome(dc_cache_save(from, to, rarely() ? nullptr : progress, this, output<int64_t>(), error()));
}

void Interface::call_dc_cache_restore() {
  if (!may_open()) return;
  dc_cache *opened = nullptr;
  const char *from = path(), *to = name(), *where = directory();
  const char *fingerprint = input_.coin() ? nullptr : text(2'000);
  const dc_cache_options *options = input_.coin() ? nullptr : cache_options();
  const int32_t status =
      outcome(dc_cache_restore(from, to, where, fingerprint, options, input_.coin() ? nullptr : progress, this,
                               rarely() ? nullptr : &opened, error()));
  if (status == DC_OK) keep_cache(opened, to);
}

void Interface::call_dc_saved_info_get() {
  dc_saved_info *info = reinterpret_cast<dc_saved_info *>(sized(sizeof(dc_saved_info)));
  outcome(dc_saved_info_get(path(), info, error()));
}

// The sampler.

void Interface::call_dc_topology_detect() {
  constexpr std::array<const char *, 6> kVariables = {"RANK",      "WORLD_SIZE",   "LOCAL_RANK",
                                                      "NODE_RANK", "SLURM_PROCID", "SLURM_TASKS_PER_NODE"};
  for (const char *variable : kVariables) {
    if (input_.coin()) setenv(variable, std::to_string(rarely() ? input_.number() : input_.below(4)).c_str(), 1);
  }
  outcome(dc_topology_detect(reinterpret_cast<dc_topology *>(sized(sizeof(dc_topology))), error()));
  for (const char *variable : kVariables) unsetenv(variable);
}

void Interface::call_dc_sampler_options_init() {
  const uint32_t size = rarely() ? static_cast<uint32_t>(input_.number()) : sizeof(dc_sampler_options);
  outcome(dc_sampler_options_init(reinterpret_cast<dc_sampler_options *>(memory(std::min(size, 8'000u))), size));
}

void Interface::call_dc_sampler_open() {
  const dc_sampler_options *options = sampler_options();
  dc_sampler *opened = nullptr;
  if (outcome(dc_sampler_open(options, rarely() ? nullptr : &opened, error())) == DC_OK) samplers_.push_back(opened);
}

void Interface::call_dc_sampler_close() {
  dc_sampler *ended = sampler();
  dc_sampler_close(ended);
  forget(&samplers_, ended);
}

void Interface::call_dc_sampler_set_epoch() {
  outcome(dc_sampler_set_epoch(sampler(), rarely() ? input_.signed_number() : input_.byte(), error()));
}
void Interface::call_dc_sampler_next() { outcome(dc_sampler_next(sampler(), output<int64_t>())); }
void Interface::call_dc_sampler_tell() { outcome(dc_sampler_tell(sampler(), output<int64_t>(), output<int64_t>())); }
void Interface::call_dc_sampler_seek() { outcome(dc_sampler_seek(sampler(), index(), error())); }
void Interface::call_dc_sampler_size() { outcome(dc_sampler_size(sampler(), output<int64_t>())); }
void Interface::call_dc_sampler_real_size() { outcome(dc_sampler_real_size(sampler(), output<int64_t>(), error())); }

void Interface::call_dc_sampler_read() {
  const int64_t count = count_below(40);
  int64_t *indices = array_of<int64_t>(static_cast<uint64_t>(std::max<int64_t>(0, count)));
  outcome(dc_sampler_read(sampler(), index(), indices, count, error()));
}

void Interface::call_dc_sampler_find() {
  outcome(dc_sampler_find(sampler(), index(), output<uint32_t>(), output<int64_t>(), error()));
}
void Interface::call_dc_sampler_shard_size() { outcome(dc_sampler_shard_size(sampler(), output<int64_t>())); }

void Interface::call_dc_sampler_shard_read() {
  const int64_t count = count_below(40);
  int64_t *indices = array_of<int64_t>(static_cast<uint64_t>(std::max<int64_t>(0, count)));
  outcome(dc_sampler_shard_read(sampler(), index(), indices, count, error()));
}

void Interface::call_dc_sampler_keeps() { outcome(dc_sampler_keeps(sampler(), index())); }

void Interface::call_dc_sampler_state_save() {
  const uint64_t bytes = rarely() ? input_.byte() : DC_SAMPLER_STATE_BYTES_MAX;
  outcome(dc_sampler_state_save(sampler(), index(), memory(bytes), bytes, output<uint64_t>(), error()));
}

void Interface::call_dc_sampler_state_load() {
  std::array<uint8_t, DC_SAMPLER_STATE_BYTES_MAX> state = {};
  uint64_t bytes = 0;
  if (dc_sampler_state_save(sampler(), 0, state.data(), state.size(), &bytes, nullptr) != DC_OK) bytes = input_.byte();
  uint8_t *given = memory(bytes);
  if (given) std::memcpy(given, state.data(), bytes);
  if (given && bytes > 0 && rarely()) given[input_.byte() % bytes] ^= input_.byte();
  outcome(dc_sampler_state_load(sampler(), given, bytes, error()));
}

// The permutation.

void Interface::call_dc_permutation_open() {
  const int64_t length = rarely() ? input_.signed_number() : input_.byte();
  const int64_t epoch = rarely() ? input_.signed_number() : input_.byte();
  dc_permutation *opened = nullptr;
  const int32_t status =
      dc_permutation_open(length, input_.number(), epoch, input_.byte(), static_cast<int32_t>(input_.below(5)),
                          rarely() ? nullptr : &opened, error());
  if (outcome(status) == DC_OK) permutations_.push_back(opened);
}

void Interface::call_dc_permutation_close() {
  dc_permutation *ended = permutation();
  dc_permutation_close(ended);
  forget(&permutations_, ended);
}

void Interface::call_dc_permutation_at() { outcome(dc_permutation_at(permutation(), index(), output<int64_t>())); }
void Interface::call_dc_permutation_inverse() {
  outcome(dc_permutation_inverse(permutation(), index(), output<int64_t>()));
}
void Interface::call_dc_permutation_batch() {
  const int64_t count = count_below(40);
  int64_t *indices = array_of<int64_t>(static_cast<uint64_t>(std::max<int64_t>(0, count)));
  outcome(dc_permutation_batch(permutation(), index(), indices, count));
}

}  // namespace ddpcache::fuzz
