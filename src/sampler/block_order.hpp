// VISCY with shuffle: each rank shuffles one contiguous block. Where the length does not divide, the last blocks are
// moved back into the data set and overlap those before them.
#pragma once

#include "lazy.hpp"
#include "order.hpp"
#include "torch_random.hpp"

namespace ddpcache {

class BlockOrder final : public Order {
 public:
  explicit BlockOrder(const dc_sampler_options &options) : shares_(options), seed_(options.seed) {}

  void set_epoch(uint64_t epoch) override;
  uint64_t size() const override { return shares_.per_rank; }
  Status real_size(uint64_t *size) const override;
  void read(uint64_t position, uint64_t *indices, uint64_t count) const override;
  Status find(uint64_t index, Place *place) const override;
  uint64_t shard_size() const override;
  void shard_read(uint64_t position, uint64_t *indices, uint64_t count) const override;
  bool keeps(uint64_t index) const override { return index - begin(shares_.first_local_rank) < shard_size(); }

 private:
  uint64_t begin(uint64_t rank) const;
  IndexTable inside(uint64_t rank) const;

  Shares shares_;
  uint64_t seed_;
  uint64_t epoch_ = 0;
  Lazy<IndexTable> own_;
};

}  // namespace ddpcache
