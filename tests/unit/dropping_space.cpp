// Memory of a droppable cache over many epochs: what was removed is used again before more is taken.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "../support/caches.hpp"

namespace ddpcache::test {
namespace {

// A window that moves on by a tenth each epoch, over samples of two sizes. What is removed was stored at one time and
// lies together, and of either size there is now a little more and now a little less.
TEST(DroppableSpace, OfAMovingWindowGrowsNoFurtherOnceTheWindowHasBeenHeld) {
  constexpr int64_t kWindow = 6000, kMove = kWindow / 10, kEpochs = 60;
  constexpr int64_t kLength = kWindow + kEpochs * kMove;
  dc_cache_options options = options_for(kLength, 64 << 20, 0, 4096);
  options.droppable = 1;
  const CacheName name;
  const Handle cache = open_cache(name, options);
  const unsigned seed = 1;
  std::mt19937 random(seed);
  std::vector<uint64_t> bytes;
  for (int64_t i = 0; i < kLength; ++i) bytes.push_back(random() % 2 ? 1800 : 2400);
  const auto fill = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ASSERT_EQ(put(cache, i, bytes[static_cast<size_t>(i)]), DC_OK) << i;
  };
  fill(0, kWindow + kMove);
  const uint64_t first = report_of(cache).steps_reserved;
  for (int64_t epoch = 2; epoch <= kEpochs; ++epoch) {
    // The window of this epoch and of the last one stay.
    for (int64_t i = (epoch - 2) * kMove; i < (epoch - 1) * kMove; ++i) ASSERT_EQ(dc_cache_remove(cache, i), DC_OK);
    fill(kWindow + (epoch - 1) * kMove, kWindow + epoch * kMove);
  }
  const dc_cache_report report = report_of(cache);
  EXPECT_EQ(report.entries_ready, static_cast<uint64_t>(kWindow + kMove));
  // Either size is at times up to four standard deviations (160 samples) above its mean: one step more for each.
  EXPECT_LE(report.steps_reserved, first + 2) << "of " << info_of(cache).step_bytes << " bytes, seed " << seed;
}

}  // namespace
}  // namespace ddpcache::test
