// A sampler through the C interface, owned, with what tests ask of it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ddpcache/sampler.h"

namespace ddpcache {

inline dc_sampler_options default_options() {
  dc_sampler_options options;
  EXPECT_EQ(dc_sampler_options_init(&options, sizeof options), DC_OK);
  return options;
}

class OpenSampler {
 public:
  explicit OpenSampler(const dc_sampler_options &options) {
    dc_error error = {};
    EXPECT_EQ(dc_sampler_open(&options, &handle_, &error), DC_OK) << error.message;
  }
  OpenSampler(OpenSampler &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  ~OpenSampler() { dc_sampler_close(handle_); }

  dc_sampler *handle() const { return handle_; }

  int64_t size() const {
    int64_t size = -1;
    EXPECT_EQ(dc_sampler_size(handle_, &size), DC_OK);
    return size;
  }

  int64_t real_size() const {
    int64_t size = -1;
    EXPECT_EQ(dc_sampler_real_size(handle_, &size, nullptr), DC_OK);
    return size;
  }

  std::vector<int64_t> read() const { return read(0, size()); }

  std::vector<int64_t> read(int64_t position, int64_t count) const {
    std::vector<int64_t> indices(static_cast<size_t>(count), -1);
    EXPECT_EQ(dc_sampler_read(handle_, position, indices.data(), count, nullptr), DC_OK);
    return indices;
  }

  std::vector<int64_t> shard() const {
    int64_t size = -1;
    EXPECT_EQ(dc_sampler_shard_size(handle_, &size), DC_OK);
    std::vector<int64_t> indices(static_cast<size_t>(size), -1);
    EXPECT_EQ(dc_sampler_shard_read(handle_, 0, indices.data(), size, nullptr), DC_OK);
    return indices;
  }

  bool keeps(int64_t index) const {
    const int32_t status = dc_sampler_keeps(handle_, index);
    EXPECT_TRUE(status == DC_OK || status == DC_MISS) << status;
    return status == DC_OK;
  }

  std::vector<uint8_t> save(int64_t consumed) const {
    std::vector<uint8_t> state(DC_SAMPLER_STATE_BYTES_MAX);
    uint64_t size = 0;
    dc_error error = {};
    EXPECT_EQ(dc_sampler_state_save(handle_, consumed, state.data(), state.size(), &size, &error), DC_OK)
        << error.message;
    state.resize(size);
    return state;
  }

  void load(const std::vector<uint8_t> &state) {
    dc_error error = {};
    EXPECT_EQ(dc_sampler_state_load(handle_, state.data(), state.size(), &error), DC_OK) << error.message;
  }

  void set_epoch(int64_t epoch) { EXPECT_EQ(dc_sampler_set_epoch(handle_, epoch, nullptr), DC_OK); }

 private:
  dc_sampler *handle_ = nullptr;
};

// The samplers of all ranks, node after node.
inline std::vector<OpenSampler> open_all(dc_sampler_options options) {
  std::vector<OpenSampler> samplers;
  for (options.node = 0; options.node < options.nodes; ++options.node) {
    for (options.local_rank = 0; options.local_rank < options.local_size; ++options.local_rank) {
      samplers.emplace_back(options);
    }
  }
  return samplers;
}

}  // namespace ddpcache
