#include "sampler.hpp"

#include <algorithm>
#include <cinttypes>

#include "block_order.hpp"
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
  if (options.order != DC_ORDER_NODE && (options.exchange_ppm || options.canonical_nodes)) {
    return failure(DC_ERROR_ARGUMENT,
                   "exchange_ppm is %" PRIu32 " and canonical_nodes %" PRIu32 ", which go with the order NODE only",
                   options.exchange_ppm, options.canonical_nodes);
  }
  if (options.reserved) {
    return failure(DC_ERROR_UNSUPPORTED, "reserved is %" PRIu32 "; this version of ddpcache supports only 0",
                   options.reserved);
  }
  return DC_OK;
}

Status check_windows(const dc_sampler_options &options) {
  if (options.exchange_ppm > Exchange::ppm_max) {
    return failure(DC_ERROR_RANGE, "exchange_ppm %" PRIu32 " is outside 0..%" PRIu64, options.exchange_ppm,
                   Exchange::ppm_max);
  }
  if (options.canonical_nodes % options.nodes != 0) {
    return failure(DC_ERROR_ARGUMENT, "canonical_nodes %" PRIu32 " is no multiple of %" PRIu32 " nodes",
                   options.canonical_nodes, options.nodes);
  }
  if (options.canonical_nodes / options.nodes > DC_SAMPLER_CANONICAL_MAX) {
    return failure(DC_ERROR_RANGE, "canonical_nodes %" PRIu32 " is more than %d times %" PRIu32 " nodes",
                   options.canonical_nodes, DC_SAMPLER_CANONICAL_MAX, options.nodes);
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

// Any order but NODE.
std::unique_ptr<Order> make_order(const dc_sampler_options &options) {
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
  if (Status status = check_windows(options); !status.ok()) return status;
  sampler->reset(new Sampler(options));
  return DC_OK;
}

Sampler::Sampler(const dc_sampler_options &options) : options_(options) {
  if (options.order == DC_ORDER_NODE) {
    auto order = std::make_unique<NodeOrder>(options);
    node_order_ = order.get();
    order_ = std::move(order);
  } else {
    order_ = make_order(options);
  }
}

Status Sampler::set_epoch(int64_t epoch) {
  if (epoch < 0 || epoch > DC_SAMPLER_EPOCH_MAX) {
    return failure(DC_ERROR_RANGE, "epoch %" PRId64 " is outside 0..%" PRId64, epoch, DC_SAMPLER_EPOCH_MAX);
  }
  if (resumed_ && epoch == epoch_) return DC_OK;  // trainers set the epoch after loading
  order_->set_epoch(static_cast<uint64_t>(epoch));
  epoch_ = epoch;
  position_ = 0;
  resumed_ = false;
  skipped_ = 0;
  return DC_OK;
}

Status Sampler::next(int64_t *index) {
  if (position_ == size()) return DC_END;
  order_->read(skipped_ + static_cast<uint64_t>(position_), words(index), 1);
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
  *size = static_cast<int64_t>(real - std::min(real, skipped_));
  return DC_OK;
}

Status Sampler::read(int64_t position, int64_t *indices, int64_t count) const {
  if (Status status = check_page(position, indices, count, size()); !status.ok()) return status;
  if (count > 0) order_->read(skipped_ + static_cast<uint64_t>(position), words(indices), static_cast<uint64_t>(count));
  return DC_OK;
}

Status Sampler::check_index(int64_t index) const {
  if (index >= 0 && index < options_.length) return DC_OK;
  return failure(DC_ERROR_RANGE, "index %" PRId64 " is outside the data set of %" PRId64 " samples", index,
                 options_.length);
}

Status Sampler::find(int64_t index, uint32_t *rank, int64_t *position) const {
  if (Status status = check_index(index); !status.ok()) return status;
  Place place;
  if (Status status = order_->find(static_cast<uint64_t>(index), &place); status.code() != DC_OK) return status;
  if (place.position < skipped_) return DC_END;
  *rank = static_cast<uint32_t>(place.rank);
  *position = static_cast<int64_t>(place.position - skipped_);
  return DC_OK;
}

Status Sampler::keeps(int64_t index) const {
  if (Status status = check_index(index); !status.ok()) return status;
  return order_->keeps(static_cast<uint64_t>(index)) ? DC_OK : DC_MISS;
}

Status Sampler::shard_read(int64_t position, int64_t *indices, int64_t count) const {
  if (Status status = check_page(position, indices, count, shard_size()); !status.ok()) return status;
  if (count > 0) order_->shard_read(static_cast<uint64_t>(position), words(indices), static_cast<uint64_t>(count));
  return DC_OK;
}

Status Sampler::save_state(int64_t consumed, StateBytes *bytes) const {
  const uint64_t most = node_order_ ? node_order_->consumed_max() : order_->size() - skipped_;
  if (consumed < 0 || static_cast<uint64_t>(consumed) > most) {
    return failure(DC_ERROR_RANGE, "consumed %" PRId64 " is outside 0..%" PRIu64, consumed, most);
  }
  const uint64_t count = static_cast<uint64_t>(consumed);
  if (node_order_) {
    *bytes = encode_state(options_, node_order_->progress(count));
    return DC_OK;
  }
  Progress progress = {static_cast<uint64_t>(epoch_), {}, Stages(static_cast<uint64_t>(options_.length))};
  progress.stages.add({options_.nodes, options_.local_size, skipped_ + count});
  *bytes = encode_state(options_, progress);
  return DC_OK;
}

Status Sampler::load_state(const uint8_t *bytes, uint64_t count) {
  Progress progress;
  if (Status status = decode_state(bytes, count, options_, &progress); !status.ok()) return status;
  if (Status status = resume(progress); !status.ok()) return status;
  epoch_ = static_cast<int64_t>(progress.epoch);
  position_ = 0;
  resumed_ = true;
  return DC_OK;
}

Status Sampler::resume(const Progress &progress) {
  const Stages &stages = progress.stages;
  if (node_order_) {
    if (!node_order_->has_room_to_resume(progress)) {
      const Stage &last = stages[stages.count() - 1];
      return failure(DC_ERROR_SAMPLER_STATE,
                     "epoch %" PRIu64
                     " has run under %zu layouts already, which is all that a state holds: resume it "
                     "under the last, %" PRIu64 " nodes of %" PRIu64 " ranks each, or begin another epoch",
                     progress.epoch, stages.count(), last.nodes, last.local_size);
    }
    node_order_->resume(progress);
    return DC_OK;
  }
  const uint64_t world = uint64_t{options_.nodes} * options_.local_size;
  uint64_t consumed = 0;
  for (size_t i = 0; i < stages.count(); ++i) {
    if (const uint64_t ranks = stages[i].nodes * stages[i].local_size; ranks != world) {
      return failure(DC_ERROR_SAMPLER_STATE,
                     "the state is of %" PRIu64 " ranks and this is one of %" PRIu64
                     ": only the order NODE resumes an epoch under another number of ranks",
                     ranks, world);
    }
    consumed += stages[i].consumed;
  }
  if (consumed > order_->size()) {
    return failure(DC_ERROR_SAMPLER_STATE, "the state says that each rank had %" PRIu64 " samples of %" PRIu64,
                   consumed, order_->size());
  }
  order_->set_epoch(progress.epoch);
  skipped_ = consumed;
  return DC_OK;
}

}  // namespace ddpcache
