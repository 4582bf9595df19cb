#include "node_order.hpp"

#include <algorithm>

namespace ddpcache {
namespace {

// Indices are made in place, a chunk at a time, so that all steps of a chunk find it in the L1 cache.
constexpr uint64_t chunk_size = 1024;

// Positions first, first + step, ... of a cycle of `length` > 0.
void fill_cyclic(uint64_t *words, uint64_t count, uint128 first, uint64_t step, uint64_t length) {
  while (count > 0) {
    const uint64_t start = static_cast<uint64_t>(first % length);
    const uint64_t run = std::min(count, (length - start - 1) / step + 1);
    for (uint64_t i = 0; i < run; ++i) words[i] = start + i * step;
    words += run;
    count -= run;
    first = uint128{start} + uint128{run} * step;
  }
}

}  // namespace

NodeOrder::NodeOrder(const dc_sampler_options &options)
    : shares_(options),
      node_(options.node),
      nodes_(options.nodes),
      local_rank_(options.local_rank),
      seed_(options.seed),
      shuffle_(options.shuffle != 0),
      exact_(options.tail == DC_TAIL_EXACT) {
  if (nodes_ > 1 && !options.ring_identity)
    ring_.emplace(PermutationKey{shares_.length, options.ring_seed, 0, 0, DC_PURPOSE_RING});
  set_epoch(0);
}

Permutation NodeOrder::inner_of(uint64_t node, uint64_t epoch) const {
  return Permutation({window_size(node), seed_, epoch, node, DC_PURPOSE_INNER});
}

void NodeOrder::set_epoch(uint64_t epoch) {
  if (shuffle_) inner_ = inner_of(node_, epoch);  // first, since only this can fail
  epoch_ = epoch;
  shift_ = exchange_.shift_at(epoch, shares_.length, nodes_);
}

uint64_t NodeOrder::size() const {
  return exact_ ? count_of_stride(window_size(node_), local_rank_, shares_.local_size) : shares_.per_rank;
}

Status NodeOrder::real_size(uint64_t *size) const {
  *size = std::min(this->size(), count_of_stride(window_size(node_), local_rank_, shares_.local_size));
  return DC_OK;
}

// From offsets into the window that begins at ring position `first`, to indices.
void NodeOrder::follow_ring(uint64_t first, uint64_t *offsets, uint64_t count) const {
  const uint64_t length = shares_.length;
  const uint64_t start = (first + shift_) % length;
  if (start != 0) {
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t sum = offsets[i] + start;
      offsets[i] = std::min(sum, sum - length);  // where sum < length the difference wraps round and is the larger
    }
  }
  if (ring_) ring_->permute(offsets, count);
}

void NodeOrder::read_chunk(uint64_t position, uint64_t *indices, uint64_t count) const {
  const uint64_t window = window_size(node_);
  if (window == 0) {  // PAD with fewer samples than nodes: one sample is borrowed, and repeated
    std::fill_n(indices, count, 0);
  } else {
    const uint64_t step = shares_.local_size;
    fill_cyclic(indices, count, uint128{position} * step + local_rank_, step, window);
    if (inner_) inner_->permute(indices, count);
  }
  follow_ring(begin(node_), indices, count);
}

void NodeOrder::read(uint64_t position, uint64_t *indices, uint64_t count) const {
  for (uint64_t done = 0; done < count; done += chunk_size) {
    read_chunk(position + done, indices + done, std::min(chunk_size, count - done));
  }
}

Status NodeOrder::find(uint64_t index, Place *place) const {
  const uint64_t on_ring = ring_ ? ring_->inverse(index) : index;
  const uint64_t position = on_ring >= shift_ ? on_ring - shift_ : on_ring + (shares_.length - shift_);
  const uint64_t node = window_of(shares_.length, nodes_, position);
  uint64_t place_on_node = position - begin(node);
  if (shuffle_) {
    place_on_node = node == node_ ? inner_->inverse(place_on_node) : inner_of(node, epoch_).inverse(place_on_node);
  }
  const uint64_t step = shares_.local_size;
  if (shares_.drop && place_on_node / step >= shares_.per_rank) return DC_END;
  *place = {node * step + place_on_node % step, place_on_node / step};
  return DC_OK;
}

void NodeOrder::shard_read(uint64_t position, uint64_t *indices, uint64_t count) const {
  for (uint64_t done = 0; done < count; done += chunk_size) {
    const uint64_t part = std::min(chunk_size, count - done);
    for (uint64_t i = 0; i < part; ++i) indices[done + i] = position + done + i;
    follow_ring(begin(node_), indices + done, part);
  }
}

}  // namespace ddpcache
