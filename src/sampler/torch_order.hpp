// TORCH with shuffle: one permutation of the data set, dealt to the ranks in turn.
#pragma once

#include "lazy.hpp"
#include "order.hpp"
#include "torch_random.hpp"

namespace ddpcache {

class TorchOrder final : public Order {
 public:
  explicit TorchOrder(const dc_sampler_options &options) : shares_(options), seed_(options.seed) {}

  void set_epoch(uint64_t epoch) override;
  uint64_t size() const override { return shares_.per_rank; }
  Status real_size(uint64_t *size) const override;
  void read(uint64_t position, uint64_t *indices, uint64_t count) const override {
    own().copy(position, indices, count, 0);
  }
  Status find(uint64_t index, Place *place) const override;
  uint64_t shard_size() const override { return shares_.length; }
  void shard_read(uint64_t position, uint64_t *indices, uint64_t count) const override;
  bool keeps(uint64_t) const override { return true; }

 private:
  uint64_t dealt() const;
  const IndexTable &own() const;

  Shares shares_;
  uint64_t seed_;
  uint64_t epoch_ = 0;
  Lazy<IndexTable> own_;
};

}  // namespace ddpcache
