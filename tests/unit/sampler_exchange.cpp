// Windows that move: what a node holds, what it keeps, and what a cache with room for just that would hit.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "sampler_fixture.hpp"

namespace ddpcache {
namespace {

using Indices = std::vector<int64_t>;

constexpr uint32_t whole = 1'000'000;  // ppm

dc_sampler_options exchanging(int64_t length, uint32_t nodes, uint32_t ppm) {
  dc_sampler_options options = default_options();
  options.length = length;
  options.nodes = nodes;
  options.exchange_ppm = ppm;
  return options;
}

std::set<int64_t> held(OpenSampler &sampler, int64_t epoch) {
  sampler.set_epoch(epoch);
  const Indices shard = sampler.shard();
  return {shard.begin(), shard.end()};
}

TEST(SamplerExchange, WindowsPartitionTheDataSetInEveryEpochForEveryRate) {
  std::vector<uint32_t> rates = {0, 1, 2, 999'999, whole};
  std::mt19937 random(1);
  for (int i = 0; i < 60; ++i) rates.push_back(random() % (whole + 1));
  for (uint32_t ppm : rates) {
    for (uint32_t nodes : {1u, 2u, 3u, 5u}) {
      dc_sampler_options options = exchanging(101, nodes, ppm);
      options.tail = DC_TAIL_EXACT;
      std::vector<OpenSampler> samplers = open_all(options);
      for (int64_t epoch : {0, 1, 2, 9, 1000}) {
        std::set<int64_t> seen;
        for (OpenSampler &sampler : samplers) {
          const std::set<int64_t> shard = held(sampler, epoch);
          Indices dealt = sampler.read();
          ASSERT_TRUE(std::is_permutation(dealt.begin(), dealt.end(), shard.begin(), shard.end()));
          seen.merge(std::set<int64_t>(shard));
        }
        ASSERT_EQ(seen.size(), 101u) << ppm << " ppm, " << nodes << " nodes, epoch " << epoch;
      }
    }
  }
}

TEST(SamplerExchange, ANodeKeepsWhatItHoldsInThisEpochAndHeldInTheLast) {
  for (uint32_t ppm : {0u, 70'000u, 500'000u, whole}) {
    std::vector<OpenSampler> samplers = open_all(exchanging(200, 4, ppm));
    for (OpenSampler &sampler : samplers) {
      std::set<int64_t> last;
      for (int64_t epoch = 0; epoch < 12; ++epoch) {
        const std::set<int64_t> now = held(sampler, epoch);
        for (int64_t index = 0; index < 200; ++index) {
          ASSERT_EQ(sampler.keeps(index), now.count(index) || last.count(index)) << index << " in epoch " << epoch;
        }
        last = now;
      }
    }
  }
}

TEST(SamplerExchange, OtherOrdersKeepTheirShard) {
  dc_sampler_options options = exchanging(50, 3, 0);
  options.local_size = 2;
  for (options.order = DC_ORDER_TORCH; options.order <= DC_ORDER_VISCY; ++options.order) {
    for (options.shuffle = 0; options.shuffle <= 1; ++options.shuffle) {
      for (OpenSampler &sampler : open_all(options)) {
        const std::set<int64_t> shard = held(sampler, 4);
        for (int64_t index = 0; index < 50; ++index) ASSERT_EQ(sampler.keeps(index), shard.count(index) == 1);
      }
    }
  }
}

// A node's cache: a rank that enters an epoch before the other one drops what it does not keep.
struct Cache {
  void enter(const OpenSampler &sampler) {
    std::erase_if(samples, [&](int64_t index) { return !sampler.keeps(index); });
  }
  void read(const OpenSampler &sampler, int64_t position) {
    const int64_t index = sampler.read(position, 1)[0];
    ++(samples.insert(index).second ? misses : hits);
    most = std::max(most, samples.size());
  }

  std::set<int64_t> samples;
  size_t most = 0;
  int64_t hits = 0, misses = 0;
};

TEST(SamplerExchange, WithRoomForOnePlusXWindowsTheHitRateIsOneMinusXThoughRanksAreAnEpochApart) {
  constexpr int64_t per_node = 1000, epochs = 30;
  for (uint32_t ppm : {0u, 10'000u, 100'000u, 333'333u, 800'000u}) {
    const double x = ppm / 1e6;
    for (int64_t lag : {int64_t{0}, per_node / 4, per_node / 2}) {  // of the second rank, in samples; an epoch has half
      dc_sampler_options options = exchanging(4 * per_node, 4, ppm);
      options.local_size = 2;
      options.node = 2;
      OpenSampler ahead(options);
      options.local_rank = 1;
      OpenSampler behind(options);
      Cache cache;
      const int64_t size = ahead.size();
      for (int64_t now = 0; now < epochs * size + lag; ++now) {
        if (now == size + lag) cache.hits = cache.misses = 0;  // after the first epoch, which fills the cache
        if (now < epochs * size) {
          if (now % size == 0) {
            ahead.set_epoch(now / size);
            cache.enter(ahead);
          }
          cache.read(ahead, now % size);
        }
        if (const int64_t late = now - lag; late >= 0) {
          if (late % size == 0) behind.set_epoch(late / size);
          cache.read(behind, late % size);
        }
      }
      const double rate = static_cast<double>(cache.hits) / static_cast<double>(cache.hits + cache.misses);
      EXPECT_NEAR(rate, 1 - x, 0.01) << ppm << " ppm, " << lag << " behind";
      EXPECT_LE(cache.most, static_cast<size_t>((1 + x) * per_node) + 1) << ppm << " ppm, " << lag << " behind";
      RecordProperty("hit_rate_" + std::to_string(ppm) + "_" + std::to_string(lag), std::to_string(rate));
    }
  }
}

TEST(SamplerExchange, InTimeEveryNodeHasSeenEverything) {
  std::vector<OpenSampler> samplers = open_all(exchanging(4000, 4, 100'000));
  for (OpenSampler &sampler : samplers) {
    std::set<int64_t> seen;
    for (int64_t epoch = 0; epoch <= 30; ++epoch) {
      ASSERT_EQ(seen.size(), epoch == 0 ? 0u : static_cast<size_t>(900 + 100 * epoch)) << "before epoch " << epoch;
      seen.merge(held(sampler, epoch));
    }
    ASSERT_EQ(seen.size(), 4000u);  // three other windows, a tenth of one each epoch
  }
}

// What node `node` holds in `epoch` once it has loaded a state.
std::set<int64_t> held_after(dc_sampler_options options, uint32_t node, const std::vector<uint8_t> &state,
                             int64_t epoch) {
  options.node = node;
  OpenSampler sampler(options);
  sampler.load(state);
  return held(sampler, epoch);
}

TEST(SamplerExchange, AChangeOfRateOrNodesInMidRunMovesTheLeast) {
  const dc_sampler_options before = exchanging(1200, 4, 50'000);
  OpenSampler sampler(before);
  sampler.set_epoch(33);
  const std::vector<uint8_t> state = sampler.save(100);
  const std::set<int64_t> next = held(sampler, 34);

  // The next epoch's windows are where the old rate puts them, and stay or go on at the new one.
  for (uint32_t ppm : {0u, 20'000u, 50'000u, whole}) {
    const dc_sampler_options after = exchanging(1200, 4, ppm);
    EXPECT_EQ(held_after(after, 0, state, 34), next) << ppm;
    std::set<int64_t> later = held_after(after, 0, state, 35);
    std::set<int64_t> both;
    std::set_intersection(next.begin(), next.end(), later.begin(), later.end(), std::inserter(both, both.end()));
    EXPECT_EQ(both.size(), static_cast<size_t>(300 * (1 - ppm / 1e6))) << ppm;
  }
  // Half as many nodes: each takes over two windows whole. Twice as many: each has half of one.
  OpenSampler second([&] {
    auto options = before;
    options.node = 1;
    return options;
  }());
  std::set<int64_t> two = next;
  two.merge(held(second, 34));
  EXPECT_EQ(held_after(exchanging(1200, 2, 50'000), 0, state, 34), two);
  std::set<int64_t> halves = held_after(exchanging(1200, 8, 50'000), 0, state, 34);
  halves.merge(held_after(exchanging(1200, 8, 50'000), 1, state, 34));
  EXPECT_EQ(halves, next);
  // A sampler that knows nothing of the run would hold others.
  OpenSampler fresh(exchanging(1200, 4, 20'000));
  EXPECT_NE(held(fresh, 34), next);
}

}  // namespace
}  // namespace ddpcache
