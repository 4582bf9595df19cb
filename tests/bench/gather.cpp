// gather of several arrays, and of samples of different size, against memcpy of the same bytes from the same mapping.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

#include "support.hpp"

namespace bench {
namespace {

constexpr int64_t kBatch = 256;
constexpr int64_t kSamples = 12 * kBatch;

// Where one array of a sample lies in the cache.
struct Source {
  const uint8_t *data;
  uint64_t bytes;
};

// A cache whose samples have kArrays arrays, of the sizes that `sizes` says.
template <size_t kArrays>
class Filled {
 public:
  template <typename Sizes>
  explicit Filled(Sizes &&sizes) : order_(shuffled(kSamples)), cache_(options_for(kSamples, kSampleBytesMax)) {
    for (int64_t i = 0; i < kSamples; ++i) {
      const std::array<uint64_t, kArrays> bytes = sizes(i);
      fill(i, bytes);
      for (const uint64_t length : bytes) total_ += length;
    }
    views_.resize(kSamples);
    sources_.resize(kSamples);
    for (int64_t i = 0; i < kSamples; ++i) look(i);
  }
  ~Filled() {
    for (dc_view &view : views_) dc_cache_view_release(&view);
  }

  dc_cache *cache() const { return cache_.get(); }
  double gigabytes() const { return static_cast<double>(total_) / 1e9; }
  const int64_t *batch(int64_t first) const { return order_.data() + first; }
  const Source &source(int64_t place, size_t array) const {
    return sources_[static_cast<size_t>(order_[static_cast<size_t>(place)])][array];
  }

 private:
  static constexpr uint64_t kSampleBytesMax = 320'000;

  void fill(int64_t index, const std::array<uint64_t, kArrays> &bytes) {
    dc_fill *fill = nullptr;
    require(dc_cache_fill_begin(cache_.get(), index, 0, &fill), "dc_cache_fill_begin");
    std::array<dc_array, kArrays> arrays;
    for (size_t k = 0; k < kArrays; ++k) arrays[k] = Cache::byte_array(static_cast<int64_t>(bytes[k]));
    dc_error error = {};
    require(dc_cache_fill_allocate(fill, arrays.data(), kArrays, nullptr, &error), "dc_cache_fill_allocate", error);
    for (const dc_array &array : arrays) std::memset(array.data, static_cast<int>(index), array.bytes);
    require(dc_cache_fill_commit(fill), "dc_cache_fill_commit");
  }
  void look(int64_t index) {
    dc_view &view = views_[static_cast<size_t>(index)];
    require(dc_cache_view(cache_.get(), index, &view), "dc_cache_view");
    for (size_t k = 0; k < kArrays; ++k) {
      dc_array array;
      require(dc_view_array(&view, static_cast<uint32_t>(k), &array), "dc_view_array");
      sources_[static_cast<size_t>(index)][k] = {array.data, array.bytes};
    }
  }

  std::vector<int64_t> order_;
  Cache cache_;
  std::vector<dc_view> views_;
  std::vector<std::array<Source, kArrays>> sources_;
  uint64_t total_ = 0;
};

// All samples once, batch by batch: gigabytes a second.
template <typename Gigabytes, typename Batch>
double pass(Gigabytes gigabytes, Batch &&batch) {
  return gigabytes / seconds([&] {
           for (int64_t first = 0; first < kSamples; first += kBatch) {
             batch(first);
             benchmark::ClobberMemory();
           }
         });
}

void several_arrays() {
  constexpr std::array<uint64_t, 3> kBytes = {150'000, 50'000, 8};
  const Filled<3> filled([&](int64_t) { return kBytes; });
  std::array<std::vector<uint8_t>, 3> buffers;
  std::array<dc_gather, 3> parts = {};
  for (uint32_t k = 0; k < 3; ++k) {
    buffers[k].resize(kBatch * kBytes[k]);
    parts[k] = {buffers[k].data(), nullptr, kBytes[k], k, 0};
  }
  const auto gather = [&](int64_t first) {
    require(dc_cache_gather(filled.cache(), filled.batch(first), kBatch, parts.data(), 3, nullptr, 1),
            "dc_cache_gather");
  };
  const auto read = [&](int64_t first) {
    for (const dc_gather &part : parts) {
      require(dc_cache_read_batch(filled.cache(), filled.batch(first), kBatch, part.number, part.buffer,
                                  part.sample_bytes, nullptr, 1),
              "dc_cache_read_batch");
    }
  };
  const auto copy = [&](int64_t first) {
    for (int64_t i = 0; i < kBatch; ++i) {
      for (size_t k = 0; k < 3; ++k) {
        std::memcpy(parts[k].buffer + static_cast<uint64_t>(i) * kBytes[k], filled.source(first + i, k).data,
                    kBytes[k]);
      }
    }
  };
  measure("gather, 256 of 150 KB, 50 KB and 8 B", "GB/s",
          {{"ddpcache", [&] { return pass(filled.gigabytes(), gather); }},
           {"memcpy", [&] { return pass(filled.gigabytes(), copy); }},
           {"one read_batch an array", [&] { return pass(filled.gigabytes(), read); }}},
          {{"samples", std::to_string(kSamples)}});
}

void different_sizes() {
  std::mt19937_64 random(1);
  std::uniform_int_distribution<uint64_t> size(20'000, 280'000);
  const Filled<1> filled([&](int64_t) { return std::array<uint64_t, 1>{size(random)}; });
  std::vector<uint8_t> buffer(kBatch * 280'000);
  std::vector<int64_t> indices(kBatch), offsets(kBatch + 1);
  const auto place = [&](int64_t first) {
    for (int64_t i = 0; i < kBatch; ++i) {
      const int64_t bytes = static_cast<int64_t>(filled.source(first + i, 0).bytes);
      offsets[static_cast<size_t>(i) + 1] = offsets[static_cast<size_t>(i)] + bytes;
    }
  };
  // What a caller does that does not know the sizes.
  std::vector<dc_array> arrays(kBatch);
  const auto gather = [&](int64_t first) {
    require(dc_cache_describe_batch(filled.cache(), filled.batch(first), kBatch, 0, arrays.data(), nullptr, nullptr,
                                    nullptr),
            "dc_cache_describe_batch");
    for (size_t i = 0; i < kBatch; ++i) offsets[i + 1] = offsets[i] + static_cast<int64_t>(arrays[i].bytes);
    const dc_gather part = {buffer.data(), offsets.data(), 0, 0, 0};
    require(dc_cache_gather(filled.cache(), filled.batch(first), kBatch, &part, 1, nullptr, 1), "dc_cache_gather");
  };
  const auto copy = [&](int64_t first) {
    place(first);
    for (int64_t i = 0; i < kBatch; ++i) {
      const Source &source = filled.source(first + i, 0);
      std::memcpy(buffer.data() + offsets[static_cast<size_t>(i)], source.data, source.bytes);
    }
  };
  measure("gather, 256 of 20 to 280 KB", "GB/s",
          {{"ddpcache", [&] { return pass(filled.gigabytes(), gather); }},
           {"memcpy", [&] { return pass(filled.gigabytes(), copy); }}},
          {{"samples", std::to_string(kSamples)}});
}

}  // namespace

void gather() {
  several_arrays();
  different_sizes();
}

}  // namespace bench
