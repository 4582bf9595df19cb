#include "sampler.hpp"

#include <cinttypes>

#include "block_order.hpp"
#include "node_order.hpp"
#include "strided_order.hpp"
#include "torch_order.hpp"

namespace ddpcache {
namespace {

Status check_choices(const dc_sampler_options &options) {
  if (options.order != DC_ORDER_NODE && options.order != DC_ORDER_TORCH && options.order != DC_ORDER_VISCY) {
    return failure(DC_ERROR_ARGUMENT, "order %" PRId32 " is none of dc_order", options.order);
  }
  if (options.tail != DC_TAIL_PAD && options.tail != DC_TAIL_DROP && options.tail != DC_TAIL_EXACT) {
    return failure(DC_ERROR_ARGUMENT, "tail %" PRId32 " is none of dc_tail", options.tail);
  }
  if (options.tail == DC_TAIL_EXACT && options.order != DC_ORDER_NODE) {
    return failure(DC_ERROR_ARGUMENT, "the tail EXACT goes with the order NODE only, not with %s",
                   options.order == DC_ORDER_TORCH ? "TORCH" : "VISCY");
  }
  if (options.shuffle > 1 || options.ring_identity > 1) {
    return failure(DC_ERROR_ARGUMENT, "shuffle is %" PRIu32 " and ring_identity %" PRIu32 "; both are 0 or 1",
                   options.shuffle, options.ring_identity);
  }
  if (options.exchange_ppm || options.canonical_nodes || options.reserved) {
    return failure(DC_ERROR_UNSUPPORTED,
                   "exchange_ppm is %" PRIu32 ", canonical_nodes %" PRIu32 " and reserved %" PRIu32
                   "; this version of ddpcache supports only 0 for each",
                   options.exchange_ppm, options.canonical_nodes, options.reserved);
  }
  return DC_OK;
}

Status check_layout(const dc_sampler_options &options) {
  if (options.length < 0 || options.length > DC_SAMPLER_LENGTH_MAX) {
    return failure(DC_ERROR_RANGE, "length %" PRId64 " is outside 0..%" PRId64, options.length, DC_SAMPLER_LENGTH_MAX);
  }
  const uint64_t world = uint64_t{options.nodes} * options.local_size;
  if (world == 0 || world > DC_SAMPLER_WORLD_MAX) {
    return failure(DC_ERROR_RANGE, "%" PRIu32 " nodes of %" PRIu32 " ranks each make %" PRIu64 " ranks, outside 1..%d",
                   options.nodes, options.local_size, world, DC_SAMPLER_WORLD_MAX);
  }
  if (options.node >= options.nodes) {
    return failure(DC_ERROR_RANGE, "node %" PRIu32 " is outside 0..%" PRIu32, options.node, options.nodes - 1);
  }
  if (options.local_rank >= options.local_size) {
    return failure(DC_ERROR_RANGE, "local_rank %" PRIu32 " is outside 0..%" PRIu32, options.local_rank,
                   options.local_size - 1);
  }
  // The originals deal nothing then, and so do TORCH and VISCY.
  if (options.order == DC_ORDER_NODE && options.tail == DC_TAIL_DROP && static_cast<uint64_t>(options.length) < world) {
    return failure(DC_ERROR_EMPTY, "the tail DROP leaves nothing of %" PRId64 " samples for %" PRIu64 " ranks",
                   options.length, world);
  }
  return DC_OK;
}

std::unique_ptr<Order> make_order(const dc_sampler_options &options) {
  if (options.order == DC_ORDER_NODE) return std::make_unique<NodeOrder>(options);
  if (!options.shuffle) return std::make_unique<StridedOrder>(options);
  if (options.order == DC_ORDER_TORCH) return std::make_unique<TorchOrder>(options);
  return std::make_unique<BlockOrder>(options);
}

Status check_page(int64_t position, const int64_t *indices, int64_t count, int64_t size) {
  if (position < 0 || position > size) {
    return failure(DC_ERROR_RANGE, "position %" PRId64 " is outside 0..%" PRId64, position, size);
  }
  if (count < 0 || count > size - position) {
    return failure(DC_ERROR_RANGE, "count %" PRId64 " is outside 0..%" PRId64 " (position %" PRId64 " of %" PRId64 ")",
                   count, size - position, position, size);
  }
  if (!indices && count > 0) {
    return failure(DC_ERROR_ARGUMENT, "indices is NULL with a count of %" PRId64, count);
  }
  return DC_OK;
}

// int64_t and uint64_t may alias, and all values are below 2^63.
uint64_t *words(int64_t *indices) { return reinterpret_cast<uint64_t *>(indices); }

}  // namespace

Status Sampler::open(const dc_sampler_options &options, std::unique_ptr<Sampler> *sampler) {
  if (Status status = check_choices(options); !status.ok()) return status;
  if (Status status = check_layout(options); !status.ok()) return status;
  sampler->reset(new Sampler(make_order(options), options.length));
  return DC_OK;
}

Status Sampler::set_epoch(int64_t epoch) {
  if (epoch < 0 || epoch > DC_SAMPLER_EPOCH_MAX) {
    return failure(DC_ERROR_RANGE, "epoch %" PRId64 " is outside 0..%" PRId64, epoch, DC_SAMPLER_EPOCH_MAX);
  }
  order_->set_epoch(static_cast<uint64_t>(epoch));
  epoch_ = epoch;
  position_ = 0;
  return DC_OK;
}

Status Sampler::next(int64_t *index) {
  if (position_ == size()) return DC_END;
  order_->read(static_cast<uint64_t>(position_), words(index), 1);
  ++position_;
  return DC_OK;
}

Status Sampler::seek(int64_t position) {
  if (position < 0 || position > size()) {
    return failure(DC_ERROR_RANGE, "position %" PRId64 " is outside 0..%" PRId64, position, size());
  }
  position_ = position;
  return DC_OK;
}

Status Sampler::real_size(int64_t *size) const {
  uint64_t real;
  if (Status status = order_->real_size(&real); !status.ok()) return status;
  *size = static_cast<int64_t>(real);
  return DC_OK;
}

Status Sampler::read(int64_t position, int64_t *indices, int64_t count) const {
  if (Status status = check_page(position, indices, count, size()); !status.ok()) return status;
  if (count > 0) order_->read(static_cast<uint64_t>(position), words(indices), static_cast<uint64_t>(count));
  return DC_OK;
}

Status Sampler::find(int64_t index, uint32_t *rank, int64_t *position) const {
  if (index < 0 || index >= length_) {
    return failure(DC_ERROR_RANGE, "index %" PRId64 " is outside the data set of %" PRId64 " samples", index, length_);
  }
  Place place;
  if (Status status = order_->find(static_cast<uint64_t>(index), &place); status.code() != DC_OK) return status;
  *rank = static_cast<uint32_t>(place.rank);
  *position = static_cast<int64_t>(place.position);
  return DC_OK;
}

Status Sampler::shard_read(int64_t position, int64_t *indices, int64_t count) const {
  if (Status status = check_page(position, indices, count, shard_size()); !status.ok()) return status;
  if (count > 0) order_->shard_read(static_cast<uint64_t>(position), words(indices), static_cast<uint64_t>(count));
  return DC_OK;
}

}  // namespace ddpcache
