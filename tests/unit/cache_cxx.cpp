// The C++ objects over the cache.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "../support/segment_file.hpp"
#include "ddpcache/ddpcache.hpp"

namespace {

using ddpcache::test::CacheName;
using std::chrono::milliseconds;

constexpr std::int64_t kLength = 1000;

ddpcache::CacheOptions small(std::uint64_t capacity_bytes = 1 << 20) {
  ddpcache::CacheOptions options(kLength);
  options.capacity_bytes = capacity_bytes;
  options.clients_max = 16;
  return options;
}

// Four numbers that say which sample they are.
void write_four(ddpcache::Filling &filling, std::int64_t index) {
  float *values = filling.allocate<float>({2, 2});
  for (int i = 0; i < 4; ++i) values[i] = static_cast<float>(4 * index + i);
}

bool has_four(const ddpcache::View &view, std::int64_t index) {
  const ddpcache::Array array = view.array(0);
  const ddpcache::Span<const float> values = array.values<float>();
  if (view.index() != index || array.shape() != std::vector<std::int64_t>{2, 2} || values.size() != 4) return false;
  float expected = static_cast<float>(4 * index);
  for (float value : values) {
    if (value != expected++) return false;
  }
  return true;
}

// The status and sentence of the Error that `call` throws.
template <typename Call>
ddpcache::Error error_of(Call call) {
  try {
    call();
  } catch (const ddpcache::Error &error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return ddpcache::Error(DC_OK);
}

class CxxCache : public ::testing::Test {
 protected:
  const CacheName name_;
  ddpcache::Cache cache_{name_.c_str(), "C++ v1", small()};
};

TEST_F(CxxCache, TellsWhatItIs) {
  const dc_cache_info info = cache_.info();
  EXPECT_EQ(info.length, kLength);
  EXPECT_STREQ(info.name, name_.c_str());
  EXPECT_STREQ(info.fingerprint, "C++ v1");
  EXPECT_EQ(info.created, 1u);
  EXPECT_EQ(info.clients_max, 16u);
}

TEST_F(CxxCache, IsAttachedToByName) {
  cache_.load(3, write_four);
  ddpcache::Cache second = ddpcache::Cache::attach(name_.c_str());
  EXPECT_EQ(second.info().created, 0u);
  EXPECT_STREQ(second.info().uuid, cache_.info().uuid);
  const std::optional<ddpcache::View> view = second.view(3);
  ASSERT_TRUE(view);
  EXPECT_TRUE(has_four(*view, 3));
}

TEST_F(CxxCache, LoadsOnceAndThenHits) {
  int runs = 0;
  const auto counting = [&](ddpcache::Filling &filling, std::int64_t index) {
    ++runs;
    EXPECT_EQ(filling.index(), index);
    write_four(filling, index);
  };
  EXPECT_FALSE(cache_.contains(7));
  EXPECT_FALSE(cache_.view(7));
  EXPECT_TRUE(has_four(cache_.load(7, counting), 7));
  EXPECT_TRUE(has_four(cache_.load(7, counting), 7));
  EXPECT_TRUE(cache_.contains(7));
  EXPECT_EQ(runs, 1);
}

TEST_F(CxxCache, WhatALoaderThrowsPassesThroughAndLeavesTheEntryEmpty) {
  struct Unreadable : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  const auto unreadable = [](ddpcache::Filling &filling, std::int64_t index) {
    filling.allocate<float>({2, 2});
    throw Unreadable("sample " + std::to_string(index));
  };
  try {
    cache_.load(7, unreadable);
    FAIL() << "nothing was thrown";
  } catch (const Unreadable &error) {
    EXPECT_STREQ(error.what(), "sample 7");
  }
  EXPECT_FALSE(cache_.contains(7));
  EXPECT_EQ(cache_.stats().open_fills, 0u);
  EXPECT_TRUE(has_four(cache_.load(7, write_four), 7));
}

TEST_F(CxxCache, ALoaderThatAsksForNoMemoryIsAnError) {
  EXPECT_EQ(error_of([&] { cache_.load(7, [](ddpcache::Filling &, std::int64_t) {}); }).status(), DC_ERROR_LOADER);
  EXPECT_FALSE(cache_.contains(7));
}

TEST_F(CxxCache, ASampleOfSeveralArraysKeepsTheirNamesTypesAndStructure) {
  const std::string structure = R"({"image":0,"label":1})";
  const ddpcache::View view = cache_.load(5, [&](ddpcache::Filling &filling, std::int64_t) {
    std::array<dc_array, 2> arrays = {ddpcache::describe<std::uint8_t>({2, 3}, "image"),
                                      ddpcache::describe<std::int64_t>({}, "label")};
    filling.allocate(arrays.data(), arrays.size(), structure);
    for (std::uint8_t i = 0; i < 6; ++i) arrays[0].data[i] = i;
    *reinterpret_cast<std::int64_t *>(arrays[1].data) = -5;
  });
  ASSERT_EQ(view.array_count(), 2u);
  EXPECT_EQ(view.structure(), structure);
  EXPECT_EQ(view.array(0).name(), "image");
  EXPECT_EQ(view.array(0).shape(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(view.array(0).values<std::uint8_t>()[5], 5);
  EXPECT_EQ(view.array(1).name(), "label");
  EXPECT_TRUE(view.array(1).shape().empty());
  EXPECT_EQ(view.array(1).values<std::int64_t>()[0], -5);
  EXPECT_EQ(error_of([&] { view.array(1).values<double>(); }).status(), DC_ERROR_RECORD);
  EXPECT_EQ(error_of([&] { view.array(2); }).status(), DC_ERROR_RANGE);
}

TEST_F(CxxCache, AFullCacheThrowsFullAndGoesOnHitting) {
  const auto tenth = [](ddpcache::Filling &filling, std::int64_t index) {
    filling.allocate<std::uint8_t>({100 << 10})[0] = static_cast<std::uint8_t>(index);
  };
  ddpcache::CacheOptions options = small();
  options.sample_bytes_max = 100 << 10;
  const CacheName name;
  ddpcache::Cache cache(name.c_str(), "", options);
  std::int64_t index = 0;
  EXPECT_THROW(for (; index < kLength; ++index) cache.load(index, tenth), ddpcache::Full);
  ASSERT_GT(index, 4);
  ASSERT_LT(index, 12);
  EXPECT_FALSE(cache.contains(index));
  EXPECT_EQ(cache.load(index - 1, tenth).data()[0], index - 1);
}

TEST_F(CxxCache, ASampleThatIsTooLargeIsAnErrorWithBothSizes) {
  const ddpcache::Error error = error_of([&] {
    cache_.load(1, [](ddpcache::Filling &filling, std::int64_t) { filling.allocate<std::uint8_t>({1 << 20}); });
  });
  EXPECT_EQ(error.status(), DC_ERROR_TOO_LARGE);
  for (const char *size : {"1048576", "4096"}) {
    EXPECT_NE(std::string(error.what()).find(size), std::string::npos) << error.what();
  }
}

TEST_F(CxxCache, WhoWaitsForAnotherFillerIsBusyAtTheDeadline) {
  std::optional<ddpcache::Fill> fill = cache_.begin_fill(2);
  ASSERT_TRUE(fill);
  const auto waits = [&] {
    EXPECT_THROW(cache_.load(2, write_four, milliseconds(20)), ddpcache::Busy);
    EXPECT_THROW(cache_.begin_fill(2, milliseconds(20)), ddpcache::Busy);
  };
  std::thread(waits).join();
  write_four(*fill, 2);
  fill->commit();
  EXPECT_TRUE(has_four(cache_.load(2, write_four, milliseconds(0)), 2));
  EXPECT_EQ(cache_.stats().timeouts, 2u);
}

TEST_F(CxxCache, AFillIsCommittedOnceAndThenPresent) {
  std::optional<ddpcache::Fill> fill = cache_.begin_fill(4);
  ASSERT_TRUE(fill);
  EXPECT_EQ(fill->index(), 4);
  EXPECT_EQ(error_of([&] { fill->commit(); }).status(), DC_ERROR_STATE);  // nothing allocated; it stays open
  write_four(*fill, 4);
  EXPECT_FALSE(cache_.contains(4));
  fill->commit();
  EXPECT_TRUE(cache_.contains(4));
  EXPECT_FALSE(cache_.begin_fill(4));
  EXPECT_THROW(fill->commit(), ddpcache::Error);
}

TEST_F(CxxCache, AFillThatIsNotCommittedIsAbortedByItsEnd) {
  {
    std::optional<ddpcache::Fill> fill = cache_.begin_fill(4);
    ASSERT_TRUE(fill);
    write_four(*fill, 4);
    EXPECT_EQ(cache_.stats().open_fills, 1u);
  }
  EXPECT_FALSE(cache_.contains(4));
  EXPECT_EQ(cache_.stats().open_fills, 0u);
  EXPECT_EQ(cache_.stats().aborts, 1u);
  EXPECT_TRUE(cache_.begin_fill(4));
}

TEST_F(CxxCache, AFillThatWasMovedIsEndedOnce) {
  std::optional<ddpcache::Fill> first = cache_.begin_fill(4);
  ASSERT_TRUE(first);
  ddpcache::Fill second(std::move(*first));
  first.reset();
  EXPECT_EQ(cache_.stats().open_fills, 1u);
  write_four(second, 4);
  second.commit();
  EXPECT_TRUE(cache_.contains(4));
  EXPECT_EQ(cache_.stats().aborts, 0u);
}

TEST_F(CxxCache, ReadsABatchAndSaysOfEachSampleHowItWent) {
  for (std::int64_t index : {1, 2}) cache_.load(index, write_four);
  cache_.load(3, [](ddpcache::Filling &filling, std::int64_t) { filling.allocate<float>({1})[0] = 0; });
  std::vector<float> buffer(5 * 4, -1);
  const std::vector<std::int32_t> statuses =
      cache_.read_batch({2, 9, 1, 3, kLength}, reinterpret_cast<std::uint8_t *>(buffer.data()), 16, 2);
  EXPECT_EQ(statuses, (std::vector<std::int32_t>{DC_OK, DC_MISS, DC_OK, DC_ERROR_RECORD, DC_ERROR_RANGE}));
  std::vector<float> expected = {8, 9, 10, 11, -1, -1, -1, -1, 4, 5, 6, 7};
  expected.resize(buffer.size(), -1);
  EXPECT_EQ(buffer, expected);
  EXPECT_TRUE(cache_.read_batch({}, nullptr, 16).empty());
}

TEST_F(CxxCache, GathersSeveralArraysAndDescribesThemFirst) {
  for (std::int64_t index : {1, 2}) {
    cache_.load(index, [](ddpcache::Filling &filling, std::int64_t wanted) {
      dc_array arrays[] = {ddpcache::describe<std::int64_t>({}, "label"), ddpcache::describe<float>({wanted, 2})};
      filling.allocate(arrays, 2, "[]");
      *reinterpret_cast<std::int64_t *>(arrays[0].data) = 10 * wanted;
      std::fill_n(reinterpret_cast<float *>(arrays[1].data), 2 * wanted, static_cast<float>(wanted));
    });
  }
  const std::vector<std::int64_t> indices = {2, 9, 1};
  const std::vector<ddpcache::Description> found = cache_.describe(indices, 1);
  std::vector<std::int64_t> offsets = {0};
  for (const ddpcache::Description &one : found) {
    offsets.push_back(offsets.back() + static_cast<std::int64_t>(one.status == DC_OK ? one.array.bytes() : 0));
  }
  EXPECT_EQ(offsets, (std::vector<std::int64_t>{0, 16, 16, 24}));
  EXPECT_EQ(found[0].array.shape(), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(found[0].array_count, 2u);
  EXPECT_EQ(found[0].structure, found[2].structure);
  EXPECT_EQ(found[1].status, DC_MISS);

  std::vector<std::int64_t> labels(3, -1);
  std::vector<float> values(6);
  EXPECT_EQ(cache_.gather(indices, {{0, labels}, {1, values, offsets}}, 2),
            (std::vector<std::int32_t>{DC_OK, DC_MISS, DC_OK}));
  EXPECT_EQ(labels, (std::vector<std::int64_t>{20, -1, 10}));
  EXPECT_EQ(values, (std::vector<float>{2, 2, 2, 2, 1, 1}));

  std::vector<std::int64_t> four(4);
  std::vector<float> small(5);
  EXPECT_EQ(error_of([&] { cache_.gather(indices, {{0, four}}); }).status(), DC_ERROR_RANGE);
  EXPECT_EQ(error_of([&] { cache_.gather(indices, {{1, small, offsets}}); }).status(), DC_ERROR_RANGE);
  EXPECT_EQ(error_of([&] { cache_.gather({2}, {{1, values, offsets}}); }).status(), DC_ERROR_RANGE);
  EXPECT_EQ(error_of([&] { cache_.gather({2}, {}); }).status(), DC_ERROR_RANGE);
}

TEST_F(CxxCache, CopiesOneSampleAndSaysWhatIsThere) {
  for (std::int64_t index : {1, 9}) cache_.load(index, write_four);
  std::vector<float> values(4);
  auto *bytes = reinterpret_cast<std::uint8_t *>(values.data());
  EXPECT_EQ(cache_.read(9, bytes, 16), std::optional<std::uint64_t>(16));
  EXPECT_EQ(values, (std::vector<float>{36, 37, 38, 39}));
  EXPECT_FALSE(cache_.read(2, bytes, 16));
  EXPECT_EQ(error_of([&] { cache_.read(9, bytes, 15); }).status(), DC_ERROR_BUFFER);
  EXPECT_EQ(cache_.residency(0, 10), (std::vector<std::uint8_t>{0b10, 0b10}));
  EXPECT_EQ(cache_.residency(9, 1), std::vector<std::uint8_t>{1});
  EXPECT_TRUE(cache_.residency(kLength, 0).empty());
  EXPECT_EQ(error_of([&] { cache_.residency(0, -1); }).status(), DC_ERROR_RANGE);
  EXPECT_EQ(cache_.structure(9), std::optional<std::string>(""));
  EXPECT_FALSE(cache_.structure(2));
  cache_.load(3, [](ddpcache::Filling &filling, std::int64_t) {
    dc_array array = ddpcache::describe<float>({1});
    filling.allocate(&array, 1, "{\"a\": [0]}");
    *reinterpret_cast<float *>(array.data) = 0;
  });
  EXPECT_EQ(cache_.structure(3), std::optional<std::string>("{\"a\": [0]}"));
}

TEST_F(CxxCache, ALoaderMayFailByFalse) {
  const auto refuses = [](ddpcache::Filling &filling, std::int64_t) {
    filling.allocate<float>({2, 2});
    return false;
  };
  EXPECT_EQ(error_of([&] { cache_.load(7, refuses); }).status(), DC_ERROR_LOADER);
  EXPECT_EQ(cache_.try_load(7, refuses).status(), DC_ERROR_LOADER);
  EXPECT_FALSE(cache_.contains(7));
  EXPECT_TRUE(has_four(*cache_.try_load(7, write_four), 7));
  ddpcache::Result<ddpcache::View> refused = cache_.try_load(8, refuses);
  EXPECT_EQ(error_of([&] { refused.value(); }).status(), DC_ERROR_LOADER);
  ddpcache::Result<ddpcache::View> loaded = cache_.try_load(8, write_four);
  EXPECT_TRUE(has_four(loaded.value(), 8));
}

TEST(CxxCaches, AreListedEstimatedAndCollected) {
  const CacheName name;
  const ddpcache::Estimate estimate = ddpcache::Cache::estimate(small(), 64 << 10);
  EXPECT_GE(estimate.capacity_bytes, static_cast<std::uint64_t>(kLength) * (64 << 10));
  EXPECT_GE(estimate.total_bytes, static_cast<std::uint64_t>(kLength) * (64 << 10));
  const auto listed = [&] {
    const std::vector<std::string> names = ddpcache::Cache::list();
    EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
    return std::count(names.begin(), names.end(), name.c_str());
  };
  EXPECT_EQ(listed(), 0);
  const ddpcache::Cache cache(name.c_str(), "", small());
  EXPECT_EQ(listed(), 1);
  EXPECT_GE(ddpcache::Cache::gc(), 0);
  EXPECT_EQ(listed(), 1);
}

TEST_F(CxxCache, ABatchThatCannotBeReadAtAllIsAnError) {
  cache_.load(1, write_four);
  std::vector<std::uint8_t> buffer(16, 0xEE);
  EXPECT_EQ(error_of([&] { cache_.read_batch({1}, buffer.data(), 16, 65); }).status(), DC_ERROR_RANGE);
  EXPECT_EQ(error_of([&] { cache_.read_batch({1}, buffer.data(), 16, 1, DC_ARRAYS_MAX); }).status(), DC_ERROR_RANGE);
  EXPECT_EQ(error_of([&] { cache_.read_batch({1}, nullptr, 16); }).status(), DC_ERROR_ARGUMENT);
  EXPECT_EQ(buffer, std::vector<std::uint8_t>(16, 0xEE));
}

TEST_F(CxxCache, ASignalDoesNotEndAWait) {
  std::optional<ddpcache::Fill> fill = cache_.begin_fill(2);
  ASSERT_TRUE(fill);
  struct sigaction handler = {};
  struct sigaction before = {};
  handler.sa_handler = [](int) {};  // without SA_RESTART: what waits in the kernel returns
  ASSERT_EQ(sigaction(SIGUSR1, &handler, &before), 0);
  std::atomic<int> waiting{2};
  std::thread filler([&] {
    EXPECT_NO_THROW(EXPECT_FALSE(cache_.begin_fill(2)));
    --waiting;
  });
  std::thread loader([&] {
    EXPECT_NO_THROW(EXPECT_TRUE(has_four(cache_.load(2, write_four), 2)));
    --waiting;
  });
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(milliseconds(2));
    for (std::thread *waiter : {&filler, &loader}) pthread_kill(waiter->native_handle(), SIGUSR1);
  }
  EXPECT_EQ(waiting, 2);
  write_four(*fill, 2);
  fill->commit();
  filler.join();
  loader.join();
  ASSERT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
}

TEST_F(CxxCache, HandlesAndViewsMoveAndDoNotCopy) {
  static_assert(!std::is_copy_constructible_v<ddpcache::Cache> && !std::is_copy_assignable_v<ddpcache::Cache>);
  static_assert(!std::is_copy_constructible_v<ddpcache::View> && !std::is_copy_assignable_v<ddpcache::View>);
  static_assert(!std::is_copy_constructible_v<ddpcache::Fill> && !std::is_copy_assignable_v<ddpcache::Fill>);
  ddpcache::Cache moved(std::move(cache_));
  EXPECT_EQ(cache_.raw(), nullptr);
  EXPECT_EQ(error_of([&] { cache_.contains(0); }).status(), DC_ERROR_ARGUMENT);
  ddpcache::View first = moved.load(0, write_four);
  ddpcache::View second(std::move(first));
  EXPECT_EQ(first.data(), nullptr);
  ddpcache::View third;
  third = std::move(second);
  EXPECT_TRUE(has_four(third, 0));
  cache_ = std::move(moved);
  EXPECT_TRUE(cache_.contains(0));
}

TEST(CxxCacheLife, AViewOutlivesItsCache) {
  const CacheName name;
  std::optional<ddpcache::View> view;
  {
    ddpcache::Cache cache(name.c_str(), "", small());
    view = cache.load(6, write_four);
  }
  EXPECT_FALSE(name.exists());
  EXPECT_TRUE(has_four(*view, 6));
}

TEST(CxxCacheLife, TheNameOfAKeptCacheIsUnlinkedOnce) {
  const CacheName name;
  ddpcache::CacheOptions options = small();
  options.keep = 1;
  { ddpcache::Cache(name.c_str(), "kept", options).load(1, write_four); }
  EXPECT_TRUE(ddpcache::Cache::attach(name.c_str()).contains(1));
  EXPECT_TRUE(ddpcache::Cache::unlink(name.c_str()));
  EXPECT_FALSE(ddpcache::Cache::unlink(name.c_str()));
  EXPECT_EQ(error_of([&] { ddpcache::Cache::attach(name.c_str()); }).status(), DC_ERROR_NOT_FOUND);
}

TEST(CxxCacheLife, SamplesOfADroppableCacheAreRemoved) {
  const CacheName name;
  ddpcache::CacheOptions options = small();
  options.droppable = 1;
  ddpcache::Cache cache(name.c_str(), "", options);
  for (std::int64_t index = 0; index < 5; ++index) cache.load(index, write_four);
  const ddpcache::View looked_at = cache.load(0, write_four);
  EXPECT_TRUE(cache.remove(0));
  EXPECT_FALSE(cache.remove(0));
  EXPECT_FALSE(cache.contains(0));
  EXPECT_EQ(cache.remove(std::vector<std::int64_t>{0, 1, 1, 77}), 1);
  EXPECT_EQ(cache.clear(), 3);
  EXPECT_EQ(cache.stats().resident, 0u);
  EXPECT_EQ(cache.stats().removed, 5u);
  EXPECT_TRUE(has_four(looked_at, 0));
}

TEST_F(CxxCache, IsLookedAtWithoutTheRightToWrite) {
  cache_.load(3, write_four);
  ddpcache::Cache looking = ddpcache::Cache::attach_read_only(name_.c_str());
  EXPECT_EQ(looking.info().read_only, 1u);
  EXPECT_TRUE(has_four(*looking.view(3), 3));
  EXPECT_FALSE(looking.view(4));
  EXPECT_EQ(error_of([&] { looking.begin_fill(4); }).status(), DC_ERROR_UNSUPPORTED);
  EXPECT_EQ(error_of([&] { looking.remove(3); }).status(), DC_ERROR_UNSUPPORTED);
  EXPECT_THROW(looking.load(4, write_four), ddpcache::Full);
  EXPECT_EQ(looking.check().entries_ready, 1u);
  EXPECT_EQ(error_of([] { ddpcache::Cache::attach_read_only("no-such-cache"); }).status(), DC_ERROR_NOT_FOUND);
}

TEST(CxxCacheLife, ADamagedSampleIsAMissWhereEveryHitComparesChecksums) {
  const CacheName name;
  ddpcache::CacheOptions options = small();
  options.checksums = DC_CHECKSUMS_READ;
  ddpcache::Cache cache(name.c_str(), "", options);
  EXPECT_EQ(cache.info().checksums, static_cast<std::uint32_t>(DC_CHECKSUMS_READ));
  cache.load(0, write_four);
  EXPECT_TRUE(has_four(*cache.view(0), 0));
  ddpcache::test::SegmentFile(name).record_of(0)[70] ^= 1;
  EXPECT_FALSE(cache.view(0));
  EXPECT_EQ(cache.stats().damaged, 1u);
}

TEST_F(CxxCache, ACacheThatIsNotDroppableKeepsItsSamples) {
  cache_.load(0, write_four);
  EXPECT_EQ(error_of([&] { cache_.remove(0); }).status(), DC_ERROR_UNSUPPORTED);
  EXPECT_EQ(error_of([&] { cache_.clear(); }).status(), DC_ERROR_UNSUPPORTED);
  EXPECT_TRUE(cache_.contains(0));
}

TEST_F(CxxCache, CountsAndChecksWhatItDid) {
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t index = 0; index < 10; ++index) cache_.load(index, write_four);
  }
  for (const dc_stats_scope scope : {DC_STATS_CACHE, DC_STATS_CLIENT}) {
    const dc_cache_stats stats = cache_.stats(scope);
    EXPECT_EQ(stats.fills, 10u);
    EXPECT_EQ(stats.misses, 10u);
    EXPECT_EQ(stats.hits, 10u);
    EXPECT_EQ(stats.bytes_filled, 160u);
  }
  const dc_cache_report report = cache_.check();
  EXPECT_EQ(report.entries_ready, 10u);
  EXPECT_EQ(report.violations, 0u);
}

TEST_F(CxxCache, BadInputIsAnErrorWithItsStatusAndASentence) {
  const ddpcache::Error no_name = error_of([] { ddpcache::Cache cache("a/b", "", small()); });
  EXPECT_EQ(no_name.status(), DC_ERROR_NAME);
  EXPECT_NE(std::string(no_name.what()).find("\"a/b\""), std::string::npos) << no_name.what();
  const ddpcache::Error other = error_of([&] { ddpcache::Cache cache(name_.c_str(), "C++ v2", small()); });
  EXPECT_EQ(other.status(), DC_ERROR_FINGERPRINT);
  for (const char *version : {"C++ v1", "C++ v2"}) {
    EXPECT_NE(std::string(other.what()).find(version), std::string::npos) << other.what();
  }
  EXPECT_EQ(error_of([&] { cache_.view(kLength); }).status(), DC_ERROR_RANGE);
  EXPECT_EQ(error_of([&] { cache_.contains(-1); }).status(), DC_ERROR_RANGE);
  EXPECT_EQ(error_of([&] { cache_.load(-1, write_four); }).status(), DC_ERROR_RANGE);
  EXPECT_EQ(error_of([&] { cache_.begin_fill(kLength); }).status(), DC_ERROR_RANGE);
  EXPECT_EQ(error_of([&] { cache_.stats(static_cast<dc_stats_scope>(9)); }).status(), DC_ERROR_RANGE);
  EXPECT_EQ(error_of([] { ddpcache::describe<float>(std::vector<std::int64_t>(9, 1)); }).status(), DC_ERROR_RANGE);
  EXPECT_EQ(error_of([] { ddpcache::describe<float>({1}, std::string(56, 'x')); }).status(), DC_ERROR_RANGE);
}

}  // namespace
