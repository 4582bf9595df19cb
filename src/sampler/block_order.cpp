#include "block_order.hpp"

#include <algorithm>
#include <cinttypes>
#include <numeric>

namespace ddpcache {

void BlockOrder::set_epoch(uint64_t epoch) {
  if (epoch != epoch_) own_.reset();
  epoch_ = epoch;
}

uint64_t BlockOrder::begin(uint64_t rank) const {
  return std::min(rank * shares_.per_rank, shares_.length - shares_.per_rank);
}

// The order inside a rank's block. All ranks draw from one generator, one after another.
IndexTable BlockOrder::inside(uint64_t rank) const {
  MersenneTwister generator(seed_ + epoch_);
  generator.skip(rank * torch_randperm_draws(shares_.per_rank));
  return torch_randperm(generator, shares_.per_rank, {0, 1, shares_.per_rank});
}

Status BlockOrder::real_size(uint64_t *size) const {
  if (shares_.per_rank * shares_.world > shares_.length) {
    return failure(
        DC_ERROR_UNSUPPORTED,
        "the shuffled VISCY order of %" PRIu64 " samples over %" PRIu64
        " ranks has its repeats scattered: no leading part of a rank is free of them; evaluate without shuffle",
        shares_.length, shares_.world);
  }
  *size = shares_.per_rank;
  return DC_OK;
}

void BlockOrder::read(uint64_t position, uint64_t *indices, uint64_t count) const {
  own_.get([this] { return inside(shares_.rank); }).copy(position, indices, count, begin(shares_.rank));
}

Status BlockOrder::find(uint64_t index, Place *place) const {
  if (index >= shares_.per_rank * shares_.world) return DC_END;
  const uint64_t rank = index / shares_.per_rank;
  *place = {rank, inside(rank).find(index - begin(rank))};
  return DC_OK;
}

uint64_t BlockOrder::shard_size() const {
  const uint64_t first = shares_.first_local_rank, last = first + shares_.local_size - 1;
  return begin(last) + shares_.per_rank - begin(first);
}

void BlockOrder::shard_read(uint64_t position, uint64_t *indices, uint64_t count) const {
  std::iota(indices, indices + count, begin(shares_.first_local_rank) + position);
}

}  // namespace ddpcache
