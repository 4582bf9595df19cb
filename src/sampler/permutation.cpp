#include "permutation.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ddpcache/sampler.h"

namespace ddpcache {

static_assert(WideFeistel::length_max >= DC_SAMPLER_LENGTH_MAX);
static_assert(Permutation::table_length_max <= uint64_t{1} << 16, "table entries are 16 bits");

namespace {

// With AVX-512 a block costs as much as six positions one by one, without any vectors as much as fourteen.
constexpr size_t scalar_count_max = 6;

const FeistelKernel &fastest_kernel() {
  const FeistelKernels kernels = feistel_kernels();
  return kernels.first[kernels.count - 1];
}

void run(const NarrowFeistel &network, uint64_t *words, size_t blocks) {
  fastest_kernel().narrow(network, words, blocks);
}

void run(const WideFeistel &network, uint64_t *words, size_t blocks) { fastest_kernel().wide(network, words, blocks); }

template <typename Network>
void permute_with(const Network &network, uint64_t *words, size_t count) {
  const size_t blocks = count / Network::block_size;
  if (blocks) run(network, words, blocks);
  words += blocks * Network::block_size;
  count -= blocks * Network::block_size;
  if (count <= scalar_count_max) {
    for (size_t i = 0; i < count; ++i) words[i] = network.at(words[i]);
    return;
  }
  uint64_t block[Network::block_size] = {};
  std::copy_n(words, count, block);
  run(network, block, 1);
  std::copy_n(block, count, words);
}

}  // namespace

Permutation::Permutation(const PermutationKey &key) : length_(key.length), method_(build(key)) {}

std::variant<Permutation::Table, NarrowFeistel, WideFeistel> Permutation::build(const PermutationKey &key) {
  KeyStream keys(key);
  if (key.length <= table_length_max) return shuffled_table(static_cast<uint32_t>(key.length), keys);
  if (key.length <= NarrowFeistel::length_max) return NarrowFeistel(key.length, keys);
  return WideFeistel(key.length, keys);
}

// Fisher and Yates' shuffle as Durstenfeld wrote it (1964).
Permutation::Table Permutation::shuffled_table(uint32_t length, KeyStream &keys) {
  Table table{std::vector<uint16_t>(length), std::vector<uint16_t>(length)};
  std::iota(table.forward.begin(), table.forward.end(), uint16_t{0});
  for (uint32_t left = length; left > 1; --left) std::swap(table.forward[left - 1], table.forward[keys.below(left)]);
  for (uint32_t i = 0; i < length; ++i) table.backward[table.forward[i]] = static_cast<uint16_t>(i);
  return table;
}

uint64_t Permutation::at(uint64_t position) const {
  if (const Table *table = std::get_if<Table>(&method_)) return table->forward[position];
  if (const NarrowFeistel *network = std::get_if<NarrowFeistel>(&method_)) return network->at(position);
  return std::get<WideFeistel>(method_).at(position);
}

uint64_t Permutation::inverse(uint64_t index) const {
  if (const Table *table = std::get_if<Table>(&method_)) return table->backward[index];
  if (const NarrowFeistel *network = std::get_if<NarrowFeistel>(&method_)) return network->inverse(index);
  return std::get<WideFeistel>(method_).inverse(index);
}

void Permutation::permute(uint64_t *words, size_t count) const {
  if (const Table *table = std::get_if<Table>(&method_)) {
    for (size_t i = 0; i < count; ++i) words[i] = table->forward[words[i]];
  } else if (const NarrowFeistel *network = std::get_if<NarrowFeistel>(&method_)) {
    permute_with(*network, words, count);
  } else {
    permute_with(std::get<WideFeistel>(method_), words, count);
  }
}

void Permutation::read(uint64_t position, uint64_t *indices, size_t count) const {
  constexpr size_t chunk_size = 1024;  // what is written stays in the L1 cache until it is permuted
  for (size_t done = 0; done < count; done += chunk_size) {
    const size_t part = std::min(chunk_size, count - done);
    std::iota(indices + done, indices + done + part, position + done);
    permute(indices + done, part);
  }
}

}  // namespace ddpcache
