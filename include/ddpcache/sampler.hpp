// ddpcache/sampler.hpp: a sampler as a C++ object.
#ifndef DDPCACHE_SAMPLER_HPP
#define DDPCACHE_SAMPLER_HPP

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddpcache/error.hpp"
#include "ddpcache/sampler.h"

namespace ddpcache {
inline namespace cxx {

/// dc_sampler_options with its defaults set.
struct SamplerOptions : dc_sampler_options {
  explicit SamplerOptions(std::int64_t samples) : dc_sampler_options() {
    dc_sampler_options_init(this, sizeof(dc_sampler_options));
    length = samples;
  }

  /// Takes node and rank from the launcher's variables; see dc_topology_detect.
  SamplerOptions &detect_topology() {
    dc_topology topology = {};
    topology.struct_size = sizeof topology;
    dc_error error;
    detail::check(dc_topology_detect(&topology, &error), error);
    node = topology.node;
    nodes = topology.nodes;
    local_rank = topology.local_rank;
    local_size = topology.local_size;
    return *this;
  }
};

/// The sampler of one rank.
class Sampler {
 public:
  explicit Sampler(const SamplerOptions &options) {
    dc_error error;
    detail::check(dc_sampler_open(&options, &sampler_, &error), error);
  }
  Sampler(Sampler &&other) noexcept : sampler_(std::exchange(other.sampler_, nullptr)) {}
  Sampler &operator=(Sampler &&other) noexcept {
    std::swap(sampler_, other.sampler_);
    return *this;
  }
  ~Sampler() { dc_sampler_close(sampler_); }

  dc_sampler *raw() const noexcept { return sampler_; }

  void set_epoch(std::int64_t epoch) {
    dc_error error;
    detail::check(dc_sampler_set_epoch(sampler_, epoch, &error), error);
  }
  std::int64_t size() const {
    std::int64_t size = 0;
    detail::check(dc_sampler_size(sampler_, &size));
    return size;
  }
  /// The leading samples that are no repeats: what a metric should count.
  std::int64_t real_size() const {
    std::int64_t size = 0;
    dc_error error;
    detail::check(dc_sampler_real_size(sampler_, &size, &error), error);
    return size;
  }
  /// The next index of the epoch, or nothing at its end.
  std::optional<std::int64_t> next() {
    std::int64_t index = 0;
    if (detail::check(dc_sampler_next(sampler_, &index)) == DC_END) return std::nullopt;
    return index;
  }
  /// `count` indices from `position` on.
  std::vector<std::int64_t> read(std::int64_t position, std::int64_t count) const {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
    dc_error error;
    detail::check(dc_sampler_read(sampler_, position, indices.data(), count, &error), error);
    return indices;
  }
  /// How many samples this node holds.
  std::int64_t shard_size() const {
    std::int64_t size = 0;
    detail::check(dc_sampler_shard_size(sampler_, &size));
    return size;
  }
  /// `count` of the indices that this node holds, from `position` on.
  std::vector<std::int64_t> shard(std::int64_t position, std::int64_t count) const {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
    dc_error error;
    detail::check(dc_sampler_shard_read(sampler_, position, indices.data(), count, &error), error);
    return indices;
  }
  /// Whether this node holds the sample in this epoch or held it in the last; what it does not keep may be dropped.
  bool keeps(std::int64_t index) const { return detail::check(dc_sampler_keeps(sampler_, index)) == DC_OK; }
  /// The state of an epoch in which each rank was trained on `consumed` samples since it began or was resumed.
  std::vector<std::uint8_t> save_state(std::int64_t consumed) const {
    std::vector<std::uint8_t> state(DC_SAMPLER_STATE_BYTES_MAX);
    std::uint64_t size = 0;
    dc_error error;
    detail::check(dc_sampler_state_save(sampler_, consumed, state.data(), state.size(), &size, &error), error);
    state.resize(size);
    return state;
  }
  /// Goes on where a saved epoch was stopped, under this layout; see dc_sampler_state_load.
  void load_state(const std::vector<std::uint8_t> &state) {
    dc_error error;
    detail::check(dc_sampler_state_load(sampler_, state.data(), state.size(), &error), error);
  }

 private:
  dc_sampler *sampler_ = nullptr;
};

}  // namespace cxx
}  // namespace ddpcache

#endif
