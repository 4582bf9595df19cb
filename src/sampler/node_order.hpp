// NODE: windows of a ring that stay on their node, each in a fresh order every epoch.
#pragma once

#include <optional>

#include "order.hpp"
#include "permutation.hpp"
#include "windows.hpp"

namespace ddpcache {

class NodeOrder final : public Order {
 public:
  explicit NodeOrder(const dc_sampler_options &options);

  void set_epoch(uint64_t epoch) override;
  uint64_t size() const override;
  Status real_size(uint64_t *size) const override;
  void read(uint64_t position, uint64_t *indices, uint64_t count) const override;
  Status find(uint64_t index, Place *place) const override;
  uint64_t shard_size() const override { return window_size(node_); }
  void shard_read(uint64_t position, uint64_t *indices, uint64_t count) const override;

 private:
  uint64_t begin(uint64_t node) const { return window_begin(shares_.length, nodes_, node); }
  uint64_t window_size(uint64_t node) const { return begin(node + 1) - begin(node); }
  Permutation inner_of(uint64_t node, uint64_t epoch) const;
  void read_chunk(uint64_t position, uint64_t *indices, uint64_t count) const;
  void follow_ring(uint64_t first, uint64_t *offsets, uint64_t count) const;

  Shares shares_;
  uint64_t node_, nodes_, local_rank_;
  uint64_t seed_;
  bool shuffle_;
  bool exact_;
  Exchange exchange_;
  uint64_t epoch_ = 0;
  uint64_t shift_ = 0;
  std::optional<Permutation> ring_;   // none: the data set's own order
  std::optional<Permutation> inner_;  // none: unshuffled
};

}  // namespace ddpcache
