// A hit against the least that any look-up can cost: one dependent access to a random line of memory.
#include <benchmark/benchmark.h>

#include <cstring>

#include "support.hpp"

namespace bench {
namespace {

constexpr int64_t kSamples = 1'000'000;
constexpr uint64_t kSampleBytes = 4096;

int64_t load_index(const uint8_t *from) {
  int64_t index;
  std::memcpy(&index, from, sizeof index);
  return index;
}

// next[i]: one cycle through all samples in random order.
std::vector<int64_t> cycle() {
  const std::vector<int64_t> order = shuffled(kSamples);
  std::vector<int64_t> next(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    next[static_cast<size_t>(order[i])] = order[(i + 1) % order.size()];
  }
  return next;
}

double walk_cache(dc_cache *cache) {
  int64_t index = 0;
  const double total = seconds([&] {
    for (int64_t i = 0; i < kSamples; ++i) {
      dc_view view;
      if (dc_cache_view(cache, index, &view) != DC_OK) stop("index %lld is not there", static_cast<long long>(index));
      index = load_index(view.data);
      dc_cache_view_release(&view);
    }
  });
  if (index != 0) stop("the walk did not come back to its beginning");
  return total / kSamples * 1e9;
}

double walk_lines(const uint8_t *lines, uint64_t stride) {
  int64_t index = 0;
  const double total = seconds([&] {
    for (int64_t i = 0; i < kSamples; ++i) index = load_index(lines + static_cast<uint64_t>(index) * stride);
  });
  benchmark::DoNotOptimize(index);
  return total / kSamples * 1e9;
}

}  // namespace

void hit() {
  const std::vector<int64_t> next = cycle();
  Cache cache(options_for(kSamples, kSampleBytes));
  for (int64_t i = 0; i < kSamples; ++i) {
    cache.fill(i, kSampleBytes, [&](uint8_t *data) {
      std::memset(data, 0, kSampleBytes);
      std::memcpy(data, &next[static_cast<size_t>(i)], sizeof(int64_t));
    });
  }
  // As large as the cache, with the samples as far apart: pages, TLB and DRAM are asked for the same.
  const uint64_t stride = cache.info().file_bytes / kSamples & ~uint64_t{63};
  TmpfsMapping lines(stride * kSamples);
  lines.reserve(0, stride * kSamples);
  lines.populate(0, stride * kSamples);
  for (int64_t i = 0; i < kSamples; ++i) {
    std::memcpy(lines.data() + static_cast<uint64_t>(i) * stride, &next[static_cast<size_t>(i)], sizeof(int64_t));
  }
  measure("hit in C, 4 KiB", "ns",
          {{"ddpcache", [&] { return walk_cache(cache.get()); }},
           {"one dependent random line", [&] { return walk_lines(lines.data(), stride); }}},
          {{"samples", std::to_string(kSamples)}, {"stride of the lines, bytes", std::to_string(stride)}});
}

}  // namespace bench
