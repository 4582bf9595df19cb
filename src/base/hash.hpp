// XXH3, the one hash of the project, for keys, fingerprints and checksums.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddpcache {

struct Hash128 {
  uint64_t low;
  uint64_t high;
  friend bool operator==(const Hash128 &, const Hash128 &) = default;
};

uint64_t hash64(const void *bytes, size_t length, uint64_t seed = 0);
Hash128 hash128(const void *bytes, size_t length, uint64_t seed = 0);

}  // namespace ddpcache
