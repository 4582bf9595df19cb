// torch's random permutation, to the bit: the Mersenne Twister and the two shuffles of torch.randperm on the CPU.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

namespace ddpcache {

// MT19937 (Matsumoto and Nishimura, 1998), seeded as torch seeds it: with the low 32 bits.
class MersenneTwister {
 public:
  explicit MersenneTwister(uint64_t seed);

  uint32_t next32() {
    if (used_ == size) refill();
    uint32_t word = state_[used_++];
    word ^= word >> 11;
    word ^= word << 7 & 0x9D2C5680;
    word ^= word << 15 & 0xEFC60000;
    return word ^ word >> 18;
  }

  // torch's 64-bit draw: the first word is the high one.
  uint64_t next64() {
    const uint64_t high = next32();
    return high << 32 | next32();
  }

  void skip(uint64_t draws);

 private:
  static constexpr uint32_t size = 624;
  void refill();

  std::array<uint32_t, size> state_;
  uint32_t used_ = size;
};

// Indices in the smallest type that holds them: 4 bytes each while they fit.
class IndexTable {
 public:
  IndexTable() = default;
  explicit IndexTable(std::vector<uint32_t> indices) : indices_(std::move(indices)) {}
  explicit IndexTable(std::vector<uint64_t> indices) : indices_(std::move(indices)) {}

  // Adds `offset` to each index on the way.
  void copy(uint64_t position, uint64_t *indices, uint64_t count, uint64_t offset) const;
  // The place of an index; the size where it is not there.
  uint64_t find(uint64_t index) const;

 private:
  std::variant<std::vector<uint32_t>, std::vector<uint64_t>> indices_;
};

// Which places of a permutation are wanted: (first + i * step) mod its length, for i below count.
struct Places {
  uint64_t first;
  uint64_t step;
  uint64_t count;
};

// The indices that randperm(length) has at these places. Takes O(length) memory while it runs. Throws std::bad_alloc.
IndexTable torch_randperm(MersenneTwister &generator, uint64_t length, Places places);

// How many 32-bit words randperm(length) draws.
uint64_t torch_randperm_draws(uint64_t length);

}  // namespace ddpcache
