// Whether a restored cache has room for what the saved one held, though samples come in another order than they did.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "saved.hpp"
#include "saving_fixture.hpp"

namespace ddpcache::test {
namespace {

TEST(SavingRoom, EveryBucketOfSizesBeginsWhereItSays) {
  for (uint32_t bucket = 0; bucket < kSizeBuckets - 1; ++bucket) {
    EXPECT_EQ(size_bucket(size_bucket_begin(bucket)), bucket);
    EXPECT_EQ(size_bucket(size_bucket_begin(bucket + 1) - 1), bucket);
  }
}

// Of every size there is, so that the samples of a bucket are of several size classes.
class FullOfAllSizes : public ::testing::TestWithParam<unsigned> {};

INSTANTIATE_TEST_SUITE_P(Seeds, FullOfAllSizes, ::testing::Range(1u, 9u));

TEST_P(FullOfAllSizes, FitsItsOwnFile) {
  std::mt19937 random(GetParam());
  std::uniform_real_distribution<double> doublings(6, 14.2);
  std::vector<uint64_t> sizes(60);
  for (uint64_t &size : sizes) size = static_cast<uint64_t>(std::exp2(doublings(random)));
  std::sort(sizes.begin(), sizes.end());
  const int64_t length = static_cast<int64_t>(sizes.size());

  // The largest comes first here, and takes the steps that smaller ones then share; in the file it comes last.
  const CacheName name, other;
  const Handle cache = open_cache(name, options_for(length, 600'000, 0, 20'000));
  for (int64_t index = length - 1; index >= 0; --index) {
    ASSERT_EQ(put(cache, index, sizes[static_cast<size_t>(index)]), DC_OK);
  }
  const Folder folder;
  const std::string path = folder.file("full.cache");
  EXPECT_EQ(save(cache, path), length);
  const Restored back = restore(path, other);
  ASSERT_EQ(back.status, DC_OK) << back.message;
  EXPECT_EQ(stats_of(back.cache).resident, static_cast<uint64_t>(length));
}

}  // namespace
}  // namespace ddpcache::test
