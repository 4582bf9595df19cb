// What the files of the C interface share: checks of arguments, and the catch-all that lets no exception leave the
// library.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

#include "ddpcache/cache.h"
#include "status.hpp"

namespace ddpcache {

class Cache;

// Handles are the objects themselves under another name.
inline Cache *cache_of(dc_cache *cache) { return reinterpret_cast<Cache *>(cache); }

// What a program compiled against a later version may have set, and this version does not know.
inline Status check_unknown_options(const void *options, uint32_t struct_size, size_t known) {
  const unsigned char *bytes = static_cast<const unsigned char *>(options);
  for (size_t i = known; i < struct_size; ++i) {
    if (bytes[i] != 0) {
      return failure(DC_ERROR_UNSUPPORTED, "byte %zu of the options is set, of which this version knows %zu bytes", i,
                     known);
    }
  }
  return DC_OK;
}

inline Status null_argument(const char *name) { return failure(DC_ERROR_ARGUMENT, "%s is NULL", name); }

// Runs `fill` on a whole struct of this library's and hands the caller as much as his version has.
template <typename T, typename Filler>
Status export_sized(T *target, const char *name, Filler &&fill) {
  if (!target) return null_argument(name);
  const uint32_t size = target->struct_size;
  if (size < 2 * sizeof(uint32_t) || size > 1 << 16) {
    return failure(DC_ERROR_ARGUMENT, "%s.struct_size is %u: set it to sizeof first", name, size);
  }
  T ours = {};
  Status status = fill(&ours);
  ours.struct_size = size;
  std::memcpy(target, &ours, std::min<size_t>(size, sizeof ours));
  if (size > sizeof ours) std::memset(reinterpret_cast<uint8_t *>(target) + sizeof ours, 0, size - sizeof ours);
  return status;
}

// The options of a caller, whatever version he was compiled against. In cache_c.cpp.
Status import_options(const dc_cache_options *options, dc_cache_options *ours);

// Runs `body`, which returns a Status, and reports it as a number and in the caller's optional record.
template <typename Body>
int32_t guarded(dc_error *error, Body &&body) noexcept {
  try {
    const Status status = body();
    if (status.code() < 0) export_error(status, error);
    return status.code();
  } catch (const std::bad_alloc &) {
    export_error(Status(DC_ERROR_NO_MEMORY), error);
    return DC_ERROR_NO_MEMORY;
  } catch (...) {
    export_error(Status(DC_ERROR_INTERNAL), error);
    return DC_ERROR_INTERNAL;
  }
}

}  // namespace ddpcache
