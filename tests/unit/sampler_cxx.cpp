// The C++ object over the sampler.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "ddpcache/ddpcache.hpp"

namespace {

ddpcache::SamplerOptions laid_out(uint32_t nodes, uint32_t node, uint32_t local_size, uint32_t local_rank) {
  ddpcache::SamplerOptions options(600);
  options.nodes = nodes;
  options.node = node;
  options.local_size = local_size;
  options.local_rank = local_rank;
  options.exchange_ppm = 200'000;
  return options;
}

TEST(CxxSampler, AnEpochIsFinishedUnderAnotherLayout) {
  std::set<std::int64_t> seen;
  std::vector<std::uint8_t> state;
  for (uint32_t node = 0; node < 3; ++node) {
    ddpcache::Sampler sampler(laid_out(3, node, 1, 0));
    sampler.set_epoch(7);
    for (std::int64_t index : sampler.read(0, 60)) EXPECT_TRUE(seen.insert(index).second);
    state = sampler.save_state(60);
  }
  for (uint32_t local_rank = 0; local_rank < 2; ++local_rank) {
    ddpcache::Sampler sampler(laid_out(1, 0, 2, local_rank));
    sampler.load_state(state);
    EXPECT_EQ(sampler.size(), 210);
    while (const std::optional<std::int64_t> index = sampler.next()) EXPECT_TRUE(seen.insert(*index).second);
  }
  EXPECT_EQ(seen.size(), 600u);
}

TEST(CxxSampler, IsGoneThroughFromTheBeginningWithoutMovingNext) {
  for (std::int64_t length : {0, 1, 511, 512, 513, 5000}) {
    ddpcache::Sampler sampler{ddpcache::SamplerOptions(length)};
    sampler.set_epoch(3);
    if (length) sampler.next();
    const std::vector<std::int64_t> wanted = sampler.read(0, sampler.size());
    std::vector<std::int64_t> found;
    for (std::int64_t index : sampler) found.push_back(index);
    EXPECT_EQ(found, wanted);
    EXPECT_EQ(std::vector<std::int64_t>(sampler.begin(), sampler.end()), wanted);
    EXPECT_EQ(sampler.tell(), length ? 1 : 0);
  }
}

TEST(CxxSampler, SeeksTellsAndFinds) {
  ddpcache::Sampler sampler(laid_out(3, 1, 2, 1));
  sampler.set_epoch(2);
  sampler.seek(40);
  EXPECT_EQ(sampler.tell(), 40);
  EXPECT_EQ(sampler.epoch(), 2);
  const std::optional<std::int64_t> index = sampler.next();
  ASSERT_TRUE(index);
  EXPECT_EQ(sampler.tell(), 41);
  const std::optional<ddpcache::Position> found = sampler.find(*index);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 3u);
  EXPECT_EQ(found->position, 40);
  sampler.seek(sampler.size());
  EXPECT_FALSE(sampler.next());
  EXPECT_THROW(sampler.seek(sampler.size() + 1), ddpcache::Error);
  ddpcache::SamplerOptions dropping(3);
  dropping.tail = DC_TAIL_DROP;
  dropping.local_size = 2;
  ddpcache::Sampler two(dropping);
  int dealt = 0;
  for (std::int64_t i = 0; i < 3; ++i) dealt += two.find(i).has_value();
  EXPECT_EQ(dealt, 2);
}

TEST(CxxSampler, KeepsItsShardOfThisEpochAndTheLast) {
  ddpcache::Sampler sampler(laid_out(3, 1, 1, 0));
  const std::vector<std::int64_t> first = sampler.shard(0, sampler.shard_size());
  sampler.set_epoch(1);
  std::set<std::int64_t> held(first.begin(), first.end());
  for (std::int64_t index : sampler.shard(0, sampler.shard_size())) held.insert(index);
  EXPECT_EQ(held.size(), 240u);
  for (std::int64_t index = 0; index < 600; ++index) EXPECT_EQ(sampler.keeps(index), held.count(index) == 1);
}

TEST(CxxSampler, ErrorsCarryTheirSentence) {
  ddpcache::Sampler sampler(laid_out(3, 1, 1, 0));
  EXPECT_THROW(sampler.keeps(600), ddpcache::Error);
  EXPECT_THROW(sampler.save_state(201), ddpcache::Error);
  std::vector<std::uint8_t> state = sampler.save_state(5);
  state[30] ^= 1;
  try {
    sampler.load_state(state);
    FAIL() << "a damaged state was loaded";
  } catch (const ddpcache::Error &error) {
    EXPECT_EQ(error.status(), DC_ERROR_SAMPLER_STATE);
    EXPECT_STREQ(error.what(), "the sampler state is damaged: its checksum does not match");
  }
}

TEST(CxxPermutation, TakesEachIndexToOnePositionAndBack) {
  const ddpcache::Permutation permutation(5000, 7, 2);
  const std::vector<std::int64_t> all = permutation.read(0, 5000);
  EXPECT_EQ(std::set<std::int64_t>(all.begin(), all.end()).size(), 5000u);
  for (std::int64_t position : {0, 1, 4999}) {
    const std::int64_t index = permutation.at(position);
    EXPECT_EQ(index, all[static_cast<std::size_t>(position)]);
    EXPECT_EQ(permutation.inverse(index), position);
  }
  EXPECT_NE(ddpcache::Permutation(5000, 7, 3).read(0, 5000), all);
  EXPECT_EQ(ddpcache::Permutation(5000, 7, 2).read(0, 5000), all);
  EXPECT_THROW(permutation.at(5000), ddpcache::Error);
  EXPECT_THROW(permutation.inverse(-1), ddpcache::Error);
  EXPECT_THROW(permutation.read(4000, 1001), ddpcache::Error);
  EXPECT_THROW(ddpcache::Permutation(-1), ddpcache::Error);
}

}  // namespace
