// A sampler: one rank's order, the epoch it is in and how far it has been read.
#pragma once

#include <memory>

#include "node_order.hpp"
#include "order.hpp"
#include "sampler_state.hpp"

namespace ddpcache {

class Sampler {
 public:
  // `options` is of this version's size; its values are checked here.
  static Status open(const dc_sampler_options &options, std::unique_ptr<Sampler> *sampler);

  Status set_epoch(int64_t epoch);
  Status next(int64_t *index);
  Status seek(int64_t position);
  int64_t epoch() const { return epoch_; }
  int64_t position() const { return position_; }

  int64_t size() const { return static_cast<int64_t>(order_->size() - skipped_); }
  Status real_size(int64_t *size) const;
  Status read(int64_t position, int64_t *indices, int64_t count) const;
  Status find(int64_t index, uint32_t *rank, int64_t *position) const;
  int64_t shard_size() const { return static_cast<int64_t>(order_->shard_size()); }
  Status shard_read(int64_t position, int64_t *indices, int64_t count) const;
  Status keeps(int64_t index) const;

  Status save_state(int64_t consumed, StateBytes *bytes) const;
  Status load_state(const uint8_t *bytes, uint64_t count);

 private:
  explicit Sampler(const dc_sampler_options &options);

  Status check_index(int64_t index) const;
  Status resume(const Progress &progress);

  dc_sampler_options options_;
  std::unique_ptr<Order> order_;
  NodeOrder *node_order_ = nullptr;  // order_, where it is one: only NODE resumes under another layout
  int64_t epoch_ = 0;
  int64_t position_ = 0;
  bool resumed_ = false;  // in the epoch of a loaded state
  uint64_t skipped_ = 0;  // places of each rank that were consumed before it, for orders other than NODE
};

}  // namespace ddpcache
