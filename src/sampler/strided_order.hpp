// TORCH and VISCY without shuffle: index i goes to rank i mod R, and PAD begins anew at index 0.
#pragma once

#include "order.hpp"

namespace ddpcache {

class StridedOrder final : public Order {
 public:
  explicit StridedOrder(const dc_sampler_options &options) : shares_(options) {}

  void set_epoch(uint64_t) override {}
  uint64_t size() const override { return shares_.per_rank; }
  Status real_size(uint64_t *size) const override;
  void read(uint64_t position, uint64_t *indices, uint64_t count) const override;
  Status find(uint64_t index, Place *place) const override;
  uint64_t shard_size() const override;
  void shard_read(uint64_t position, uint64_t *indices, uint64_t count) const override;
  bool keeps(uint64_t index) const override;

 private:
  uint64_t dealt() const;

  Shares shares_;
};

}  // namespace ddpcache
