// Hits of a cache that has room for a part of the data only, and of one whose node's samples change a little each
// epoch.
#include <algorithm>
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

std::vector<Sampler> open_ranks(uint32_t nodes = 1, uint32_t exchange_ppm = 0) {
  std::vector<Sampler> ranks;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    dc_sampler_options options;
    dc_sampler_options_init(&options, sizeof options);
    options.length = kSamples;
    options.nodes = nodes;
    options.local_rank = rank;
    options.local_size = kRanks;
    options.exchange_ppm = exchange_ppm;
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

// Whether the sample hit; counts what was decoded, cached or not.
void load_next(dc_cache *cache, dc_sampler *sampler, int64_t *decoded) {
  int64_t index = 0;
  require(dc_sampler_next(sampler, &index), "dc_sampler_next");
  dc_view view = {};
  const int32_t status = dc_cache_load(cache, index, load_sample, decoded, 0, &view);
  if (status != DC_FULL) require(status, "dc_cache_load");
  dc_cache_view_release(&view);
}

// All ranks in turn, sample by sample. The part of the epoch that hit.
double run_epoch(dc_cache *cache, const std::vector<Sampler> &ranks, int64_t epoch) {
  for (const Sampler &rank : ranks) require(dc_sampler_set_epoch(rank.get(), epoch, nullptr), "dc_sampler_set_epoch");
  int64_t decoded = 0;
  for (int64_t read = 0; read < kSamples; ++read) {
    load_next(cache, ranks[static_cast<size_t>(read) % kRanks].get(), &decoded);
  }
  return 1 - static_cast<double>(decoded) / kSamples;
}

double resident(dc_cache *cache) {
  int64_t found = 0;
  for (int64_t i = 0; i < kSamples; ++i) found += dc_cache_contains(cache, i) == DC_OK;
  return static_cast<double>(found) / kSamples;
}

void drop_what_nobody_keeps(dc_cache *cache, const dc_sampler *sampler) {
  for (int64_t index = 0; index < kSamples; ++index) {
    if (dc_cache_contains(cache, index) == DC_OK && dc_sampler_keeps(sampler, index) != DC_OK) {
      require(dc_cache_remove(cache, index), "dc_cache_remove");
    }
  }
}

// Half of the ranks enter each epoch half an epoch later than the others. The part of each span of an epoch's length
// that hit, once the first windows are in.
std::vector<double> hits_of_moving_windows(dc_cache *cache, const std::vector<Sampler> &ranks) {
  constexpr int64_t kEpochs = 8, kCold = 2;
  int64_t share = 0;
  require(dc_sampler_size(ranks[0].get(), &share), "dc_sampler_size");
  std::vector<double> hits;
  int64_t decoded = 0, latest = 0;
  for (int64_t step = 0; step < kEpochs * share; ++step) {
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      const int64_t position = step - (rank % 2 ? share / 2 : 0);
      if (position < 0) continue;
      dc_sampler *sampler = ranks[rank].get();
      if (position % share == 0) {
        require(dc_sampler_set_epoch(sampler, position / share, nullptr), "dc_sampler_set_epoch");
        if (position / share > latest) drop_what_nobody_keeps(cache, sampler);
        latest = std::max(latest, position / share);
      }
      load_next(cache, sampler, &decoded);
    }
    if ((step + 1) % share != 0) continue;
    if (step / share >= kCold) {
      hits.push_back(1 - static_cast<double>(decoded) / (static_cast<double>(share) * kRanks));
    }
    decoded = 0;
  }
  return hits;
}

void exchange() {
  constexpr uint32_t kNodes = 4;
  for (const uint32_t percent : {1u, 10u, 30u}) {
    const std::vector<Sampler> ranks = open_ranks(kNodes, percent * 10'000);
    dc_cache_options options = options_for(kSamples / kNodes * (100 + percent) / 100 + 1, kSampleBytes);
    options.length = kSamples;
    options.droppable = 1;
    Cache cache(options);
    const std::vector<double> hits = hits_of_moving_windows(cache.get(), ranks);
    print_row("hit rate of an epoch, exchange " + std::to_string(percent) + " %", "", {"ddpcache", "1 - exchange"},
              {hits, std::vector<double>(hits.size(), 1 - percent / 100.0)},
              {{"samples of a node", std::to_string(kSamples / kNodes)}, {"ranks", std::to_string(kRanks)}});
  }
}

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

}  // namespace

void hit_rate() {
  fraction();
  exchange();
}

}  // namespace bench
