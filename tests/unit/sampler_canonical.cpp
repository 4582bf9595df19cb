// canonical_nodes: the same global batches whatever the layout.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "sampler_fixture.hpp"

namespace ddpcache {
namespace {

using Indices = std::vector<int64_t>;

// The sorted samples of each full global batch.
std::vector<Indices> global_batches(dc_sampler_options options, int64_t batch, int64_t epoch) {
  std::vector<OpenSampler> samplers = open_all(options);
  const int64_t each = batch / static_cast<int64_t>(samplers.size());
  const int64_t windows = options.canonical_nodes;
  const int64_t full = options.length / windows / (batch / windows);
  std::vector<Indices> batches(static_cast<size_t>(full));
  for (OpenSampler &sampler : samplers) {
    sampler.set_epoch(epoch);
    for (int64_t t = 0; t < full; ++t) {
      const Indices part = sampler.read(t * each, each);
      Indices &all = batches[static_cast<size_t>(t)];
      all.insert(all.end(), part.begin(), part.end());
    }
  }
  for (Indices &all : batches) std::sort(all.begin(), all.end());
  return batches;
}

TEST(SamplerCanonical, GlobalBatchesAreTheSameForEveryLayoutThatDivides) {
  for (int64_t length : {int64_t{97}, int64_t{10'007}, int64_t{65'536}}) {
    for (uint32_t ppm : {0u, 150'000u}) {
      dc_sampler_options options = default_options();
      options.length = length;
      options.seed = 9;
      options.canonical_nodes = 8;
      options.exchange_ppm = ppm;
      constexpr int64_t batch = 48;
      for (int64_t epoch : {0, 5}) {
        const std::vector<Indices> expected = global_batches(options, batch, epoch);
        ASSERT_EQ(expected.size(), static_cast<size_t>(length / 8 / 6));
        for (const auto &[nodes, local_size] : {std::pair<uint32_t, uint32_t>{1, 2},
                                                {1, 3},
                                                {1, 48},
                                                {2, 1},
                                                {2, 4},
                                                {2, 8},
                                                {4, 1},
                                                {4, 3},
                                                {8, 1},
                                                {8, 6}}) {
          options.nodes = nodes;
          options.local_size = local_size;
          ASSERT_EQ(global_batches(options, batch, epoch), expected) << nodes << " nodes of " << local_size;
        }
        options.nodes = options.local_size = 1;
      }
    }
  }
}

TEST(SamplerCanonical, ASamplerOfAsManyNodesIsTheSameAsWithout) {
  dc_sampler_options options = default_options();
  options.length = 5003;
  options.nodes = 4;
  options.local_size = 2;
  std::vector<OpenSampler> plain = open_all(options);
  options.canonical_nodes = 4;
  std::vector<OpenSampler> canonical = open_all(options);
  for (size_t rank = 0; rank < plain.size(); ++rank) ASSERT_EQ(canonical[rank].read(), plain[rank].read());
}

TEST(SamplerCanonical, NodesHoldNeighbouringWindowsSoThatSamplesMoveOnlyWhereNodesSplitOrJoin) {
  dc_sampler_options options = default_options();
  options.length = 1000;
  options.canonical_nodes = 12;
  for (uint32_t nodes : {1u, 2u, 3u, 4u, 6u, 12u}) {
    options.nodes = nodes;
    Indices joined;
    for (const OpenSampler &sampler : open_all(options)) {
      const Indices shard = sampler.shard();
      joined.insert(joined.end(), shard.begin(), shard.end());
    }
    options.nodes = 12;
    Indices expected;
    for (const OpenSampler &sampler : open_all(options)) {
      const Indices shard = sampler.shard();
      expected.insert(expected.end(), shard.begin(), shard.end());
    }
    ASSERT_EQ(joined, expected) << nodes << " nodes";
  }
}

TEST(SamplerCanonical, ManyWindowsOfALengthThatNoMemoryHoldsAreReadAndFound) {
  dc_sampler_options options = default_options();
  options.length = 1'000'000'000'003;
  options.canonical_nodes = 2048;
  options.nodes = 2;
  options.node = 1;
  options.local_size = 3;
  options.local_rank = 2;
  OpenSampler sampler(options);
  for (int64_t position : {int64_t{0}, int64_t{12'345'678'901}, sampler.real_size() - 3000}) {
    const Indices page = sampler.read(position, 3000);
    for (size_t i = 0; i < page.size(); i += 97) {
      ASSERT_EQ(sampler.read(position + static_cast<int64_t>(i), 1)[0], page[i]);
      uint32_t rank = 0;
      int64_t found = -1;
      ASSERT_EQ(dc_sampler_find(sampler.handle(), page[i], &rank, &found, nullptr), DC_OK);
      ASSERT_EQ(rank, 5u);
      ASSERT_EQ(found, position + static_cast<int64_t>(i));
    }
  }
}

}  // namespace
}  // namespace ddpcache
