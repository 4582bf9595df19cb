// Removing samples: hidden at once, their memory used again only when nobody looks at it.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "../support/caches.hpp"

namespace ddpcache::test {
namespace {

dc_cache_options droppable(int64_t length, uint64_t capacity, uint64_t sample_bytes) {
  dc_cache_options options = options_for(length, capacity, sample_bytes);
  options.droppable = 1;
  return options;
}

class Droppable : public ::testing::Test {
 protected:
  ~Droppable() override { report_of(cache_); }

  // Fills from `first` on until the cache is full; how many fitted.
  int64_t fill_up(int64_t first) {
    int64_t index = first;
    while (put(cache_, index, kBytes) == DC_OK) ++index;
    return index - first;
  }

  static constexpr uint64_t kBytes = 4096;
  const CacheName name_;
  Handle cache_ = open_cache(name_, droppable(100'000, 1 << 20, kBytes));
};

TEST_F(Droppable, ARemovedSampleIsInvisibleAtOnceAndCanBeFilledAgain) {
  ASSERT_EQ(put(cache_, 7, kBytes), DC_OK);
  EXPECT_EQ(dc_cache_remove(cache_, 7), DC_OK);
  EXPECT_EQ(dc_cache_contains(cache_, 7), DC_MISS);
  dc_view view;
  EXPECT_EQ(dc_cache_view(cache_, 7, &view), DC_MISS);
  EXPECT_EQ(dc_cache_remove(cache_, 7), DC_MISS);
  EXPECT_EQ(put(cache_, 7, kBytes), DC_OK);
  EXPECT_TRUE(holds(cache_, 7, kBytes));
  const dc_cache_stats stats = stats_of(cache_);
  EXPECT_EQ(stats.removed, 1u);
  EXPECT_EQ(stats.resident, 1u);
}

TEST_F(Droppable, TheSpaceOfRemovedSamplesIsUsedAgainTenTimesOver) {
  const int64_t room = fill_up(0);
  ASSERT_GT(room, 200);
  std::vector<int64_t> indices;
  for (int64_t index = 0; index < room; ++index) indices.push_back(index);
  for (int round = 0; round < 10; ++round) {
    int64_t removed = 0;
    ASSERT_EQ(dc_cache_remove_batch(cache_, indices.data(), room, &removed), DC_OK);
    ASSERT_EQ(removed, room);
    for (int64_t &index : indices) {
      index += room;
      ASSERT_EQ(put(cache_, index, kBytes), DC_OK) << "round " << round << ", index " << index;
    }
  }
  EXPECT_EQ(put(cache_, 99'999, kBytes), DC_FULL);
  for (int64_t index : indices) ASSERT_TRUE(holds(cache_, index, kBytes));
}

TEST_F(Droppable, RemovingOneMakesRoomForOne) {
  const int64_t room = fill_up(0);
  for (int64_t index = 0; index < 50; ++index) {
    ASSERT_EQ(dc_cache_remove(cache_, index * 3 % room), DC_OK);
    ASSERT_EQ(put(cache_, room + index, kBytes), DC_OK) << index;
    ASSERT_EQ(put(cache_, 99'999, kBytes), DC_FULL);
  }
}

TEST_F(Droppable, AViewKeepsItsBytesUntilItIsReleased) {
  const int64_t room = fill_up(0);
  dc_view view;
  ASSERT_EQ(dc_cache_view(cache_, 5, &view), DC_OK);
  ASSERT_EQ(dc_cache_remove(cache_, 5), DC_OK);
  EXPECT_EQ(put(cache_, room, kBytes), DC_FULL) << "its extent was taken under a view";
  EXPECT_EQ(report_of(cache_).extents_named, 1u);
  EXPECT_TRUE(has_pattern(view.data, view.bytes, 5));
  dc_cache_view_release(&view);
  EXPECT_EQ(put(cache_, room, kBytes), DC_OK);
}

TEST_F(Droppable, AViewOfAnotherHandleKeepsItsBytesToo) {
  const int64_t room = fill_up(0);
  Handle other = attach_cache(name_.c_str());
  dc_view view;
  ASSERT_EQ(dc_cache_view(other, 5, &view), DC_OK);
  ASSERT_EQ(dc_cache_remove(cache_, 5), DC_OK);
  EXPECT_EQ(put(cache_, room, kBytes), DC_FULL);
  EXPECT_EQ(other.close(), DC_OK);
  EXPECT_EQ(put(cache_, room, kBytes), DC_FULL) << "the view outlives its handle, and so does its name";
  EXPECT_TRUE(has_pattern(view.data, view.bytes, 5));
  dc_cache_view_release(&view);
  EXPECT_EQ(put(cache_, room, kBytes), DC_OK);
}

TEST_F(Droppable, WithMoreViewsThanNamesNothingRemovedIsUsedAgain) {
  const int64_t room = fill_up(0);
  std::vector<dc_view> views(1500);
  for (dc_view &view : views) ASSERT_EQ(dc_cache_view(cache_, 1, &view), DC_OK);
  ASSERT_EQ(dc_cache_remove(cache_, 2), DC_OK);
  EXPECT_EQ(put(cache_, room, kBytes), DC_FULL);
  for (size_t i = 1024; i < views.size(); ++i) dc_cache_view_release(&views[i]);
  EXPECT_EQ(put(cache_, room, kBytes), DC_OK);
  for (dc_view &view : views) dc_cache_view_release(&view);
  ASSERT_EQ(dc_cache_remove(cache_, 1), DC_OK);
  EXPECT_EQ(put(cache_, room + 1, kBytes), DC_OK);
}

TEST_F(Droppable, ClearRemovesAllButFillsUnderWay) {
  ASSERT_EQ(put(cache_, 1, kBytes), DC_OK);
  ASSERT_EQ(put(cache_, 2, kBytes), DC_OK);
  dc_fill *fill = nullptr;
  ASSERT_EQ(dc_cache_fill_begin(cache_, 3, 0, &fill), DC_OK);
  EXPECT_EQ(dc_cache_remove(cache_, 3), DC_MISS);
  int64_t removed = 0;
  EXPECT_EQ(dc_cache_clear(cache_, &removed), DC_OK);
  EXPECT_EQ(removed, 2);
  dc_array array = byte_array(kBytes);
  ASSERT_EQ(dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr), DC_OK);
  write_pattern(array.data, kBytes, 3);
  EXPECT_EQ(dc_cache_fill_commit(fill), DC_OK);
  EXPECT_TRUE(holds(cache_, 3, kBytes));
}

TEST_F(Droppable, ReadingByCopyLeavesNoNameBehind) {
  const int64_t room = fill_up(0);
  std::vector<uint8_t> buffer(10 * kBytes);
  const std::vector<int64_t> indices = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  ASSERT_EQ(dc_cache_read_batch(cache_, indices.data(), 10, 0, buffer.data(), kBytes, nullptr, 3), DC_OK);
  ASSERT_EQ(dc_cache_read(cache_, 0, 0, buffer.data(), buffer.size(), nullptr), DC_OK);
  EXPECT_TRUE(has_pattern(buffer.data(), kBytes, 0));
  int64_t removed = 0;
  ASSERT_EQ(dc_cache_remove_batch(cache_, indices.data(), 10, &removed), DC_OK);
  EXPECT_EQ(report_of(cache_).extents_named, 0u);
  for (int64_t i = 0; i < removed; ++i) ASSERT_EQ(put(cache_, room + i, kBytes), DC_OK);
}

TEST_F(Droppable, OneBadIndexRemovesNothing) {
  ASSERT_EQ(put(cache_, 1, kBytes), DC_OK);
  const int64_t indices[] = {1, 100'000};
  int64_t removed = -1;
  EXPECT_EQ(dc_cache_remove_batch(cache_, indices, 2, &removed), DC_ERROR_RANGE);
  EXPECT_EQ(removed, 0);
  EXPECT_EQ(dc_cache_contains(cache_, 1), DC_OK);
  EXPECT_EQ(dc_cache_remove_batch(cache_, nullptr, 1, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_remove_batch(cache_, indices, -1, nullptr), DC_ERROR_RANGE);
  EXPECT_EQ(dc_cache_remove(nullptr, 1), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_clear(nullptr, nullptr), DC_ERROR_ARGUMENT);
}

TEST(Dropping, IsRefusedWhereTheCacheWasNotMadeForIt) {
  const CacheName name;
  Handle cache = open_cache(name, options_for(10, 1 << 20, 64));
  ASSERT_EQ(put(cache, 1, 64), DC_OK);
  EXPECT_EQ(dc_cache_remove(cache, 1), DC_ERROR_UNSUPPORTED);
  EXPECT_EQ(dc_cache_clear(cache, nullptr), DC_ERROR_UNSUPPORTED);
  EXPECT_EQ(dc_cache_contains(cache, 1), DC_OK);
  dc_cache_options options = droppable(10, 1 << 20, 64);
  dc_cache *other = nullptr;
  dc_error error;
  EXPECT_EQ(dc_cache_open(name.c_str(), nullptr, "test", &options, &other, &error), DC_ERROR_MISMATCH);
  EXPECT_STREQ(strstr(error.message, "droppable 0, asked for was 1"), "droppable 0, asked for was 1");
}

// Few extents, many indices: every extent changes hands all the time, under readers that copy and readers that look.
TEST(Dropping, ReadersNeverSeeAnotherSampleWhileExtentsChangeHands) {
  constexpr int64_t kIndices = 64;
  constexpr uint64_t kBytes = 2048;
  const CacheName name;
  Handle cache = open_cache(name, droppable(kIndices, 16 << 10, kBytes));
  Handle second = attach_cache(name.c_str());
  std::atomic<bool> over{false};
  std::atomic<int64_t> looks{0}, wrong{0}, fills{0};
  const auto read = [&](dc_cache *from, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<uint8_t> copy(kBytes);
    while (!over) {
      const int64_t index = random() % kIndices;
      dc_view view;
      if (dc_cache_view(from, index, &view) == DC_OK) {
        wrong += !has_pattern(view.data, view.bytes, index);
        dc_cache_view_release(&view);
        ++looks;
      }
      if (dc_cache_read(from, index, 0, copy.data(), kBytes, nullptr) == DC_OK)
        wrong += !has_pattern(copy.data(), kBytes, index);
    }
  };
  const auto churn = [&](dc_cache *in, uint32_t seed) {
    std::mt19937 random(seed);
    while (!over) {
      fills += put(in, random() % kIndices, kBytes) == DC_OK;
      dc_cache_remove(in, random() % kIndices);
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 2; ++i) {
    dc_cache *in = i ? cache : second;
    threads.emplace_back(read, in, i);
    threads.emplace_back(churn, in, 10 + i);
  }
  std::this_thread::sleep_for(std::chrono::seconds(2));
  over = true;
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(looks, 100);
  EXPECT_GT(fills, 100);
  const dc_cache_report report = report_of(cache);
  EXPECT_EQ(report.extents_named, 0u);
  EXPECT_EQ(report.entries_ready, report.extents_owned);
}

}  // namespace
}  // namespace ddpcache::test
