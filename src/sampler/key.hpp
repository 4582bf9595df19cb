// Keys of permutations, and the numbers drawn from them.
#pragma once

#include <cstdint>

#include "hash.hpp"

namespace ddpcache {

// Everything that an order depends on. The parts are hashed side by side, never added: seeds and epochs that lie close
// together would otherwise share orders (seed 1 in epoch 2, seed 2 in epoch 1).
struct PermutationKey {
  uint64_t length;
  uint64_t seed;
  uint64_t epoch;
  uint64_t window;
  uint64_t purpose;
};

// An endless stream of 64-bit numbers: the hash of the key's own hash and a counter.
class KeyStream {
 public:
  explicit KeyStream(const PermutationKey &key);

  uint64_t next();

  // A number below `bound` > 0, each equally likely.
  uint32_t below(uint32_t bound);

 private:
  Hash128 root_;
  uint64_t counter_ = 0;
  uint64_t spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace ddpcache
