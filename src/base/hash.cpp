#include "hash.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ddpcache {

uint64_t hash64(const void *bytes, size_t length, uint64_t seed) { return XXH3_64bits_withSeed(bytes, length, seed); }

Hash128 hash128(const void *bytes, size_t length, uint64_t seed) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes, length, seed);
  return {hash.low64, hash.high64};
}

}  // namespace ddpcache
