// Room: what an estimate promises, what happens when it is used up, and that what is given up is found again.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "../support/caches.hpp"

namespace ddpcache::test {
namespace {

constexpr uint64_t kMiB = 1 << 20;

struct Estimated {
  uint64_t capacity_bytes = 0;
  uint64_t total_bytes = 0;
};

Estimated estimate(const dc_cache_options &options, uint64_t sample_bytes) {
  Estimated estimated;
  dc_error error = {};
  EXPECT_EQ(dc_cache_estimate(&options, sample_bytes, &estimated.capacity_bytes, &estimated.total_bytes, &error), DC_OK)
      << error.message;
  return estimated;
}

// Fills every entry of a cache of estimated size; FULL is a failure.
void fill_all(int64_t length, uint64_t sample_bytes, uint64_t fixed, uint64_t largest) {
  SCOPED_TRACE(::testing::Message() << length << " samples of " << sample_bytes << ", sample_bytes " << fixed
                                    << ", sample_bytes_max " << largest);
  dc_cache_options options = options_for(length, 0, fixed, largest);
  const Estimated estimated = estimate(options, sample_bytes);
  options.capacity_bytes = estimated.capacity_bytes;
  const CacheName name;
  const Handle cache = open_cache(name, options);
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(info_of(cache).file_bytes, estimated.total_bytes);
  for (int64_t i = 0; i < length; ++i) ASSERT_EQ(put(cache, i, sample_bytes), DC_OK) << "sample " << i;
  ASSERT_TRUE(holds(cache, 0, sample_bytes));
  ASSERT_TRUE(holds(cache, length - 1, sample_bytes));
  EXPECT_EQ(report_of(cache).entries_ready, static_cast<uint64_t>(length));
  EXPECT_LE(stats_of(cache).reserved_bytes, estimated.total_bytes);
}

TEST(Estimate, SufficesForSamplesOfOneSize) {
  for (const int64_t length : {1, 2, 7, 100, 1000}) {
    for (const uint64_t bytes : {1ul, 64ul, 100ul, 4096ul, 30'000ul}) fill_all(length, bytes, bytes, 0);
  }
  fill_all(30, kMiB, kMiB, 0);
  fill_all(20'000, 64, 64, 0);
}

TEST(Estimate, SufficesForSamplesOfAnySize) {
  for (const int64_t length : {1, 2, 7, 100, 1000}) {
    for (const uint64_t bytes : {1ul, 64ul, 100ul, 4096ul, 30'000ul}) {
      fill_all(length, bytes, 0, 0);
      fill_all(length, bytes, 0, bytes);
      fill_all(length, bytes, 0, 4 * bytes + 17);
    }
  }
  fill_all(30, kMiB, 0, 0);
  fill_all(20'000, 64, 0, 0);
}

// By planning alone: no memory is touched, so the sizes may be those of large machines.
TEST(Estimate, IsLittleMoreThanTheSamples) {
  for (const uint64_t bytes : {4096ul, 49152ul, 150'528ul, 4 * kMiB}) {
    for (const int64_t length : {10'000, 1'281'167}) {
      const double payload = static_cast<double>(bytes) * static_cast<double>(length);
      const Estimated fixed = estimate(options_for(length, 0, bytes), bytes);
      EXPECT_LE(static_cast<double>(fixed.capacity_bytes), 1.08 * payload) << bytes << " x " << length;
      const Estimated any = estimate(options_for(length, 0), bytes);
      EXPECT_LE(static_cast<double>(any.capacity_bytes), 1.40 * payload) << bytes << " x " << length;
    }
  }
}

TEST(Estimate, IsNeverBelowTheSamplesAndGrowsWithThem) {
  uint64_t previous = 0;
  for (int64_t length = 1; length < 3000; length = length * 3 / 2 + 1) {
    const Estimated now = estimate(options_for(length, 0, 1000), 1000);
    EXPECT_GE(now.capacity_bytes, static_cast<uint64_t>(length) * 1000);
    EXPECT_GE(now.total_bytes, now.capacity_bytes);
    EXPECT_GE(now.capacity_bytes, previous);
    previous = now.capacity_bytes;
  }
}

class FullCache : public ::testing::Test {
 protected:
  // Fills until there is no room, and says how many fitted.
  static int64_t fill_up(dc_cache *cache, uint64_t bytes, int64_t from = 0) {
    const int64_t length = info_of(cache).length;
    int64_t stored = 0;
    for (int64_t i = from; i < length; ++i) {
      const int32_t status = put(cache, i, bytes);
      if (status == DC_PRESENT) continue;
      if (status != DC_OK) {
        EXPECT_EQ(status, DC_FULL);
        return stored;
      }
      ++stored;
    }
    ADD_FAILURE() << "the cache did not become full";
    return stored;
  }

  const CacheName name_;
};

TEST_F(FullCache, GoesOnHitting) {
  const Handle cache = open_cache(name_, options_for(100'000, 4 * kMiB, 5000));
  const int64_t stored = fill_up(cache, 5000);
  const dc_cache_info info = info_of(cache);
  EXPECT_GE(static_cast<uint64_t>(stored) * (5000 + 192 + 64 + 8), info.capacity_bytes * 9 / 10);
  for (int64_t i = 0; i < stored; ++i) ASSERT_TRUE(holds(cache, i, 5000));
  EXPECT_EQ(put(cache, stored + 5, 5000), DC_FULL);
  EXPECT_EQ(stats_of(cache).open_fills, 0u);
  EXPECT_EQ(report_of(cache).extents_free, 0u);
}

TEST_F(FullCache, RunsALoaderForItsCallerAlone) {
  const Handle cache = open_cache(name_, options_for(10'000, kMiB, 5000));
  const int64_t stored = fill_up(cache, 5000);
  const dc_loader uncached = [](dc_fill *fill, int64_t, void *user) {
    ++*static_cast<int *>(user);
    dc_array array = byte_array(5000);
    EXPECT_EQ(dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr), DC_FULL);
    return DC_LOADED;
  };
  int runs = 0;
  dc_view view;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(dc_cache_load(cache, stored + 1, uncached, &runs, 0, &view), DC_FULL);
    EXPECT_EQ(view.owner, nullptr);
  }
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(stats_of(cache).bypasses, 3u);
  EXPECT_EQ(dc_cache_load(cache, 0, uncached, &runs, 0, &view), DC_OK);
  dc_cache_view_release(&view);
  EXPECT_EQ(runs, 3);
}

TEST_F(FullCache, RefusesToLoadAnIndexFromItsOwnLoader) {
  const Handle cache = open_cache(name_, options_for(10'000, kMiB, 5000));
  const int64_t stored = fill_up(cache, 5000);
  struct Nested {
    dc_cache *cache;
    int depth = 0;
    int32_t inner = DC_OK;
  } nested{cache};
  const dc_loader recursing = [](dc_fill *, int64_t index, void *user) -> int32_t {
    Nested *own = static_cast<Nested *>(user);
    if (++own->depth > 2) return 0;
    dc_view view;
    own->inner = dc_cache_load(own->cache, index, nullptr, nullptr, 0, &view);
    EXPECT_EQ(own->inner, DC_ERROR_ARGUMENT);
    const dc_loader again = [](dc_fill *, int64_t, void *counter) -> int32_t {
      ++static_cast<Nested *>(counter)->depth;
      return 0;
    };
    own->inner = dc_cache_load(own->cache, index, again, user, 0, &view);
    return 0;
  };
  dc_view view;
  // The first load finds out that there is no room; from then on loads run without a claim.
  dc_cache_load(cache, stored + 1, load_pattern, std::make_unique<Errand>().get(), 0, &view);
  dc_cache_load(cache, stored + 1, recursing, &nested, 0, &view);
  EXPECT_EQ(nested.depth, 1);
  EXPECT_EQ(nested.inner, DC_ERROR_RECURSION);
}

TEST_F(FullCache, CannotBeClosedByALoaderThatRunsWithoutAClaim) {
  Handle cache = open_cache(name_, options_for(10'000, kMiB, 5000));
  const int64_t stored = fill_up(cache, 5000);
  dc_view view;
  const dc_loader closing = [](dc_fill *, int64_t, void *user) -> int32_t {
    EXPECT_EQ(dc_cache_close(static_cast<dc_cache *>(user)), DC_ERROR_STATE);
    return 0;
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(dc_cache_load(cache, stored + 1, closing, static_cast<dc_cache *>(cache), 0, &view), DC_ERROR_LOADER);
  }
  EXPECT_EQ(cache.close(), DC_OK);
}

TEST_F(FullCache, IsNeverReachedByFillsThatAreGivenUp) {
  const Handle cache = open_cache(name_, options_for(10, 2 * kMiB, 0, 100'000));
  const uint64_t capacity = info_of(cache).capacity_bytes;
  uint64_t given_up = 0;
  for (int64_t round = 0; given_up < 10 * capacity; ++round) {
    dc_fill *fill = nullptr;
    ASSERT_EQ(dc_cache_fill_begin(cache, round % 10, 0, &fill), DC_OK);
    dc_array array = byte_array(20'000);
    ASSERT_EQ(dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr), DC_OK) << "after " << given_up << " bytes";
    ASSERT_EQ(dc_cache_fill_abort(fill), DC_OK);
    given_up += 20'000;
  }
  EXPECT_EQ(report_of(cache).extents_owned, 0u);
}

// One piece free among very many that are not: it is found at once.
TEST_F(FullCache, FindsTheOnlyPieceThatWasGivenUp) {
  const Handle cache = open_cache(name_, options_for(100'000, 4 * kMiB, 64));
  dc_fill *fill = nullptr;
  const int64_t before = 5000;
  for (int64_t i = 0; i < before; ++i) ASSERT_EQ(put(cache, i, 64), DC_OK);
  ASSERT_EQ(dc_cache_fill_begin(cache, before, 0, &fill), DC_OK);
  dc_array array = byte_array(64);
  ASSERT_EQ(dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr), DC_OK);
  int64_t next = before + 1 + fill_up(cache, 64, before + 1);
  EXPECT_EQ(put(cache, ++next, 64), DC_FULL);
  ASSERT_EQ(dc_cache_fill_abort(fill), DC_OK);
  EXPECT_EQ(put(cache, ++next, 64), DC_OK);
  EXPECT_EQ(put(cache, ++next, 64), DC_FULL);
  EXPECT_EQ(report_of(cache).extents_free, 0u);
}

// Many pieces given up at different places, after searches have failed: every one of them is used again.
TEST_F(FullCache, FindsEveryPieceThatWasGivenUp) {
  const Handle cache = open_cache(name_, options_for(100'000, 4 * kMiB, 64));
  std::vector<dc_fill *> fills;
  int64_t next = 0;
  for (; fills.size() < DC_FILLS_MAX; ++next) {
    if (next % 100 != 0) {
      ASSERT_EQ(put(cache, next, 64), DC_OK);
      continue;
    }
    dc_fill *fill = nullptr;
    ASSERT_EQ(dc_cache_fill_begin(cache, next, 0, &fill), DC_OK);
    dc_array array = byte_array(64);
    ASSERT_EQ(dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr), DC_OK);
    fills.push_back(fill);
  }
  next += 1;
  // The last one keeps a place in the fills for the puts.
  ASSERT_EQ(dc_cache_fill_abort(fills.back()), DC_OK);
  fills.pop_back();
  next += fill_up(cache, 64, next) + 1;
  for (int i = 0; i < 100; ++i) ASSERT_EQ(put(cache, ++next, 64), DC_FULL);
  for (dc_fill *fill : fills) ASSERT_EQ(dc_cache_fill_abort(fill), DC_OK);
  const uint64_t free = report_of(cache).extents_free;
  EXPECT_EQ(free, fills.size());
  // A search looks at a bounded number of words, so a fill may be refused while there is room, but not for ever.
  for (int i = 0; i < 5000 && report_of(cache).extents_free > 0; ++i) put(cache, ++next, 64);
  EXPECT_EQ(report_of(cache).extents_free, 0u);
}

TEST_F(FullCache, TakesALargerPieceWhereItsOwnClassHasNone) {
  const Handle cache = open_cache(name_, options_for(1000, 2 * kMiB, 0, 200'000));
  // Every step goes to pieces of 100,000, and one of them is given up.
  dc_fill *fill = nullptr;
  ASSERT_EQ(dc_cache_fill_begin(cache, 999, 0, &fill), DC_OK);
  dc_array array = byte_array(100'000);
  ASSERT_EQ(dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr), DC_OK);
  fill_up(cache, 100'000);
  EXPECT_EQ(put(cache, 900, 50), DC_FULL);
  ASSERT_EQ(dc_cache_fill_abort(fill), DC_OK);
  EXPECT_EQ(put(cache, 900, 50), DC_OK);
  EXPECT_TRUE(holds(cache, 900, 50));
  EXPECT_EQ(put(cache, 901, 50), DC_FULL);
}

// The last sample that fits, wanted by several threads at once: one decodes, the others wait for it.
TEST_F(FullCache, DecodesItsLastSampleOnce) {
  for (int round = 0; round < 20; ++round) {
    constexpr int64_t kLength = 200;
    dc_cache_options options = options_for(kLength, 0, 20'000);
    options.capacity_bytes = estimate(options, 20'000).capacity_bytes;
    const CacheName name;
    const Handle cache = open_cache(name, options);
    const uint64_t room = info_of(cache).capacity_bytes / (20'000 + 192 + 64);
    const int64_t last = std::min<int64_t>(kLength - 1, static_cast<int64_t>(room));
    for (int64_t i = 0; i < last; ++i) ASSERT_EQ(put(cache, i, 20'000), DC_OK);
    struct Slow {
      std::atomic<int> runs{0};
    } slow;
    const dc_loader loader = [](dc_fill *fill, int64_t index, void *user) {
      ++static_cast<Slow *>(user)->runs;
      dc_array array = byte_array(20'000);
      if (dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr) != DC_OK) return 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      write_pattern(array.data, 20'000, index);
      return DC_LOADED;
    };
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        dc_view view;
        EXPECT_EQ(dc_cache_load(cache, last, loader, &slow, 60 * kSecond, &view), DC_OK);
        dc_cache_view_release(&view);
      });
    }
    for (std::thread &thread : threads) thread.join();
    EXPECT_EQ(slow.runs, 1);
  }
}

// Fillers that meet at a step's end each take a step, of which one gets the cursor and searches find the others, while
// the class goes on growing.
TEST_F(FullCache, HasNoRoomLeftHoweverManyFillersGrewIt) {
#ifdef __SANITIZE_THREAD__
  constexpr int kRounds = 2;
#else
  constexpr int kRounds = 10;
#endif
  for (int round = 0; round < kRounds; ++round) {
    constexpr int64_t kLength = 48'000, kThreads = 8;
    const CacheName name;
    const Handle cache = open_cache(name, options_for(kLength, 6 << 20, 0, 64));
    std::vector<std::thread> threads;
    for (int64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int64_t i = t; i < kLength; i += kThreads) static_cast<void>(put(cache, i, 64));
      });
    }
    for (std::thread &thread : threads) thread.join();
    for (int64_t i = 0; i < kLength; ++i) static_cast<void>(put(cache, i, 64));
    const dc_cache_report report = report_of(cache);
    EXPECT_EQ(report.steps_reserved, info_of(cache).steps);
    EXPECT_EQ(report.extents_free, 0u) << "beside " << report.extents_owned << " in round " << round;
  }
}

// Several threads fill a cache of estimated size whose pieces are as large as a step: nobody is turned away.
TEST_F(FullCache, IsNotSeenByFillersOfAnEstimatedCache) {
  for (int round = 0; round < 10; ++round) {
    constexpr int64_t kLength = 24;
    dc_cache_options options = options_for(kLength, 0, 200'000);
    options.capacity_bytes = estimate(options, 200'000).capacity_bytes;
    const CacheName name;
    const Handle cache = open_cache(name, options);
    std::vector<std::thread> threads;
    std::atomic<int> refused{0};
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int64_t i = t; i < kLength; i += 4) refused += put(cache, i, 200'000) != DC_OK;
      });
    }
    for (std::thread &thread : threads) thread.join();
    EXPECT_EQ(refused, 0) << "round " << round;
    EXPECT_EQ(report_of(cache).entries_ready, static_cast<uint64_t>(kLength));
  }
}

}  // namespace
}  // namespace ddpcache::test
