// Filling against the system calls and the copy that no filler of shared memory gets around.
#include <algorithm>
#include <cstring>

#include "support.hpp"

namespace bench {
namespace {

constexpr uint64_t kSampleBytes = 150'000;
constexpr int64_t kSamples = (uint64_t{1} << 30) / kSampleBytes;
constexpr double kGigabytes = static_cast<double>(kSamples) * kSampleBytes / 1e9;

double fill_cache(const uint8_t *source) {
  Cache cache(options_for(kSamples, kSampleBytes));
  return kGigabytes / seconds([&] {
           for (int64_t i = 0; i < kSamples; ++i) {
             cache.fill(i, kSampleBytes, [&](uint8_t *data) { std::memcpy(data, source, kSampleBytes); });
           }
         });
}

// Writes the samples one after the other; reserves and populates in pieces of this many samples.
double fill_mapping(const uint8_t *source, int64_t reserved, int64_t populated) {
  TmpfsMapping mapping(kSamples * kSampleBytes);
  const auto piece = [&](int64_t first, int64_t samples) {
    return std::min(samples, kSamples - first) * static_cast<int64_t>(kSampleBytes);
  };
  return kGigabytes / seconds([&] {
           for (int64_t i = 0; i < kSamples; ++i) {
             const uint64_t offset = static_cast<uint64_t>(i) * kSampleBytes;
             if (i % reserved == 0) mapping.reserve(offset, static_cast<uint64_t>(piece(i, reserved)));
             if (i % populated == 0) mapping.populate(offset, static_cast<uint64_t>(piece(i, populated)));
             std::memcpy(mapping.data() + offset, source, kSampleBytes);
           }
         });
}

}  // namespace

void fill() {
  const std::vector<uint8_t> sample(kSampleBytes, 7);
  const uint8_t *source = sample.data();
  const uint64_t step_bytes = Cache(options_for(kSamples, kSampleBytes)).info().step_bytes;
  const int64_t step = static_cast<int64_t>(step_bytes / kSampleBytes);
  measure("fill, 150 KB", "GB/s",
          {{"ddpcache", [&] { return fill_cache(source); }},
           {"reserved and populated at once", [&] { return fill_mapping(source, kSamples, kSamples); }},
           {"reserved and populated by the step", [&] { return fill_mapping(source, step, step); }},
           {"reserved by the step, populated by the sample", [&] { return fill_mapping(source, step, 1); }}},
          {{"samples", std::to_string(kSamples)}, {"step_bytes", std::to_string(step_bytes)}});
}

}  // namespace bench
