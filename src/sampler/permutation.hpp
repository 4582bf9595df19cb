// The permutation of NODE: a bijection of [0, length) that belongs to a key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "feistel.hpp"
#include "key.hpp"

namespace ddpcache {

class Permutation {
 public:
  // Up to this length a Feistel network's halves are too small to look random, and an exact shuffle is cheap.
  static constexpr uint64_t table_length_max = 4096;

  explicit Permutation(const PermutationKey &key);

  uint64_t length() const { return length_; }

  // Both take a number below length().
  uint64_t at(uint64_t position) const;
  uint64_t inverse(uint64_t index) const;

  // at() of each of `count` positions, in place.
  void permute(uint64_t *words, size_t count) const;

  // at() of the `count` positions from `position` on.
  void read(uint64_t position, uint64_t *indices, size_t count) const;

 private:
  struct Table {
    std::vector<uint16_t> forward, backward;
  };

  static std::variant<Table, NarrowFeistel, WideFeistel> build(const PermutationKey &key);
  static Table shuffled_table(uint32_t length, KeyStream &keys);

  uint64_t length_;
  std::variant<Table, NarrowFeistel, WideFeistel> method_;
};

}  // namespace ddpcache
