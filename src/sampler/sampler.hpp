// A sampler: one rank's order, the epoch it is in and how far it has been read.
#pragma once

#include <memory>

#include "order.hpp"

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

  int64_t size() const { return static_cast<int64_t>(order_->size()); }
  Status real_size(int64_t *size) const;
  Status read(int64_t position, int64_t *indices, int64_t count) const;
  Status find(int64_t index, uint32_t *rank, int64_t *position) const;
  int64_t shard_size() const { return static_cast<int64_t>(order_->shard_size()); }
  Status shard_read(int64_t position, int64_t *indices, int64_t count) const;

 private:
  Sampler(std::unique_ptr<Order> order, int64_t length) : order_(std::move(order)), length_(length) {}

  std::unique_ptr<Order> order_;
  int64_t length_;
  int64_t epoch_ = 0;
  int64_t position_ = 0;
};

}  // namespace ddpcache
