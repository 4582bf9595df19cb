#include "key.hpp"

#include "ddpcache/sampler.h"

namespace ddpcache {

KeyStream::KeyStream(const PermutationKey &key) {
  const uint64_t words[] = {DC_SAMPLER_ALGORITHM_VERSION, key.length, key.seed, key.epoch, key.window, key.purpose};
  root_ = hash128(words, sizeof words);
}

uint64_t KeyStream::next() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const uint64_t words[] = {root_.low, root_.high, counter_++};
  const Hash128 drawn = hash128(words, sizeof words);
  spare_ = drawn.high;
  has_spare_ = true;
  return drawn.low;
}

// Multiply and reject (Lemire, Fast Random Integer Generation in an Interval, 2019): the low half of the product tells
// the few draws that would make some results more likely than others.
uint32_t KeyStream::below(uint32_t bound) {
  const uint32_t surplus = -bound % bound;
  for (;;) {
    const uint64_t product = (next() >> 32) * bound;
    if (static_cast<uint32_t>(product) >= surplus) return static_cast<uint32_t>(product >> 32);
  }
}

}  // namespace ddpcache
