// What every order can do. An order is one rank's view of all epochs; sampler.cpp adds the current position.
#pragma once

#include <cstdint>

#include "ddpcache/sampler.h"
#include "status.hpp"

namespace ddpcache {

// A place in the epoch: which rank, and the how manieth of its samples.
struct Place {
  uint64_t rank;
  uint64_t position;
};

// Arguments are in range: sampler.cpp checks them.
class Order {
 public:
  virtual ~Order() = default;

  virtual void set_epoch(uint64_t epoch) = 0;
  virtual uint64_t size() const = 0;
  virtual Status real_size(uint64_t *size) const = 0;
  virtual void read(uint64_t position, uint64_t *indices, uint64_t count) const = 0;
  // DC_END where this epoch leaves the index out.
  virtual Status find(uint64_t index, Place *place) const = 0;
  virtual uint64_t shard_size() const = 0;
  virtual void shard_read(uint64_t position, uint64_t *indices, uint64_t count) const = 0;
  // Whether the index lies in the shard of this epoch or the last.
  virtual bool keeps(uint64_t index) const = 0;
};

// The layout and the sizes that all orders compute alike.
struct Shares {
  explicit Shares(const dc_sampler_options &options)
      : length(static_cast<uint64_t>(options.length)),
        world(uint64_t{options.nodes} * options.local_size),
        rank(uint64_t{options.node} * options.local_size + options.local_rank),
        first_local_rank(uint64_t{options.node} * options.local_size),
        local_size(options.local_size),
        drop(options.tail == DC_TAIL_DROP),
        per_rank(length / world + (!drop && length % world != 0)) {}

  uint64_t length;
  uint64_t world;
  uint64_t rank;
  uint64_t first_local_rank;  // of this node
  uint64_t local_size;
  bool drop;
  uint64_t per_rank;  // with PAD and DROP
};

// How many of 0..length-1 are congruent to `remainder` modulo `step`; remainder < step.
constexpr uint64_t count_of_stride(uint64_t length, uint64_t remainder, uint64_t step) {
  return length > remainder ? (length - remainder - 1) / step + 1 : 0;
}

}  // namespace ddpcache
