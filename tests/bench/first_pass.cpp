// The first pass of a new process over a filled cache: each page of it is a fault, unless it was mapped before.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "support.hpp"

namespace bench {
namespace {

constexpr uint64_t kSampleBytes = 150'000;
constexpr int64_t kSamples = (uint64_t{1} << 30) / kSampleBytes;
constexpr double kGigabytes = static_cast<double>(kSamples) * kSampleBytes / 1e9;

double in_new_process(const Cache &cache, const char *mode) {
  const std::string command =
      "exec /proc/" + std::to_string(getpid()) + "/exe first-pass-once " + cache.name() + " " + mode;
  FILE *output = popen(command.c_str(), "r");
  double rate = 0;
  if (!output || std::fscanf(output, "%lf", &rate) != 1 || pclose(output) != 0) stop("first-pass-once failed");
  return rate;
}

}  // namespace

void first_pass_once(const char *name, const char *mode) {
  dc_cache *cache = nullptr;
  dc_error error = {};
  require(dc_cache_attach(name, nullptr, 1'000'000'000, &cache, &error), "dc_cache_attach", error);
  const std::vector<int64_t> order = shuffled(kSamples);
  std::vector<uint8_t> buffer(kSampleBytes, 1);
  const auto pass = [&] {
    return kGigabytes / seconds([&] {
             for (const int64_t index : order) {
               require(dc_cache_read(cache, index, 0, buffer.data(), kSampleBytes, nullptr), "dc_cache_read");
             }
           });
  };
  if (std::strcmp(mode, "populate") == 0) require(dc_cache_populate(cache), "dc_cache_populate");
  if (std::strcmp(mode, "warm") == 0) pass();
  std::printf("%.6f\n", pass());
  require(dc_cache_close(cache), "dc_cache_close");
}

void first_pass() {
  Cache cache(options_for(kSamples, kSampleBytes));
  for (int64_t i = 0; i < kSamples; ++i) {
    cache.fill(i, kSampleBytes, [](uint8_t *data) { std::memset(data, 1, kSampleBytes); });
  }
  measure("first pass of a new process, 150 KB", "GB/s",
          {{"ddpcache, populating", [&] { return in_new_process(cache, "populate"); }},
           {"its second pass", [&] { return in_new_process(cache, "warm"); }},
           {"a first pass by faults", [&] { return in_new_process(cache, "plain"); }}},
          {{"samples", std::to_string(kSamples)}, {"cores", std::to_string(sysconf(_SC_NPROCESSORS_ONLN))}});
}

}  // namespace bench
