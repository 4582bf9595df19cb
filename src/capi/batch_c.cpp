#include <limits>

#include "cache.hpp"
#include "ddpcache/batch.h"
#include "guard.hpp"
#include "integers.hpp"

namespace {

using ddpcache::cache_of;
using ddpcache::guarded;
using ddpcache::Status;

Status check_samples(dc_cache *cache, const int64_t *indices, int64_t count) {
  if (!cache || (!indices && count > 0)) return DC_ERROR_ARGUMENT;
  return count < 0 || count > std::numeric_limits<int32_t>::max() ? DC_ERROR_RANGE : DC_OK;
}

Status check_part(const dc_gather &part, int64_t count) {
  if (part.number >= DC_ARRAYS_MAX || part.reserved != 0) return DC_ERROR_RANGE;
  if (part.offsets && part.sample_bytes != 0) return DC_ERROR_ARGUMENT;
  int64_t total = 0;
  if (part.offsets) {
    if (part.offsets[0] < 0) return DC_ERROR_RANGE;
    for (int64_t i = 0; i < count; ++i) {
      if (part.offsets[i + 1] < part.offsets[i]) return DC_ERROR_RANGE;
    }
    total = part.offsets[count];
  } else if (__builtin_mul_overflow(count, part.sample_bytes, &total)) {
    return DC_ERROR_RANGE;
  }
  return !part.buffer && total > 0 ? DC_ERROR_ARGUMENT : DC_OK;
}

}  // namespace

extern "C" {

int32_t dc_cache_residency(dc_cache *cache, int64_t first, int64_t count, uint8_t *bitmap) {
  return guarded(nullptr, [&]() -> Status {
    if (!cache || (!bitmap && count > 0)) return DC_ERROR_ARGUMENT;
    return cache_of(cache)->residency(first, count, bitmap);
  });
}

int32_t dc_cache_read(dc_cache *cache, int64_t index, uint32_t number, uint8_t *buffer, uint64_t buffer_bytes,
                      uint64_t *bytes) {
  return guarded(nullptr, [&]() -> Status {
    if (!cache || (!buffer && buffer_bytes > 0)) return DC_ERROR_ARGUMENT;
    if (number >= DC_ARRAYS_MAX) return DC_ERROR_RANGE;
    return cache_of(cache)->read(index, number, buffer, buffer_bytes, bytes);
  });
}

int32_t dc_cache_read_batch(dc_cache *cache, const int64_t *indices, int64_t count, uint32_t number, uint8_t *buffer,
                            uint64_t sample_bytes, int32_t *statuses, uint32_t threads) {
  const dc_gather part = {buffer, nullptr, sample_bytes, number, 0};
  return dc_cache_gather(cache, indices, count, &part, 1, statuses, threads);
}

int32_t dc_cache_gather(dc_cache *cache, const int64_t *indices, int64_t count, const dc_gather *parts,
                        uint32_t part_count, int32_t *statuses, uint32_t threads) {
  return guarded(nullptr, [&]() -> Status {
    if (Status status = check_samples(cache, indices, count); !status.ok()) return status;
    if (part_count < 1 || part_count > DC_ARRAYS_MAX || threads > DC_COPY_THREADS_MAX) return DC_ERROR_RANGE;
    if (!parts) return DC_ERROR_ARGUMENT;
    for (uint32_t p = 0; p < part_count; ++p) {
      if (Status status = check_part(parts[p], count); !status.ok()) return status;
    }
    return cache_of(cache)->gather({indices, count, {parts, part_count}, statuses}, threads);
  });
}

int32_t dc_cache_describe_batch(dc_cache *cache, const int64_t *indices, int64_t count, uint32_t number,
                                dc_array *descriptions, uint32_t *array_counts, uint64_t *structures,
                                int32_t *statuses) {
  return guarded(nullptr, [&]() -> Status {
    if (Status status = check_samples(cache, indices, count); !status.ok()) return status;
    if (number >= DC_ARRAYS_MAX) return DC_ERROR_RANGE;
    return cache_of(cache)->describe_batch(indices, count, number, descriptions, array_counts, structures, statuses);
  });
}

int32_t dc_cache_structure(dc_cache *cache, int64_t index, uint8_t *buffer, uint64_t buffer_bytes, uint64_t *bytes) {
  return guarded(nullptr, [&]() -> Status {
    if (!cache || !bytes || (!buffer && buffer_bytes > 0)) return DC_ERROR_ARGUMENT;
    return cache_of(cache)->structure(index, buffer, buffer_bytes, bytes);
  });
}

int32_t dc_cache_populate(dc_cache *cache) {
  return guarded(nullptr, [&]() -> Status { return cache ? cache_of(cache)->populate() : DC_ERROR_ARGUMENT; });
}

}  // extern "C"
