// What a caller sees of filling and reading.
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "../support/caches.hpp"

namespace ddpcache::test {
namespace {

using namespace std::chrono_literals;

int32_t decode_nothing(dc_fill *, int64_t, void *) { return DC_LOADED; }

// A fill that is open for as long as it lives, on the thread that made it.
struct OpenFill {
  OpenFill(dc_cache *cache, int64_t index) {
    EXPECT_EQ(dc_cache_fill_begin(cache, index, 0, &fill), DC_OK) << "index " << index;
  }
  OpenFill(const OpenFill &) = delete;
  OpenFill &operator=(const OpenFill &) = delete;
  ~OpenFill() { EXPECT_EQ(dc_cache_fill_abort(fill), DC_OK); }
  dc_fill *fill = nullptr;
};

class SmallCache : public ::testing::Test {
 protected:
  ~SmallCache() override {
    if (cache_) report_of(cache_);
  }
  int32_t load(int64_t index, dc_loader loader, void *user, int64_t timeout_ns = 0) {
    dc_view view;
    const int32_t status = dc_cache_load(cache_, index, loader, user, timeout_ns, &view);
    EXPECT_EQ(status == DC_OK, view.owner != nullptr);
    dc_cache_view_release(&view);
    return status;
  }

  const CacheName name_;
  Handle cache_ = open_cache(name_, options_for(100, 4 << 20));
};

TEST_F(SmallCache, GivesBackWhatWasCommittedAndCountsIt) {
  EXPECT_EQ(put(cache_, 3, 1000), DC_OK);
  EXPECT_TRUE(holds(cache_, 3, 1000));
  EXPECT_EQ(dc_cache_contains(cache_, 3), DC_OK);
  EXPECT_EQ(dc_cache_contains(cache_, 4), DC_MISS);
  dc_view view;
  EXPECT_EQ(dc_cache_view(cache_, 4, &view), DC_MISS);
  EXPECT_EQ(view.owner, nullptr);
  const dc_cache_stats stats = stats_of(cache_);
  EXPECT_EQ(stats.fills, 1u);
  EXPECT_EQ(stats.hits, 1u);
  EXPECT_EQ(stats.misses, 1u);
  EXPECT_EQ(stats.bytes_filled, 1000u);
  EXPECT_EQ(stats.resident, 1u);
  EXPECT_EQ(stats.open_fills, 0u);
  const dc_cache_report report = report_of(cache_);
  EXPECT_EQ(report.entries_ready, 1u);
  EXPECT_EQ(report.extents_owned, 1u);
}

TEST_F(SmallCache, ShowsAFillToNobodyBeforeItsCommit) {
  dc_fill *fill = nullptr;
  ASSERT_EQ(dc_cache_fill_begin(cache_, 5, 0, &fill), DC_OK);
  EXPECT_EQ(dc_cache_fill_index(fill), 5);
  EXPECT_EQ(dc_cache_contains(cache_, 5), DC_MISS);
  dc_array array = byte_array(64);
  ASSERT_EQ(dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr), DC_OK);
  EXPECT_EQ(reinterpret_cast<uint64_t>(array.data) % 64, 0u);
  EXPECT_EQ(dc_cache_contains(cache_, 5), DC_MISS);
  EXPECT_EQ(stats_of(cache_).open_fills, 1u);
  EXPECT_EQ(report_of(cache_).entries_writing, 1u);
  write_pattern(array.data, 64, 5);
  EXPECT_EQ(dc_cache_fill_commit(fill), DC_OK);
  EXPECT_TRUE(holds(cache_, 5, 64));
}

TEST_F(SmallCache, SaysThatAFilledIndexIsPresent) {
  ASSERT_EQ(put(cache_, 0, 10), DC_OK);
  dc_fill *fill = nullptr;
  EXPECT_EQ(dc_cache_fill_begin(cache_, 0, kSecond, &fill), DC_PRESENT);
  EXPECT_EQ(fill, nullptr);
}

TEST_F(SmallCache, TakesAnEntryAgainAfterAnAbort) {
  {
    const OpenFill fill(cache_, 9);
    dc_array array = byte_array(5000);
    ASSERT_EQ(dc_cache_fill_allocate(fill.fill, &array, 1, nullptr, nullptr), DC_OK);
  }
  EXPECT_EQ(stats_of(cache_).aborts, 1u);
  EXPECT_EQ(put(cache_, 9, 5000), DC_OK);
  EXPECT_TRUE(holds(cache_, 9, 5000));
}

TEST_F(SmallCache, RefusesToCommitWhatWasNotAllocatedAndKeepsTheFillOpen) {
  const OpenFill fill(cache_, 1);
  EXPECT_EQ(dc_cache_fill_commit(fill.fill), DC_ERROR_STATE);
  dc_array array = byte_array(8);
  EXPECT_EQ(dc_cache_fill_allocate(fill.fill, &array, 1, nullptr, nullptr), DC_OK);
  dc_error error;
  EXPECT_EQ(dc_cache_fill_allocate(fill.fill, &array, 1, nullptr, &error), DC_ERROR_STATE);
  EXPECT_EQ(error.status, DC_ERROR_STATE);
}

TEST_F(SmallCache, SaysBothSizesOfATooLargeSample) {
  const uint64_t largest = info_of(cache_).sample_bytes_max;
  const OpenFill fill(cache_, 1);
  dc_array array = byte_array(largest + 1);
  dc_error error;
  EXPECT_EQ(dc_cache_fill_allocate(fill.fill, &array, 1, nullptr, &error), DC_ERROR_TOO_LARGE);
  EXPECT_NE(std::string(error.message).find(std::to_string(largest)), std::string::npos) << error.message;
  EXPECT_NE(std::string(error.message).find(std::to_string(largest + 1)), std::string::npos) << error.message;
  array = byte_array(largest);
  EXPECT_EQ(dc_cache_fill_allocate(fill.fill, &array, 1, nullptr, nullptr), DC_OK) << "the largest one fits";
}

TEST_F(SmallCache, HoldsTheLargestSampleWithTheLongestStructure) {
  const uint64_t largest = info_of(cache_).sample_bytes_max;
  dc_fill *fill = nullptr;
  ASSERT_EQ(dc_cache_fill_begin(cache_, 1, 0, &fill), DC_OK);
  dc_array array = byte_array(largest);
  const std::string structure(DC_STRUCTURE_BYTES_MAX, 's');
  ASSERT_EQ(dc_cache_fill_allocate(fill, &array, 1, structure.c_str(), nullptr), DC_OK);
  write_pattern(array.data, largest, 1);
  ASSERT_EQ(dc_cache_fill_commit(fill), DC_OK);
  EXPECT_TRUE(holds(cache_, 1, largest));
}

TEST_F(SmallCache, LoadsOnceAndHitsFromThenOn) {
  Errand errand;
  EXPECT_EQ(load(7, load_pattern, &errand), DC_OK);
  EXPECT_EQ(load(7, load_pattern, &errand), DC_OK);
  EXPECT_EQ(errand.runs, 1);
  EXPECT_TRUE(holds(cache_, 7, errand.bytes));
}

TEST_F(SmallCache, AbortsTheFillOfALoaderThatFails) {
  for (const int32_t answer : {0, 1, -1, DC_LOADED - 1, INT32_MIN}) {
    static int32_t said;
    said = answer;
    const dc_loader failing = [](dc_fill *fill, int64_t, void *) {
      dc_array array = byte_array(100);
      EXPECT_EQ(dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr), DC_OK);
      return said;
    };
    EXPECT_EQ(load(2, failing, nullptr), DC_ERROR_LOADER);
    EXPECT_EQ(dc_cache_contains(cache_, 2), DC_MISS);
  }
  EXPECT_EQ(load(2, decode_nothing, nullptr), DC_ERROR_LOADER) << "LOADED without memory is not loaded";
  Errand errand;
  EXPECT_EQ(load(2, load_pattern, &errand), DC_OK) << "the entry stays usable";
}

TEST_F(SmallCache, TreatsALoaderThatAllocatesTwiceAsFailed) {
  const dc_loader twice = [](dc_fill *fill, int64_t, void *) {
    dc_array array = byte_array(100);
    EXPECT_EQ(dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr), DC_OK);
    EXPECT_EQ(dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr), DC_ERROR_STATE);
    return DC_LOADED;
  };
  EXPECT_EQ(load(2, twice, nullptr), DC_ERROR_STATE);
  EXPECT_EQ(put(cache_, 2, 100), DC_OK);
}

TEST_F(SmallCache, TreatsALoaderOfATooLargeSampleAsFailed) {
  Errand errand{info_of(cache_).sample_bytes_max + 1};
  EXPECT_EQ(load(2, load_pattern, &errand), DC_ERROR_TOO_LARGE);
  EXPECT_EQ(put(cache_, 2, 100), DC_OK);
}

TEST_F(SmallCache, LetsALoaderNeitherCommitNorAbort) {
  const dc_loader meddling = [](dc_fill *fill, int64_t index, void *) {
    EXPECT_EQ(dc_cache_fill_index(fill), index);
    dc_array array = byte_array(16);
    EXPECT_EQ(dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr), DC_OK);
    EXPECT_EQ(dc_cache_fill_commit(fill), DC_ERROR_STATE);
    EXPECT_EQ(dc_cache_fill_abort(fill), DC_ERROR_STATE);
    write_pattern(array.data, 16, index);
    return DC_LOADED;
  };
  EXPECT_EQ(load(2, meddling, nullptr), DC_OK);
  EXPECT_TRUE(holds(cache_, 2, 16));
}

TEST_F(SmallCache, RefusesToLoadAnIndexFromItsOwnLoader) {
  struct Nested {
    dc_cache *cache;
    int32_t inner = DC_OK;
    int32_t begun = DC_OK;
  } nested{cache_};
  const dc_loader recursing = [](dc_fill *, int64_t index, void *user) -> int32_t {
    Nested *own = static_cast<Nested *>(user);
    dc_view view;
    own->inner = dc_cache_load(own->cache, index, decode_nothing, nullptr, 60 * kSecond, &view);
    dc_fill *fill = nullptr;
    own->begun = dc_cache_fill_begin(own->cache, index, 60 * kSecond, &fill);
    return 0;
  };
  EXPECT_EQ(load(4, recursing, &nested), DC_ERROR_LOADER);
  EXPECT_EQ(nested.inner, DC_ERROR_RECURSION);
  EXPECT_EQ(nested.begun, DC_ERROR_RECURSION);
}

TEST_F(SmallCache, LetsALoaderLoadAnotherIndexAndUseAnotherCache) {
  const CacheName other_name;
  const Handle other = open_cache(other_name, options_for(100, 4 << 20));
  struct Nested {
    dc_cache *cache, *other;
    Errand errand;
  } nested{cache_, other, {}};
  const dc_loader outer = [](dc_fill *fill, int64_t index, void *user) {
    Nested *own = static_cast<Nested *>(user);
    for (dc_cache *cache : {own->cache, own->other}) {
      dc_view view;
      EXPECT_EQ(dc_cache_load(cache, index + 1, load_pattern, &own->errand, 0, &view), DC_OK);
      dc_cache_view_release(&view);
    }
    return load_pattern(fill, index, &own->errand);
  };
  EXPECT_EQ(load(50, outer, &nested), DC_OK);
  EXPECT_TRUE(holds(cache_, 50, 64));
  EXPECT_TRUE(holds(cache_, 51, 64));
  EXPECT_TRUE(holds(other, 51, 64));
}

TEST_F(SmallCache, IsBusyAtTheDeadlineAndNotBefore) {
  std::atomic<bool> done{false};
  std::atomic<bool> begun{false};
  std::thread filler([&] {
    const OpenFill fill(cache_, 6);
    begun = true;
    while (!done) std::this_thread::sleep_for(1ms);
  });
  while (!begun) std::this_thread::sleep_for(1ms);
  Errand errand;
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(load(6, load_pattern, &errand, 200 * kMillisecond), DC_BUSY);
  EXPECT_GE(std::chrono::steady_clock::now() - before, 200ms);
  EXPECT_EQ(errand.runs, 0);
  EXPECT_EQ(load(6, load_pattern, &errand, 0), DC_BUSY);
  EXPECT_GE(stats_of(cache_).timeouts, 2u);
  EXPECT_GT(stats_of(cache_).oldest_fill_age_ns, 100 * kMillisecond);
  done = true;
  filler.join();
  EXPECT_EQ(load(6, load_pattern, &errand, 0), DC_OK);
}

TEST_F(SmallCache, NeverWaitsOnAThreadThatHasAFillOpen) {
  std::atomic<int> stage{0};
  std::thread other([&] {
    const OpenFill fill(cache_, 1);
    stage = 1;
    while (stage < 2) std::this_thread::sleep_for(1ms);
  });
  while (stage < 1) std::this_thread::sleep_for(1ms);
  {
    const OpenFill mine(cache_, 2);
    Errand errand;
    EXPECT_EQ(load(1, load_pattern, &errand, 3600 * kSecond), DC_BUSY);
    dc_fill *fill = nullptr;
    EXPECT_EQ(dc_cache_fill_begin(cache_, 1, 3600 * kSecond, &fill), DC_BUSY);
  }
  stage = 2;
  other.join();
}

// As Ctrl-C in a language that has its own handler for it, and whichever way that was installed.
TEST_F(SmallCache, IsInterruptedByASignalWhileItWaits) {
  for (const int flags : {0, SA_RESTART}) {
    struct sigaction action = {}, before;
    action.sa_handler = [](int) {};
    action.sa_flags = flags;
    ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
    const OpenFill fill(cache_, 6);
    const uint64_t waits = stats_of(cache_).waits;
    std::atomic<int32_t> status{-1};
    Errand errand;
    std::thread waiter([&] { status = load(6, load_pattern, &errand, 60 * kSecond); });
    while (stats_of(cache_).waits == waits) std::this_thread::sleep_for(1ms);
    // A signal between two waits is not seen by either, so it is sent until one is.
    while (status == -1) {
      pthread_kill(waiter.native_handle(), SIGUSR1);
      std::this_thread::sleep_for(10ms);
    }
    waiter.join();
    EXPECT_EQ(status, DC_INTERRUPTED);
    EXPECT_EQ(errand.runs, 0);
    ASSERT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
  }
}

// Two handles of one process are two clients; a thread that fills through one does not wait for itself through the
// other.
TEST_F(SmallCache, DoesNotWaitForItsOwnThreadsFillThroughAnotherHandle) {
  const Handle second = attach_cache(name_.c_str());
  const OpenFill fill(cache_, 6);
  dc_fill *other = nullptr;
  EXPECT_EQ(dc_cache_fill_begin(second, 6, 3600 * kSecond, &other), DC_BUSY);
  EXPECT_EQ(put(second, 7, 100), DC_OK);
  EXPECT_TRUE(holds(cache_, 7, 100));
}

TEST_F(SmallCache, WakesAWaiterAtCommitAndAtAbort) {
  for (const bool commit : {true, false}) {
    const int64_t index = commit ? 20 : 21;
    std::atomic<int> stage{0};
    std::thread filler([&] {
      dc_fill *fill = nullptr;
      EXPECT_EQ(dc_cache_fill_begin(cache_, index, 0, &fill), DC_OK);
      dc_array array = byte_array(64);
      EXPECT_EQ(dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr), DC_OK);
      write_pattern(array.data, 64, index);
      stage = 1;
      while (stats_of(cache_).waits < (commit ? 1u : 2u)) std::this_thread::sleep_for(1ms);
      EXPECT_EQ(commit ? dc_cache_fill_commit(fill) : dc_cache_fill_abort(fill), DC_OK);
    });
    while (stage < 1) std::this_thread::sleep_for(1ms);
    Errand errand;
    EXPECT_EQ(load(index, load_pattern, &errand, 60 * kSecond), DC_OK);
    EXPECT_EQ(errand.runs, commit ? 0 : 1);
    filler.join();
    EXPECT_TRUE(holds(cache_, index, 64));
  }
}

TEST_F(SmallCache, OpensSixtyFourFillsAndNotOneMore) {
  {
    std::vector<std::unique_ptr<OpenFill>> fills;
    for (int64_t i = 0; i < DC_FILLS_MAX; ++i) fills.push_back(std::make_unique<OpenFill>(cache_, i));
    dc_fill *one_more = nullptr;
    EXPECT_EQ(dc_cache_fill_begin(cache_, 90, 0, &one_more), DC_ERROR_FILLS);
    EXPECT_EQ(one_more, nullptr);
    EXPECT_EQ(stats_of(cache_).open_fills, 64u);
    // A load still decodes, for its caller alone.
    const dc_loader uncached = [](dc_fill *fill, int64_t, void *user) {
      dc_array array = byte_array(10);
      *static_cast<int32_t *>(user) = dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr);
      return DC_LOADED;
    };
    int32_t allocated = DC_OK;
    EXPECT_EQ(load(91, uncached, &allocated), DC_FULL);
    EXPECT_EQ(allocated, DC_FULL);
    EXPECT_EQ(dc_cache_close(cache_), DC_ERROR_STATE) << "open fills keep the handle";
    fills.pop_back();
    EXPECT_EQ(put(cache_, 90, 10), DC_OK);
  }
  EXPECT_EQ(stats_of(cache_).open_fills, 0u);
}

TEST_F(SmallCache, LetsNoOtherThreadUseAFill) {
  const OpenFill fill(cache_, 3);
  std::thread([&] {
    dc_array array = byte_array(10);
    EXPECT_EQ(dc_cache_fill_allocate(fill.fill, &array, 1, nullptr, nullptr), DC_ERROR_THREAD);
    EXPECT_EQ(dc_cache_fill_commit(fill.fill), DC_ERROR_THREAD);
    EXPECT_EQ(dc_cache_fill_abort(fill.fill), DC_ERROR_THREAD);
  }).join();
  dc_array array = byte_array(10);
  EXPECT_EQ(dc_cache_fill_allocate(fill.fill, &array, 1, nullptr, nullptr), DC_OK);
}

TEST_F(SmallCache, KeepsAViewsMemoryAfterCloseAndFreesItFromAnotherThread) {
  ASSERT_EQ(put(cache_, 1, 4096), DC_OK);
  dc_view view;
  ASSERT_EQ(dc_cache_view(cache_, 1, &view), DC_OK);
  EXPECT_EQ(cache_.close(), DC_OK);
  EXPECT_FALSE(name_.exists()) << "the last client removes the name, views or not";
  EXPECT_TRUE(has_pattern(view.data, view.bytes, 1));
  dc_array array;
  EXPECT_EQ(dc_view_array(&view, 0, &array), DC_OK);
  std::thread([&] { dc_cache_view_release(&view); }).join();
  EXPECT_EQ(view.owner, nullptr);
  EXPECT_EQ(view.data, nullptr);
  dc_cache_view_release(&view);
  EXPECT_EQ(dc_view_array(&view, 0, &array), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_view_structure(&view, nullptr), nullptr);
}

TEST_F(SmallCache, CannotBeWrittenThroughAView) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  ASSERT_EQ(put(cache_, 1, 64), DC_OK);
  dc_view view;
  ASSERT_EQ(dc_cache_view(cache_, 1, &view), DC_OK);
  EXPECT_DEATH(*const_cast<uint8_t *>(view.data) = 1, "");
  dc_cache_view_release(&view);
}

TEST_F(SmallCache, ShowsItsResidencyBitByBit) {
  for (const int64_t i : {0, 9, 10, 63, 99}) ASSERT_EQ(put(cache_, i, 8), DC_OK);
  uint8_t bits[14];
  std::memset(bits, 0xFF, sizeof bits);
  ASSERT_EQ(dc_cache_residency(cache_, 0, 100, bits), DC_OK);
  for (int64_t i = 0; i < 104; ++i) {
    const bool set = bits[i / 8] >> (i % 8) & 1;
    EXPECT_EQ(set, i < 100 && dc_cache_contains(cache_, i) == DC_OK) << i;
  }
  EXPECT_EQ(bits[13], 0xFF) << "beyond the bitmap";
  ASSERT_EQ(dc_cache_residency(cache_, 9, 3, bits), DC_OK);
  EXPECT_EQ(bits[0], 3u);
  EXPECT_EQ(dc_cache_residency(cache_, 100, 0, nullptr), DC_OK);
}

TEST_F(SmallCache, CountsForItsClientAndForAll) {
  const Handle second = attach_cache(name_.c_str());
  ASSERT_EQ(put(cache_, 1, 100), DC_OK);
  ASSERT_TRUE(holds(second, 1, 100));
  EXPECT_EQ(stats_of(cache_, DC_STATS_CLIENT).fills, 1u);
  EXPECT_EQ(stats_of(cache_, DC_STATS_CLIENT).hits, 0u);
  EXPECT_EQ(stats_of(second, DC_STATS_CLIENT).fills, 0u);
  EXPECT_EQ(stats_of(second, DC_STATS_CLIENT).hits, 1u);
  EXPECT_EQ(stats_of(second).fills, 1u);
  EXPECT_EQ(stats_of(cache_).hits, 1u);
  std::vector<uint8_t> buffer(100);
  ASSERT_EQ(dc_cache_read(second, 1, 0, buffer.data(), 100, nullptr), DC_OK);
  EXPECT_EQ(stats_of(cache_).bytes_copied, 100u);
}

// A record of a client that has left is used again: the newcomer's own counts begin at zero, the total goes on.
TEST_F(SmallCache, BeginsANewClientsCountsAtZero) {
  {
    const Handle second = attach_cache(name_.c_str());
    ASSERT_EQ(put(second, 1, 100), DC_OK);
  }
  const Handle third = attach_cache(name_.c_str());
  EXPECT_EQ(stats_of(third, DC_STATS_CLIENT).fills, 0u);
  EXPECT_EQ(stats_of(third).fills, 1u);
}

}  // namespace
}  // namespace ddpcache::test
