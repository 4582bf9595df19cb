// A cache smaller than the data, filled by ranks that read as the sampler deals: what it holds goes on hitting, and is
// a random part of the data.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "../support/caches.hpp"
#include "sampler_fixture.hpp"

namespace ddpcache::test {
namespace {

constexpr int64_t kLength = 48'000;
constexpr uint32_t kRanks = 4;
constexpr int64_t kEpochs = 3;
constexpr uint64_t kBytes = 64;

// One node: its cache, with room for a fraction of what the node reads, and its ranks as threads.
class Node {
 public:
  Node(const dc_sampler_options &options, double fraction) : window_(kLength / options.nodes) {
    dc_cache_options cache = options_for(static_cast<int64_t>(fraction * static_cast<double>(window_)), 0, kBytes);
    uint64_t total = 0;
    EXPECT_EQ(dc_cache_estimate(&cache, kBytes, &cache.capacity_bytes, &total, nullptr), DC_OK);
    cache.length = kLength;
    cache_ = open_cache(name_, cache);
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      dc_sampler_options own = options;
      own.local_rank = rank;
      samplers_.push_back(std::make_unique<OpenSampler>(own));
    }
  }

  // All ranks read an epoch at once. The part of the reads that hit.
  double run(int64_t epoch) {
    Errand errand{kBytes};
    std::vector<std::thread> threads;
    for (const std::unique_ptr<OpenSampler> &sampler : samplers_) {
      threads.emplace_back([&] {
        sampler->set_epoch(epoch);
        for (int64_t index : sampler->read()) {
          dc_view view = {};
          const int32_t status = dc_cache_load(cache_, index, load_pattern, &errand, 60 * kSecond, &view);
          EXPECT_TRUE(status == DC_OK || status == DC_FULL) << status;
          dc_cache_view_release(&view);
        }
      });
    }
    for (std::thread &thread : threads) thread.join();
    return 1 - static_cast<double>(errand.runs) / static_cast<double>(window_);
  }

  bool holds_index(int64_t index) const { return dc_cache_contains(cache_, index) == DC_OK; }
  double resident() const {
    return static_cast<double>(report_of(cache_).entries_ready) / static_cast<double>(window_);
  }

 private:
  const int64_t window_;
  const CacheName name_;
  Handle cache_;
  std::vector<std::unique_ptr<OpenSampler>> samplers_;
};

std::vector<std::unique_ptr<Node>> nodes_of(uint32_t nodes, uint32_t shuffle, double fraction) {
  std::vector<std::unique_ptr<Node>> all;
  for (uint32_t node = 0; node < nodes; ++node) {
    dc_sampler_options options = default_options();
    options.length = kLength;
    options.node = node;
    options.nodes = nodes;
    options.local_size = kRanks;
    options.shuffle = shuffle;
    all.push_back(std::make_unique<Node>(options, fraction));
  }
  return all;
}

// How many standard deviations the resident samples' spread over parts of the data, which end at `ends`, is from that
// of a random set of as many: too even counts as too uneven does.
double spread_score(const std::vector<std::unique_ptr<Node>> &nodes, const std::vector<int64_t> &ends) {
  std::vector<bool> resident(static_cast<size_t>(kLength));
  double all = 0;
  for (int64_t i = 0; i < kLength; ++i) {
    const auto holds = [i](const std::unique_ptr<Node> &node) { return node->holds_index(i); };
    resident[static_cast<size_t>(i)] = std::any_of(nodes.begin(), nodes.end(), holds);
    all += resident[static_cast<size_t>(i)];
  }
  const double fraction = all / static_cast<double>(kLength);
  double chi_squared = 0;
  int64_t begin = 0;
  for (const int64_t end : ends) {
    double found = 0;
    for (int64_t i = begin; i < end; ++i) found += resident[static_cast<size_t>(i)];
    const double expected = fraction * static_cast<double>(end - begin);
    chi_squared += (found - expected) * (found - expected) / (expected * (1 - fraction));
    begin = end;
  }
  // Wilson and Hilferty: the cube root of chi-squared over its degrees is nearly normal.
  const double degrees = static_cast<double>(ends.size() - 1), variance = 2 / (9 * degrees);
  return (std::cbrt(chi_squared / degrees) - (1 - variance)) / std::sqrt(variance);
}

std::vector<int64_t> equal_ranges() {
  std::vector<int64_t> ends;
  for (int64_t part = 1; part <= 60; ++part) ends.push_back(kLength / 60 * part);
  return ends;
}

// Data sorted by class, the classes of sizes 1, 2, ..., 10 fifty-fifths.
std::vector<int64_t> classes() {
  std::vector<int64_t> ends;
  for (int64_t label = 1; label <= 10; ++label) ends.push_back(kLength * (label * (label + 1) / 2) / 55);
  return ends;
}

// Of a random set either score passes 5 once in three million runs.
constexpr double kScoreMax = 5;

class SmallerCache : public ::testing::TestWithParam<double> {};
INSTANTIATE_TEST_SUITE_P(Fractions, SmallerCache, ::testing::Values(0.1, 0.5, 0.9));

TEST_P(SmallerCache, HitsItsResidentFractionInEveryEpochAndHoldsARandomPartOfTheData) {
  for (const uint32_t count : {1u, 2u}) {
    const auto nodes = nodes_of(count, 1, GetParam());
    for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      for (const std::unique_ptr<Node> &node : nodes) {
        const double resident = node->resident();
        const double hits = node->run(epoch);
        // Every sample is read once an epoch, so this is arithmetic and no chance: only a fill that was refused while
        // there was room, and succeeds later, makes a difference.
        EXPECT_NEAR(hits, resident, 0.01) << "epoch " << epoch << " of " << count << " nodes";
        EXPECT_NEAR(node->resident(), GetParam(), 0.02);
      }
      EXPECT_LT(std::abs(spread_score(nodes, equal_ranges())), kScoreMax) << "epoch " << epoch << ", " << count;
      EXPECT_LT(std::abs(spread_score(nodes, classes())), kScoreMax) << "epoch " << epoch << ", " << count;
    }
  }
}

// What the scores are worth.
TEST_P(SmallerCache, FilledWithoutShuffleHoldsNoRandomPart) {
  const auto nodes = nodes_of(1, 0, GetParam());
  nodes[0]->run(0);
  EXPECT_GT(spread_score(nodes, equal_ranges()), 10 * kScoreMax);
  EXPECT_GT(spread_score(nodes, classes()), 10 * kScoreMax);
}

}  // namespace
}  // namespace ddpcache::test
