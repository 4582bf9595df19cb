// Samples of all sizes side by side in one cache.
#include <gtest/gtest.h>

#include <vector>

#include "../support/caches.hpp"

namespace ddpcache::test {
namespace {

TEST(SampleSizes, FromOneByteToTheLargestShareACache) {
  constexpr uint64_t kLargest = 4 << 20;
  std::vector<uint64_t> sizes;
  for (uint64_t bytes = 1; bytes <= kLargest; bytes *= 2) {
    sizes.push_back(bytes);
    if (bytes > 2) sizes.push_back(bytes - 1);
    if (bytes < kLargest) sizes.push_back(bytes + bytes / 2 + 1);
  }
  const CacheName name;
  const int64_t length = static_cast<int64_t>(sizes.size());
  // Every size may be of a class of its own, and take a step.
  const Handle cache = open_cache(name, options_for(length + 1, sizes.size() * (kLargest + (64 << 10)), 0, kLargest));
  for (int64_t i = 0; i < length; ++i) ASSERT_EQ(put(cache, i, sizes[static_cast<size_t>(i)]), DC_OK);
  for (int64_t i = 0; i < length; ++i) EXPECT_TRUE(holds(cache, i, sizes[static_cast<size_t>(i)]));
  EXPECT_EQ(put(cache, length, kLargest + 1), DC_ERROR_TOO_LARGE);
  EXPECT_EQ(report_of(cache).entries_ready, static_cast<uint64_t>(length));
}

}  // namespace
}  // namespace ddpcache::test
