#include "node_order.hpp"

#include <algorithm>

#include "integers.hpp"

namespace ddpcache {
namespace {

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

// Indices are made in place, a chunk at a time, so that all steps of a chunk find it in the L1 cache.
template <typename Read>
void by_chunks(uint64_t *indices, uint64_t count, Read &&read) {
  for (uint64_t done = 0; done < count; done += WholeEpoch::chunk_size) {
    read(done, indices + done, std::min(WholeEpoch::chunk_size, count - done));
  }
}

}  // namespace

NodeOrder::NodeOrder(const dc_sampler_options &options)
    : length_(static_cast<uint64_t>(options.length)),
      node_(options.node),
      nodes_(options.nodes),
      local_rank_(options.local_rank),
      local_size_(options.local_size),
      tail_(options.tail),
      seed_(options.seed),
      ring_seed_(options.ring_seed),
      canonical_(options.canonical_nodes),
      shuffle_(options.shuffle != 0),
      ring_identity_(options.ring_identity != 0),
      shard_begin_(window_begin(length_, nodes_, node_)),
      shard_end_(window_begin(length_, nodes_, node_ + 1)),
      following_{{options.exchange_ppm, 0, 0}, windows_of(nodes_)},
      current_(following_) {
  if (following_.windows > 1 && !ring_identity_) make_ring();
  set_epoch(0);
}

uint64_t NodeOrder::shift_at(const Movement &movement, uint64_t epoch) const {
  return movement.exchange.shift_at(epoch, length_, movement.windows);
}

void NodeOrder::make_ring() { ring_.emplace(PermutationKey{length_, ring_seed_, 0, 0, DC_PURPOSE_RING}); }

const Permutation *NodeOrder::ring_of(uint64_t windows) const {
  return windows > 1 && !ring_identity_ ? &*ring_ : nullptr;
}

void NodeOrder::set_epoch(uint64_t epoch) { enter(epoch, following_, nodes_, Stages(length_)); }

void NodeOrder::enter(uint64_t epoch, const Movement &current, uint64_t nodes, const Stages &stages) {
  const uint64_t rest = stages.rest();
  const uint64_t begin = window_begin(rest, nodes_, node_), end = window_begin(rest, nodes_, node_ + 1);
  // An empty share borrows the sample at its begin.
  uint64_t ends[] = {begin, std::max(begin + 1, end) - 1};
  uint64_t first_node = node_, last_node = node_;
  if (stages.count() > 0) {
    first_node = last_node = 0;
    if (rest > 0) {
      stages.to_whole(ends, 2);
      first_node = window_of(length_, nodes, ends[0]);
      last_node = window_of(length_, nodes, ends[1]);
    }
  }
  const WholeEpoch::Plan plan = {length_, nodes, current.windows, shift_at(current, epoch),
                                 seed_,   epoch, shuffle_,        ring_of(current.windows)};
  whole_ = WholeEpoch(plan, first_node, last_node);  // the last that can fail
  epoch_ = epoch;
  current_ = current;
  stages_ = stages;
  share_begin_ = begin;
  share_size_ = end - begin;
}

uint64_t NodeOrder::size() const {
  const uint64_t rest = stages_.rest(), world = nodes_ * local_size_;
  switch (tail_) {
    case DC_TAIL_DROP: return rest / world;
    case DC_TAIL_EXACT: return count_of_stride(share_size_, local_rank_, local_size_);
    default: return ceil_div(rest, world);
  }
}

Status NodeOrder::real_size(uint64_t *size) const {
  *size = std::min(this->size(), count_of_stride(share_size_, local_rank_, local_size_));
  return DC_OK;
}

void NodeOrder::read_chunk(uint64_t position, uint64_t *indices, uint64_t count) const {
  if (share_size_ == 0) {  // PAD with fewer samples than nodes: one sample is borrowed, and repeated
    std::fill_n(indices, count, share_begin_);
  } else {
    fill_cyclic(indices, count, uint128{position} * local_size_ + local_rank_, local_size_, share_size_);
    if (stages_.count() == 0) return whole_.read_node(node_, indices, count);
    for (uint64_t i = 0; i < count; ++i) indices[i] += share_begin_;
  }
  stages_.to_whole(indices, count);
  whole_.read(indices, count);
}

void NodeOrder::read(uint64_t position, uint64_t *indices, uint64_t count) const {
  by_chunks(indices, count,
            [&](uint64_t done, uint64_t *chunk, uint64_t size) { read_chunk(position + done, chunk, size); });
}

Status NodeOrder::find(uint64_t index, Place *place) const {
  uint64_t at = whole_.place_of(index);
  if (!stages_.from_whole(&at)) return DC_END;
  const uint64_t node = window_of(stages_.rest(), nodes_, at);
  const uint64_t on_node = at - window_begin(stages_.rest(), nodes_, node);
  if (tail_ == DC_TAIL_DROP && on_node / local_size_ >= size()) return DC_END;
  *place = {node * local_size_ + on_node % local_size_, on_node / local_size_};
  return DC_OK;
}

void NodeOrder::shard_read(uint64_t position, uint64_t *indices, uint64_t count) const {
  const uint64_t shift = shift_at(current_, epoch_);
  const Permutation *ring = ring_of(following_.windows);
  by_chunks(indices, count, [&](uint64_t done, uint64_t *chunk, uint64_t size) {
    const uint64_t first = shard_begin_ + position + done + shift;
    for (uint64_t i = 0; i < size; ++i) chunk[i] = std::min(first + i, first + i - length_);  // the latter may wrap
    if (ring) ring->permute(chunk, size);
  });
}

bool NodeOrder::keeps(uint64_t index) const {
  const Permutation *ring = ring_of(following_.windows);
  const uint64_t on_ring = ring ? ring->inverse(index) : index;
  const auto in_shard = [&](uint64_t epoch) {
    const uint64_t shift = shift_at(current_, epoch);
    const uint64_t position = on_ring >= shift ? on_ring - shift : on_ring + (length_ - shift);
    return position - shard_begin_ < shard_size();
  };
  return in_shard(epoch_) || (epoch_ > 0 && in_shard(epoch_ - 1));
}

uint64_t NodeOrder::consumed_max() const {
  return tail_ == DC_TAIL_DROP ? size() : stages_.consumed_max(nodes_, local_size_);
}

Progress NodeOrder::progress(uint64_t consumed) const {
  Progress progress = {epoch_, current_.exchange, stages_};
  progress.stages.add({nodes_, local_size_, consumed});
  return progress;
}

void NodeOrder::resume(const Progress &progress) {
  const uint64_t nodes = progress.stages[0].nodes;
  const Movement before = {progress.exchange, windows_of(nodes)};
  const uint64_t next_epoch = progress.epoch + 1;
  Movement following = {progress.exchange, windows_of(nodes_)};
  if (before.windows != following.windows || before.exchange.ppm != following_.exchange.ppm) {
    following.exchange = {following_.exchange.ppm, next_epoch, shift_at(before, next_epoch)};
  }
  if (before.windows > 1 && !ring_identity_ && !ring_) make_ring();
  enter(progress.epoch, before, nodes, progress.stages);
  following_ = following;
}

}  // namespace ddpcache
