// A keyed bijection of [0, length) in constant memory: a generalised Feistel network with cycle walking.
//
// The domain is a * 2^c, the least such multiple not below `length` with c half its bits; a position splits into
// high < a and low < 2^c. Rounds alternate: a keyed hash of one half is added to the other, modulo that one's size,
// which can always be subtracted again. Where the domain is larger than `length`, the few positions that land outside
// are sent through once more until they do not (Black and Rogaway, Ciphers with Arbitrary Finite Domains, 2002). Since
// a is not a power of two, the domain is less than 1 + 2^-(c-1) times `length`, and walking is rare for every length.
//
// Halves of 16 bits are the fast case: a vector register holds twice as many as of the words that they make up.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "key.hpp"

namespace ddpcache {

template <typename Half>
struct DoubleOf;
template <>
struct DoubleOf<uint16_t> {
  using type = uint32_t;
};
template <>
struct DoubleOf<uint32_t> {
  using type = uint64_t;
};

// `Rounds` is a parameter only so that tests can show that fewer do not do.
template <typename Half, int Rounds>
class Feistel {
 public:
  using Double = typename DoubleOf<Half>::type;
  static constexpr int half_bits = 8 * sizeof(Half);
  // Halves stay below 2^(half_bits-1), so that adding two does not overflow.
  static constexpr uint64_t length_max = uint64_t{1} << (2 * half_bits - 2);
  static constexpr size_t block_size = 128;

  Feistel() = default;

  // `length` is in [2, length_max].
  Feistel(uint64_t length, KeyStream &keys) : length_(length) {
    low_bits_ = static_cast<uint32_t>(std::bit_width(length - 1)) / 2;
    low_size_ = static_cast<Half>(uint64_t{1} << low_bits_);
    high_size_ = static_cast<Half>(((length - 1) >> low_bits_) + 1);
    for (Round &round : rounds_) {
      round.multiplier = static_cast<Half>(keys.next() | 1);
      round.addend = static_cast<Half>(keys.next());
      round.spread = static_cast<Half>(keys.next() | 1);
    }
  }

  uint64_t at(uint64_t position) const {
    do position = forward(position);
    while (position >= length_);
    return position;
  }

  uint64_t inverse(uint64_t index) const {
    do index = backward(index);
    while (index >= length_);
    return index;
  }

  // at() of block_size positions, in place. Straight-line code over arrays that compilers turn into vector
  // instructions; inlined into one function for each instruction set (feistel_kernels.cpp).
  [[gnu::always_inline]] inline void permute_block(uint64_t *words) const {
    Half high[block_size], low[block_size];
    const uint64_t low_mask = low_size_ - 1u;
    for (size_t i = 0; i < block_size; ++i) {
      high[i] = static_cast<Half>(words[i] >> low_bits_);
      low[i] = static_cast<Half>(words[i] & low_mask);
    }
    for (int r = 0; r < Rounds; ++r) {
      const Round round = rounds_[r];
      if (r % 2 == 0) {
        for (size_t i = 0; i < block_size; ++i) high[i] = add(high[i], hash(low[i], round, high_size_), high_size_);
      } else {
        for (size_t i = 0; i < block_size; ++i) low[i] = add(low[i], hash(high[i], round, low_size_), low_size_);
      }
    }
    uint64_t outside = 0;
    for (size_t i = 0; i < block_size; ++i) {
      words[i] = uint64_t{high[i]} << low_bits_ | low[i];
      outside |= (length_ - 1) - words[i];  // the sign bit says that words[i] >= length
    }
    if (outside >> 63) [[unlikely]]
      walk(words);
  }

 private:
  struct Round {
    Half multiplier, addend, spread;
  };

  [[gnu::always_inline]] static Half hash(Half from, Round round, Half size) {
    Half mixed = static_cast<Half>(Double{from} * round.multiplier + round.addend);
    mixed = static_cast<Half>(mixed ^ (mixed >> (half_bits / 2)));
    mixed = static_cast<Half>(Double{mixed} * round.spread);
    return static_cast<Half>((Double{mixed} * size) >> half_bits);
  }

  // (to + term) mod size without a branch: subtracting too much wraps round to a large number.
  [[gnu::always_inline]] static Half add(Half to, Half term, Half size) {
    const Half sum = static_cast<Half>(to + term);
    const Half reduced = static_cast<Half>(sum - size);
    return sum < reduced ? sum : reduced;
  }

  static Half subtract(Half from, Half term, Half size) {
    const Half difference = static_cast<Half>(from - term);
    return from < term ? static_cast<Half>(difference + size) : difference;
  }

  uint64_t forward(uint64_t word) const {
    Half high = static_cast<Half>(word >> low_bits_), low = static_cast<Half>(word & (low_size_ - 1u));
    for (int r = 0; r < Rounds; ++r) {
      if (r % 2 == 0) {
        high = add(high, hash(low, rounds_[r], high_size_), high_size_);
      } else {
        low = add(low, hash(high, rounds_[r], low_size_), low_size_);
      }
    }
    return uint64_t{high} << low_bits_ | low;
  }

  uint64_t backward(uint64_t word) const {
    Half high = static_cast<Half>(word >> low_bits_), low = static_cast<Half>(word & (low_size_ - 1u));
    for (int r = Rounds; r-- > 0;) {
      if (r % 2 == 0) {
        high = subtract(high, hash(low, rounds_[r], high_size_), high_size_);
      } else {
        low = subtract(low, hash(high, rounds_[r], low_size_), low_size_);
      }
    }
    return uint64_t{high} << low_bits_ | low;
  }

  [[gnu::noinline]] void walk(uint64_t *words) const {
    for (size_t i = 0; i < block_size; ++i) {
      while (words[i] >= length_) words[i] = forward(words[i]);
    }
  }

  uint64_t length_ = 0;
  uint32_t low_bits_ = 0;
  Half low_size_ = 0, high_size_ = 0;
  std::array<Round, Rounds> rounds_{};
};

// The statistical tests find three to five rounds at once, six when given ten times the keys, and nothing at seven or
// eight: docs/decisions/010-permutation.md.
inline constexpr int feistel_rounds = 8;

using NarrowFeistel = Feistel<uint16_t, feistel_rounds>;
using WideFeistel = Feistel<uint32_t, feistel_rounds>;

// Permutes `blocks` blocks in place.
struct FeistelKernel {
  const char *name;
  void (*narrow)(const NarrowFeistel &, uint64_t *words, size_t blocks);
  void (*wide)(const WideFeistel &, uint64_t *words, size_t blocks);
};

// Every kernel that this processor can run, the fastest last. All give the same results.
struct FeistelKernels {
  const FeistelKernel *first;
  size_t count;
};
FeistelKernels feistel_kernels();

}  // namespace ddpcache
