#include "torch_random.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <numeric>

namespace ddpcache {
namespace {

// From this length on torch draws 64 bits and shuffles inside out, since the remainder of 32 bits would be biased: 2^32
// / 20.
constexpr uint64_t torch_large_length = (uint64_t{1} << 32) / 20;

// Place i is final after step i, so that what lies at `end` and behind need not be shuffled.
template <typename Index>
void shuffle_small(MersenneTwister &generator, std::vector<Index> &order, uint64_t end) {
  const uint64_t length = order.size();
  std::iota(order.begin(), order.end(), Index{0});
  for (uint64_t i = 0; i < std::min(end, length - 1); ++i) {
    std::swap(order[i], order[i + generator.next32() % static_cast<uint32_t>(length - i)]);
  }
}

template <typename Index>
void shuffle_large(MersenneTwister &generator, std::vector<Index> &order) {
  for (uint64_t i = 0; i < order.size(); ++i) {
    const uint64_t other = generator.next64() % (i + 1);
    order[i] = static_cast<Index>(i);
    std::swap(order[i], order[other]);
  }
}

template <typename Index>
IndexTable shuffled(MersenneTwister &generator, uint64_t length, Places places) {
  if (length == 0) return {};
  std::vector<Index> order(length);
  if (length >= torch_large_length) {
    shuffle_large(generator, order);
  } else {
    const uint64_t last = places.count > 0 ? places.first + (places.count - 1) * places.step : 0;
    shuffle_small(generator, order, std::min(last + 1, length));
  }
  if (places.first == 0 && places.step == 1 && places.count == length) return IndexTable(std::move(order));
  std::vector<Index> share(places.count);
  for (uint64_t i = 0; i < places.count; ++i) share[i] = order[(places.first + i * places.step) % length];
  return IndexTable(std::move(share));
}

}  // namespace

MersenneTwister::MersenneTwister(uint64_t seed) {
  state_[0] = static_cast<uint32_t>(seed);
  for (uint32_t i = 1; i < size; ++i) state_[i] = 1812433253u * (state_[i - 1] ^ state_[i - 1] >> 30) + i;
}

void MersenneTwister::refill() {
  constexpr uint32_t middle = 397;
  for (uint32_t i = 0; i < size; ++i) {
    const uint32_t joined = (state_[i] & 0x80000000) | (state_[(i + 1) % size] & 0x7FFFFFFF);
    state_[i] = state_[(i + middle) % size] ^ joined >> 1 ^ (joined & 1 ? 0x9908B0DF : 0);
  }
  used_ = 0;
}

void MersenneTwister::skip(uint64_t draws) {
  while (draws > 0) {
    if (used_ == size) refill();
    const uint32_t step = static_cast<uint32_t>(std::min<uint64_t>(draws, size - used_));
    used_ += step;
    draws -= step;
  }
}

void IndexTable::copy(uint64_t position, uint64_t *indices, uint64_t count, uint64_t offset) const {
  std::visit(
      [&](const auto &all) {
        for (uint64_t i = 0; i < count; ++i) indices[i] = all[position + i] + offset;
      },
      indices_);
}

uint64_t IndexTable::find(uint64_t index) const {
  return std::visit(
      [&](const auto &all) { return static_cast<uint64_t>(std::find(all.begin(), all.end(), index) - all.begin()); },
      indices_);
}

IndexTable torch_randperm(MersenneTwister &generator, uint64_t length, Places places) {
  if (length > std::vector<uint64_t>().max_size()) throw std::bad_alloc();
  if (length <= uint64_t{1} << 32) return shuffled<uint32_t>(generator, length, places);
  return shuffled<uint64_t>(generator, length, places);
}

uint64_t torch_randperm_draws(uint64_t length) {
  if (length >= torch_large_length) return 2 * length;
  return length > 0 ? length - 1 : 0;
}

}  // namespace ddpcache
