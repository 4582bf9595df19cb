// ddpcache/sampler.hpp: a sampler as a C++ object.
#ifndef DDPCACHE_SAMPLER_HPP
#define DDPCACHE_SAMPLER_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddpcache/error.hpp"
#include "ddpcache/sampler.h"

namespace ddpcache {
inline namespace DDPCACHE_CXX {

/// Where this process stands, by its launcher's variables; see dc_topology_detect.
inline Result<dc_topology> detect_topology() {
  dc_topology topology = {};
  topology.struct_size = sizeof topology;
  dc_error error;
  const std::int32_t status = dc_topology_detect(&topology, &error);
  return detail::result(status, error, topology);
}

/// dc_sampler_options with its defaults set.
struct SamplerOptions : dc_sampler_options {
  explicit SamplerOptions(std::int64_t samples) : dc_sampler_options() {
    dc_sampler_options_init(this, sizeof(dc_sampler_options));
    length = samples;
  }

  /// Takes node and rank from the launcher's variables; see dc_topology_detect.
  SamplerOptions &detect_topology() {
    const dc_topology topology = ddpcache::detect_topology().value();
    node = topology.node;
    nodes = topology.nodes;
    local_rank = topology.local_rank;
    local_size = topology.local_size;
    return *this;
  }
};

/// Where an epoch deals an index.
struct Position {
  std::uint32_t rank;  ///< node * local_size + local_rank
  std::int64_t position;
};

/// The sampler of one rank.
class Sampler {
 public:
  /// Goes through the rank's epoch from its beginning, a block of indices at a time.
  ///
  /// It does not move the position of next(). Valid until the sampler changes epoch or ends.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = std::int64_t;
    using difference_type = std::ptrdiff_t;
    using pointer = const std::int64_t *;
    using reference = std::int64_t;

    Iterator(const Sampler &sampler, std::int64_t position, std::int64_t size)
        : sampler_(&sampler), position_(position), size_(size) {
      fetch();
    }
    std::int64_t operator*() const noexcept { return block_[static_cast<std::size_t>(position_ % block_size)]; }
    Iterator &operator++() {
      if (++position_ % block_size == 0) fetch();
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator &other) const noexcept { return position_ == other.position_; }
    bool operator!=(const Iterator &other) const noexcept { return position_ != other.position_; }

   private:
    static constexpr std::int64_t block_size = 512;
    void fetch() {
      if (position_ < size_) block_ = sampler_->read(position_, std::min(block_size, size_ - position_));
    }

    const Sampler *sampler_;
    std::int64_t position_;
    std::int64_t size_;
    std::vector<std::int64_t> block_;
  };

  explicit Sampler(const SamplerOptions &options) : Sampler(try_open(options).value()) {}
  /// The same without throwing.
  static Result<Sampler> try_open(const SamplerOptions &options) {
    Sampler sampler;
    dc_error error;
    const std::int32_t status = dc_sampler_open(&options, &sampler.sampler_, &error);
    return detail::result(status, error, std::move(sampler));
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
  /// All of the rank's indices of this epoch: `for (std::int64_t index : sampler)`.
  Iterator begin() const { return Iterator(*this, 0, size()); }
  Iterator end() const { return Iterator(*this, size(), 0); }
  /// The position that next() reads next.
  std::int64_t tell() const {
    std::int64_t position = 0;
    detail::check(dc_sampler_tell(sampler_, nullptr, &position));
    return position;
  }
  std::int64_t epoch() const {
    std::int64_t epoch = 0;
    detail::check(dc_sampler_tell(sampler_, &epoch, nullptr));
    return epoch;
  }
  /// Sets the position of next().
  void seek(std::int64_t position) {
    dc_error error;
    detail::check(dc_sampler_seek(sampler_, position, &error), error);
  }
  /// The first place of an index in this epoch; nothing where it is not dealt.
  std::optional<Position> find(std::int64_t index) const {
    Position found = {};
    dc_error error;
    const std::int32_t status = dc_sampler_find(sampler_, index, &found.rank, &found.position, &error);
    if (detail::check(status, error) == DC_END) return std::nullopt;
    return found;
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
    detail::check(try_load_state(state, &error), error);
  }
  /// The same; the status, and optionally the sentence.
  std::int32_t try_load_state(const std::vector<std::uint8_t> &state, dc_error *error = nullptr) {
    return dc_sampler_state_load(sampler_, state.data(), state.size(), error);
  }

 private:
  Sampler() = default;
  dc_sampler *sampler_ = nullptr;
};

/// The keyed bijection of 0..length-1 by itself; see dc_permutation_open.
class Permutation {
 public:
  explicit Permutation(std::int64_t length, std::uint64_t seed = 0, std::int64_t epoch = 0, std::uint32_t window = 0,
                       dc_purpose purpose = DC_PURPOSE_USER) {
    dc_error error;
    detail::check(dc_permutation_open(length, seed, epoch, window, purpose, &permutation_, &error), error);
  }
  Permutation(Permutation &&other) noexcept : permutation_(std::exchange(other.permutation_, nullptr)) {}
  Permutation &operator=(Permutation &&other) noexcept {
    std::swap(permutation_, other.permutation_);
    return *this;
  }
  ~Permutation() { dc_permutation_close(permutation_); }

  /// The index at a position.
  std::int64_t at(std::int64_t position) const {
    std::int64_t index = 0;
    detail::check(dc_permutation_at(permutation_, position, &index));
    return index;
  }
  /// The position of an index.
  std::int64_t inverse(std::int64_t index) const {
    std::int64_t position = 0;
    detail::check(dc_permutation_inverse(permutation_, index, &position));
    return position;
  }
  /// `count` indices from `position` on.
  std::vector<std::int64_t> read(std::int64_t position, std::int64_t count) const {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
    detail::check(dc_permutation_batch(permutation_, position, indices.data(), count));
    return indices;
  }

 private:
  dc_permutation *permutation_ = nullptr;
};

}  // namespace DDPCACHE_CXX
}  // namespace ddpcache

#endif
