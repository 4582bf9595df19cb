// What checksums cost: a fill that takes one, and a hit that compares one.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>

#include "support.hpp"

namespace bench {
namespace {

constexpr uint64_t kTotalBytes = uint64_t{1} << 28;

dc_cache_options with_checksums(int64_t samples, uint64_t sample_bytes, uint32_t checksums) {
  dc_cache_options options = options_for(samples, sample_bytes);
  options.checksums = checksums;
  return options;
}

void fill_all(Cache &cache, int64_t samples, const std::vector<uint8_t> &sample) {
  for (int64_t i = 0; i < samples; ++i) {
    cache.fill(i, static_cast<int64_t>(sample.size()),
               [&](uint8_t *data) { std::memcpy(data, sample.data(), sample.size()); });
  }
}

void fills_of(const std::string &size, uint64_t sample_bytes) {
  const int64_t samples = static_cast<int64_t>(kTotalBytes / sample_bytes);
  const std::vector<uint8_t> sample(sample_bytes, 7);
  const auto fill = [&](uint32_t checksums) {
    Cache cache(with_checksums(samples, sample_bytes, checksums));
    return static_cast<double>(samples) * static_cast<double>(sample_bytes) / 1e9 /
           seconds([&] { fill_all(cache, samples, sample); });
  };
  measure("fill with a checksum, " + size, "GB/s",
          {{"ddpcache", [&] { return fill(DC_CHECKSUMS_FILL); }}, {"without", [&] { return fill(DC_CHECKSUMS_OFF); }}},
          {{"samples", std::to_string(samples)}});
}

// Random samples, each hit once a round; the copy is of the same bytes from the same memory.
void hits_of(const std::string &size, uint64_t sample_bytes) {
  const int64_t samples = static_cast<int64_t>(kTotalBytes / sample_bytes);
  Cache off(with_checksums(samples, sample_bytes, DC_CHECKSUMS_OFF));
  Cache read(with_checksums(samples, sample_bytes, DC_CHECKSUMS_READ));
  const std::vector<uint8_t> sample(sample_bytes, 7);
  fill_all(off, samples, sample);
  fill_all(read, samples, sample);
  std::vector<uint8_t> buffer(sample_bytes);
  const std::vector<int64_t> order = shuffled(samples);
  const auto hit = [&](const Cache &cache, bool copy) {
    return seconds([&] {
             for (const int64_t index : order) {
               dc_view view;
               require(dc_cache_view(cache.get(), index, &view), "dc_cache_view");
               if (copy) std::memcpy(buffer.data(), view.data, sample_bytes);
               benchmark::DoNotOptimize(view.data);
               benchmark::ClobberMemory();
               dc_cache_view_release(&view);
             }
           }) /
           static_cast<double>(samples) * 1e9;
  };
  measure("hit that compares a checksum, " + size, "ns",
          {{"ddpcache", [&] { return hit(read, false); }},
           {"a hit and a copy of the sample", [&] { return hit(off, true); }},
           {"a hit that does not", [&] { return hit(off, false); }}},
          {{"samples", std::to_string(samples)}});
}

}  // namespace

void checksums() {
  fills_of("150 KB", 150'000);
  fills_of("4 MB", 4'000'000);
  hits_of("150 KB", 150'000);
  hits_of("4 MB", 4'000'000);
}

}  // namespace bench
