#include "whole_epoch.hpp"

#include <algorithm>
#include <array>

#include "windows.hpp"

namespace ddpcache {

WholeEpoch::WholeEpoch(const Plan &plan, uint64_t first_node, uint64_t last_node)
    : plan_(plan),
      per_node_(plan.windows / plan.nodes),
      rounds_(plan.length / plan.windows),
      larger_(plan.length % plan.windows),
      first_window_(first_node * per_node_) {
  if (!plan.shuffle) return;
  kept_windows_ = std::min((last_node - first_node + 1) * per_node_, windows_per_node_max);
  inner_ = std::make_unique<Lazy<Permutation>[]>(kept_windows_);
}

uint64_t WholeEpoch::node_begin(uint64_t node) const { return window_begin(plan_.length, plan_.nodes, node); }

uint64_t WholeEpoch::window_size(uint64_t window) const {
  return window_begin(plan_.length, plan_.windows, window + 1) - window_begin(plan_.length, plan_.windows, window);
}

Permutation WholeEpoch::make_inner(uint64_t window) const {
  return Permutation({window_size(window), plan_.seed, plan_.epoch, window, DC_PURPOSE_INNER});
}

template <typename Use>
auto WholeEpoch::with_inner(uint64_t window, Use &&use) const {
  const uint64_t kept = window - first_window_;  // wraps to a large number below it
  return kept < kept_windows_ ? use(inner_[kept].get([&] { return make_inner(window); })) : use(make_inner(window));
}

// From positions in a window's order to positions on the ring.
void WholeEpoch::window_to_ring(uint64_t window, uint64_t *places, uint64_t count) const {
  if (plan_.shuffle) with_inner(window, [&](const Permutation &inner) { inner.permute(places, count); });
  const uint64_t length = plan_.length;
  const uint64_t start = (window_begin(length, plan_.windows, window) + plan_.shift) % length;
  if (start == 0) return;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t sum = places[i] + start;
    places[i] = std::min(sum, sum - length);  // where sum < length the difference wraps round and is the larger
  }
}

// Sorts the places by window, so that each window's are permuted together, and puts them back.
void WholeEpoch::interleaved_to_ring(uint64_t node, uint64_t *places, uint64_t count) const {
  const uint64_t first = node * per_node_;
  const uint64_t larger_before = window_begin(larger_, plan_.windows, first);
  std::array<uint16_t, chunk_size> window_at;
  std::array<uint16_t, windows_per_node_max + 1> ends = {};
  std::array<uint64_t, chunk_size> sorted;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t place = places[i], round = std::min(place / per_node_, rounds_);
    const uint64_t turn = place - round * per_node_;  // in the last round, of the larger windows only
    const uint64_t window = round < rounds_ ? turn : window_of(larger_, plan_.windows, larger_before + turn) - first;
    places[i] = round;
    window_at[i] = static_cast<uint16_t>(window);
    ++ends[window + 1];
  }
  for (uint64_t window = 0; window < per_node_; ++window) ends[window + 1] += ends[window];
  std::array<uint16_t, windows_per_node_max + 1> next = ends;  // begins of windows, which become their ends
  for (uint64_t i = 0; i < count; ++i) sorted[next[window_at[i]]++] = places[i];
  for (uint64_t window = 0; window < per_node_; ++window) {
    if (const uint64_t size = ends[window + 1] - ends[window])
      window_to_ring(first + window, &sorted[ends[window]], size);
  }
  next = ends;
  for (uint64_t i = 0; i < count; ++i) places[i] = sorted[next[window_at[i]]++];
}

void WholeEpoch::node_to_ring(uint64_t node, uint64_t *places, uint64_t count) const {
  if (per_node_ == 1) return window_to_ring(node, places, count);
  interleaved_to_ring(node, places, count);
}

void WholeEpoch::follow_ring(uint64_t *positions, uint64_t count) const {
  if (plan_.ring) plan_.ring->permute(positions, count);
}

void WholeEpoch::read_node(uint64_t node, uint64_t *places, uint64_t count) const {
  node_to_ring(node, places, count);
  follow_ring(places, count);
}

void WholeEpoch::read(uint64_t *places, uint64_t count) const {
  for (uint64_t done = 0; done < count;) {
    const uint64_t node = window_of(plan_.length, plan_.nodes, places[done]);
    const uint64_t begin = node_begin(node), size = node_begin(node + 1) - begin, first = done;
    for (; done < count && places[done] - begin < size; ++done) places[done] -= begin;
    node_to_ring(node, places + first, done - first);
  }
  follow_ring(places, count);
}

uint64_t WholeEpoch::place_of(uint64_t index) const {
  const uint64_t on_ring = plan_.ring ? plan_.ring->inverse(index) : index;
  const uint64_t position = on_ring >= plan_.shift ? on_ring - plan_.shift : on_ring + (plan_.length - plan_.shift);
  const uint64_t window = window_of(plan_.length, plan_.windows, position);
  uint64_t round = position - window_begin(plan_.length, plan_.windows, window);
  if (plan_.shuffle) round = with_inner(window, [&](const Permutation &inner) { return inner.inverse(round); });
  const uint64_t node = window / per_node_, first = node * per_node_;
  // In the last round a window stands after the larger ones before it.
  const uint64_t turn =
      round < rounds_ ? window - first
                      : window_begin(larger_, plan_.windows, window) - window_begin(larger_, plan_.windows, first);
  return node_begin(node) + round * per_node_ + turn;
}

}  // namespace ddpcache
