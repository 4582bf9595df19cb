// One epoch of NODE as it is before any rank stops: the orders of all nodes, laid end to end. A *place* counts along
// them.
//
// A node's order interleaves its windows one by one and skips those that have ended; with one window it is that one's.
// The sizes of windows differ by at most one, so that all but the last round take one sample of each.
#pragma once

#include <cstdint>
#include <memory>

#include "ddpcache/sampler.h"
#include "lazy.hpp"
#include "permutation.hpp"

namespace ddpcache {

class WholeEpoch {
 public:
  // Interleaving sorts a chunk by window on the stack.
  static constexpr uint64_t windows_per_node_max = DC_SAMPLER_CANONICAL_MAX;
  static constexpr uint64_t chunk_size = 1024;

  struct Plan {
    uint64_t length = 0;
    uint64_t nodes = 1;
    uint64_t windows = 1;  // a multiple of nodes
    uint64_t shift = 0;    // of the windows on the ring
    uint64_t seed = 0;
    uint64_t epoch = 0;
    bool shuffle = true;
    const Permutation *ring = nullptr;  // none: the data set's own order
  };

  WholeEpoch() = default;
  // What the orders of nodes first_node..last_node need is kept from its first use on: up to 16 KiB a window, of at
  // most windows_per_node_max windows. What others need is made anew for each call.
  WholeEpoch(const Plan &plan, uint64_t first_node, uint64_t last_node);

  // Both turn up to chunk_size places into indices: of one node, counted from its begin, or of any.
  void read_node(uint64_t node, uint64_t *places, uint64_t count) const;
  void read(uint64_t *places, uint64_t count) const;

  uint64_t place_of(uint64_t index) const;

 private:
  uint64_t node_begin(uint64_t node) const;
  uint64_t window_size(uint64_t window) const;
  Permutation make_inner(uint64_t window) const;
  template <typename Use>
  auto with_inner(uint64_t window, Use &&use) const;

  void node_to_ring(uint64_t node, uint64_t *places, uint64_t count) const;
  void window_to_ring(uint64_t window, uint64_t *places, uint64_t count) const;
  void interleaved_to_ring(uint64_t node, uint64_t *places, uint64_t count) const;
  void follow_ring(uint64_t *positions, uint64_t count) const;

  Plan plan_;
  uint64_t per_node_ = 1;  // windows
  uint64_t rounds_ = 0;    // that every window takes part in
  uint64_t larger_ = 0;    // windows, of all, that have one sample more
  uint64_t first_window_ = 0, kept_windows_ = 0;
  std::unique_ptr<Lazy<Permutation>[]> inner_;
};

}  // namespace ddpcache
