// NODE: windows of a ring that stay on their node, or move a little each epoch, each in a fresh order every epoch.
#pragma once

#include <optional>

#include "order.hpp"
#include "permutation.hpp"
#include "progress.hpp"
#include "whole_epoch.hpp"

namespace ddpcache {

class NodeOrder final : public Order {
 public:
  explicit NodeOrder(const dc_sampler_options &options);

  void set_epoch(uint64_t epoch) override;
  uint64_t size() const override;
  Status real_size(uint64_t *size) const override;
  void read(uint64_t position, uint64_t *indices, uint64_t count) const override;
  Status find(uint64_t index, Place *place) const override;
  uint64_t shard_size() const override { return shard_end_ - shard_begin_; }
  void shard_read(uint64_t position, uint64_t *indices, uint64_t count) const override;
  bool keeps(uint64_t index) const override;

  // The most that any rank is dealt in what is left of this epoch.
  uint64_t consumed_max() const;
  // Where the epoch stands when each rank has trained on `consumed` more of its samples.
  Progress progress(uint64_t consumed) const;
  // Goes on from there. Throws std::bad_alloc, and has changed nothing then.
  void resume(const Progress &progress);
  bool has_room_to_resume(const Progress &progress) const { return progress.stages.has_room(nodes_, local_size_); }

 private:
  // The exchange of an epoch, and how many windows it moves.
  struct Movement {
    Exchange exchange;
    uint64_t windows;
  };

  uint64_t windows_of(uint64_t nodes) const { return canonical_ ? canonical_ : nodes; }
  uint64_t shift_at(const Movement &movement, uint64_t epoch) const;
  const Permutation *ring_of(uint64_t windows) const;
  void make_ring();
  // `nodes` is how many the epoch began with.
  void enter(uint64_t epoch, const Movement &current, uint64_t nodes, const Stages &stages);
  void read_chunk(uint64_t position, uint64_t *indices, uint64_t count) const;

  uint64_t length_;
  uint64_t node_, nodes_, local_rank_, local_size_;
  int32_t tail_;
  uint64_t seed_, ring_seed_, canonical_;
  bool shuffle_, ring_identity_;
  uint64_t shard_begin_, shard_end_;  // of this node, on the ring before it is shifted
  std::optional<Permutation> ring_;   // none: no layout so far has needed it

  Movement following_;  // of epochs that begin under this layout
  Movement current_;    // of this epoch: another one only where it began under another layout
  uint64_t epoch_ = 0;
  Stages stages_;
  uint64_t share_begin_ = 0, share_size_ = 0;  // of this node, in what is left of the epoch
  WholeEpoch whole_;
};

}  // namespace ddpcache
