#include "torch_order.hpp"

#include <algorithm>
#include <numeric>

namespace ddpcache {

void TorchOrder::set_epoch(uint64_t epoch) {
  if (epoch != epoch_) own_.reset();
  epoch_ = epoch;
}

// How many different samples an epoch deals: the first so many places of the permutation.
uint64_t TorchOrder::dealt() const { return std::min(shares_.length, shares_.per_rank * shares_.world); }

Status TorchOrder::real_size(uint64_t *size) const {
  *size = count_of_stride(dealt(), shares_.rank, shares_.world);
  return DC_OK;
}

// The padding continues the permutation from its start as often as needed.
const IndexTable &TorchOrder::own() const {
  return own_.get([this] {
    MersenneTwister generator(seed_ + epoch_);
    return torch_randperm(generator, shares_.length, {shares_.rank, shares_.world, shares_.per_rank});
  });
}

Status TorchOrder::find(uint64_t index, Place *place) const {
  MersenneTwister generator(seed_ + epoch_);
  const uint64_t found = torch_randperm(generator, shares_.length, {0, 1, dealt()}).find(index);
  if (found == dealt()) return DC_END;
  *place = {found % shares_.world, found / shares_.world};
  return DC_OK;
}

void TorchOrder::shard_read(uint64_t position, uint64_t *indices, uint64_t count) const {
  std::iota(indices, indices + count, position);
}

}  // namespace ddpcache
