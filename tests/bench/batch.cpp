// read_batch against memcpy of the same bytes from the same mapping to the same buffer.
#include <benchmark/benchmark.h>

#include <cstring>

#include "support.hpp"

namespace bench {
namespace {

constexpr int64_t kBatch = 64;

// Each run reads all samples once, in random order, batch by batch: what one side leaves in the processor's caches is
// far from where the other begins.
void batches_of(const char *row, uint64_t sample_bytes, int64_t samples) {
  Cache cache(options_for(samples, sample_bytes));
  for (int64_t i = 0; i < samples; ++i) {
    cache.fill(i, static_cast<int64_t>(sample_bytes),
               [&](uint8_t *data) { std::memset(data, static_cast<int>(i), sample_bytes); });
  }
  std::vector<dc_view> views(static_cast<size_t>(samples));
  for (int64_t i = 0; i < samples; ++i) {
    require(dc_cache_view(cache.get(), i, &views[static_cast<size_t>(i)]), "dc_cache_view");
  }
  const std::vector<int64_t> order = shuffled(samples);
  std::vector<uint8_t> buffer(kBatch * sample_bytes);
  const double gigabytes = static_cast<double>(samples) * static_cast<double>(sample_bytes) / 1e9;

  const auto read = [&] {
    return seconds([&] {
      for (int64_t i = 0; i < samples; i += kBatch) {
        const int32_t status =
            dc_cache_read_batch(cache.get(), order.data() + i, kBatch, 0, buffer.data(), sample_bytes, nullptr, 1);
        if (status != DC_OK) require(status, "dc_cache_read_batch");
        benchmark::ClobberMemory();
      }
    });
  };
  const auto copy = [&] {
    return seconds([&] {
      for (int64_t i = 0; i < samples; i += kBatch) {
        for (int64_t k = 0; k < kBatch; ++k) {
          const dc_view &view = views[static_cast<size_t>(order[static_cast<size_t>(i + k)])];
          std::memcpy(buffer.data() + static_cast<uint64_t>(k) * sample_bytes, view.data, sample_bytes);
        }
        benchmark::ClobberMemory();
      }
    });
  };
  measure(row, "GB/s",
          {{"ddpcache", [&] { return gigabytes / read(); }}, {"memcpy", [&] { return gigabytes / copy(); }}},
          {{"samples", std::to_string(samples)}, {"sample_bytes", std::to_string(sample_bytes)}});
  for (dc_view &view : views) dc_cache_view_release(&view);
}

}  // namespace

void read_batch() {
  batches_of("read_batch, 64 of 150 KB", 150'000, 64 * kBatch);
  batches_of("read_batch, 64 of 4 MB", 4'000'000, 4 * kBatch);
}

}  // namespace bench
