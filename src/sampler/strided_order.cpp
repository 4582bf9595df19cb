#include "strided_order.hpp"

#include <algorithm>

namespace ddpcache {

// How many different samples an epoch deals.
uint64_t StridedOrder::dealt() const { return std::min(shares_.length, shares_.per_rank * shares_.world); }

Status StridedOrder::real_size(uint64_t *size) const {
  *size = count_of_stride(dealt(), shares_.rank, shares_.world);
  return DC_OK;
}

void StridedOrder::read(uint64_t position, uint64_t *indices, uint64_t count) const {
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t place = (position + i) * shares_.world + shares_.rank;
    indices[i] = place < shares_.length ? place : place % shares_.length;
  }
}

Status StridedOrder::find(uint64_t index, Place *place) const {
  if (index >= dealt()) return DC_END;
  *place = {index % shares_.world, index / shares_.world};
  return DC_OK;
}

uint64_t StridedOrder::shard_size() const {
  const uint64_t rest = dealt() % shares_.world, first = shares_.first_local_rank;
  return dealt() / shares_.world * shares_.local_size + (rest > first ? std::min(rest - first, shares_.local_size) : 0);
}

void StridedOrder::shard_read(uint64_t position, uint64_t *indices, uint64_t count) const {
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t place = position + i;
    indices[i] = place / shares_.local_size * shares_.world + shares_.first_local_rank + place % shares_.local_size;
  }
}

bool StridedOrder::keeps(uint64_t index) const {
  return index < dealt() && index % shares_.world - shares_.first_local_rank < shares_.local_size;
}

}  // namespace ddpcache
