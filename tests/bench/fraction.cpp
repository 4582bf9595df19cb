// Hits of a cache that has room for a part of the data only.
#include <memory>

#include "ddpcache/sampler.h"
#include "support.hpp"

namespace bench {
namespace {

constexpr int64_t kSamples = 100'000;
constexpr uint64_t kSampleBytes = 1024;
constexpr uint32_t kRanks = 4;

struct Closing {
  void operator()(dc_sampler *sampler) const { dc_sampler_close(sampler); }
};
using Sampler = std::unique_ptr<dc_sampler, Closing>;

std::vector<Sampler> open_ranks() {
  std::vector<Sampler> ranks;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    dc_sampler_options options;
    dc_sampler_options_init(&options, sizeof options);
    options.length = kSamples;
    options.local_rank = rank;
    options.local_size = kRanks;
    dc_sampler *sampler = nullptr;
    require(dc_sampler_open(&options, &sampler, nullptr), "dc_sampler_open");
    ranks.emplace_back(sampler);
  }
  return ranks;
}

int32_t load_sample(dc_fill *fill, int64_t, void *decoded) {
  ++*static_cast<int64_t *>(decoded);
  dc_array array = {};
  array.dtype_code = 1;
  array.dtype_bits = 8;
  array.dtype_lanes = 1;
  array.dimensions = 1;
  array.shape[0] = kSampleBytes;
  return dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr) == DC_OK ? DC_LOADED : 0;
}

// All ranks in turn, sample by sample. The part of the epoch that hit.
double run_epoch(dc_cache *cache, const std::vector<Sampler> &ranks, int64_t epoch) {
  for (const Sampler &rank : ranks) require(dc_sampler_set_epoch(rank.get(), epoch, nullptr), "dc_sampler_set_epoch");
  int64_t decoded = 0;
  for (int64_t read = 0; read < kSamples; ++read) {
    int64_t index = 0;
    require(dc_sampler_next(ranks[static_cast<size_t>(read) % kRanks].get(), &index), "dc_sampler_next");
    dc_view view = {};
    const int32_t status = dc_cache_load(cache, index, load_sample, &decoded, 0, &view);
    if (status != DC_FULL) require(status, "dc_cache_load");
    dc_cache_view_release(&view);
  }
  return 1 - static_cast<double>(decoded) / kSamples;
}

double resident(dc_cache *cache) {
  int64_t found = 0;
  for (int64_t i = 0; i < kSamples; ++i) found += dc_cache_contains(cache, i) == DC_OK;
  return static_cast<double>(found) / kSamples;
}

}  // namespace

void fraction() {
  for (const int percent : {10, 50, 90}) {
    dc_cache_options options = options_for(kSamples * percent / 100, kSampleBytes);
    options.length = kSamples;
    Cache cache(options);
    const std::vector<Sampler> ranks = open_ranks();
    run_epoch(cache.get(), ranks, 0);
    std::vector<double> hits, fractions;
    for (int64_t epoch = 1; epoch <= 5; ++epoch) {
      fractions.push_back(resident(cache.get()));
      hits.push_back(run_epoch(cache.get(), ranks, epoch));
    }
    print_row("hit rate of an epoch, room for " + std::to_string(percent) + " %", "", {"ddpcache", "resident fraction"},
              {hits, fractions}, {{"samples", std::to_string(kSamples)}, {"ranks", std::to_string(kRanks)}});
  }
}

}  // namespace bench
