// Every function with arguments that it must refuse: the documented error, and nothing changed.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "../support/caches.hpp"

namespace ddpcache::test {
namespace {

constexpr int64_t kLength = 10;
constexpr int64_t kBadIndices[] = {-1, kLength, kLength + 1, std::numeric_limits<int64_t>::min(),
                                   std::numeric_limits<int64_t>::max()};

int32_t never(dc_fill *, int64_t, void *) {
  ADD_FAILURE() << "a loader ran";
  return 0;
}

// A cache with one sample; whatever a test does to it, its counts and its soundness must be the same at the end.
class Refusal : public ::testing::Test {
 protected:
  Refusal() {
    EXPECT_EQ(put(cache_, 0, 100), DC_OK);
    before_ = stats_of(cache_);
    reported_ = report_of(cache_);
  }
  ~Refusal() override {
    const dc_cache_stats after = stats_of(cache_);
    EXPECT_EQ(std::memcmp(&after, &before_, sizeof after), 0) << "a refused call was counted or left something";
    const dc_cache_report report = report_of(cache_);
    EXPECT_EQ(std::memcmp(&report, &reported_, sizeof report), 0);
    EXPECT_TRUE(holds(cache_, 0, 100));
  }

  const CacheName name_;
  const Handle cache_ = open_cache(name_, options_for(kLength, 1 << 20));
  dc_cache_stats before_;
  dc_cache_report reported_;
};

TEST_F(Refusal, OfOptionsOfAnImpossibleSize) {
  dc_cache_options options;
  EXPECT_EQ(dc_cache_options_init(nullptr, sizeof options), DC_ERROR_ARGUMENT);
  for (const uint32_t size : {0u, 3u, 4u, static_cast<uint32_t>(sizeof options) - 1, 1u << 30}) {
    EXPECT_EQ(dc_cache_options_init(&options, size), DC_ERROR_ARGUMENT) << size;
  }
}

// As a later version's program would call it.
TEST_F(Refusal, OfLaterOptionsOnlyWhereTheyAreUsed) {
  struct Later {
    dc_cache_options options;
    uint64_t knob;
  } later;
  ASSERT_EQ(dc_cache_options_init(&later.options, sizeof later), DC_OK);
  EXPECT_EQ(later.knob, 0u);
  later.options.length = kLength;
  dc_cache *cache = nullptr;
  EXPECT_EQ(dc_cache_open(name_.c_str(), nullptr, "test", &later.options, &cache, nullptr), DC_OK);
  EXPECT_EQ(dc_cache_close(cache), DC_OK);
  later.knob = 1;
  EXPECT_EQ(dc_cache_open(name_.c_str(), nullptr, "test", &later.options, &cache, nullptr), DC_ERROR_UNSUPPORTED);
}

TEST_F(Refusal, OfOpenWithNullOrWrongArguments) {
  dc_cache_options options = options_for(kLength, 1 << 20);
  dc_cache *cache = nullptr;
  dc_error error;
  const auto open = [&](const char *name, const char *fingerprint) {
    cache = reinterpret_cast<dc_cache *>(1);
    error.status = 0;
    const int32_t status = dc_cache_open(name, nullptr, fingerprint, &options, &cache, &error);
    EXPECT_EQ(cache, nullptr);
    EXPECT_EQ(error.status, status);
    EXPECT_NE(error.message[0], '\0');
    return status;
  };
  EXPECT_EQ(dc_cache_open(name_.c_str(), nullptr, "", &options, nullptr, &error), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_open(name_.c_str(), nullptr, "", nullptr, &cache, &error), DC_ERROR_ARGUMENT);
  EXPECT_EQ(open(nullptr, ""), DC_ERROR_ARGUMENT);
  EXPECT_EQ(open("", ""), DC_ERROR_NAME);
  EXPECT_EQ(open("a/b", ""), DC_ERROR_NAME);
  EXPECT_EQ(open(std::string(201, 'x').c_str(), ""), DC_ERROR_NAME);
  EXPECT_EQ(open("x", std::string(DC_FINGERPRINT_BYTES_MAX + 1, 'x').c_str()), DC_ERROR_RANGE);

  const auto with = [&](auto change) {
    options = options_for(kLength, 1 << 20);
    change(options);
    const CacheName fresh;
    const int32_t status = open(fresh.c_str(), "");
    EXPECT_FALSE(fresh.exists());
    // The same for a name that is in use.
    EXPECT_EQ(open(name_.c_str(), "test"), status);
    return status;
  };
  EXPECT_EQ(with([](auto &o) { o.length = 0; }), DC_ERROR_RANGE);
  EXPECT_EQ(with([](auto &o) { o.length = -1; }), DC_ERROR_RANGE);
  EXPECT_EQ(with([](auto &o) { o.length = DC_LENGTH_MAX + 1; }), DC_ERROR_RANGE);
  EXPECT_EQ(with([](auto &o) { o.clients_max = DC_CLIENTS_MAX + 1; }), DC_ERROR_RANGE);
  EXPECT_EQ(with([](auto &o) { o.sample_bytes = DC_SAMPLE_BYTES_MAX + 1ul; }), DC_ERROR_RANGE);
  EXPECT_EQ(with([](auto &o) { o.sample_bytes_max = DC_SAMPLE_BYTES_MAX + 1ul; }), DC_ERROR_RANGE);
  EXPECT_EQ(with([](auto &o) { o.timeout_ns = -1; }), DC_ERROR_RANGE);
  EXPECT_EQ(with([](auto &o) { o.keep = 2; }), DC_ERROR_RANGE);
  EXPECT_EQ(with([](auto &o) { o.checksums = 3; }), DC_ERROR_RANGE);
  EXPECT_EQ(with([](auto &o) { o.interleave = 2; }), DC_ERROR_RANGE);
  EXPECT_EQ(with([](auto &o) { o.huge_pages = 2; }), DC_ERROR_RANGE);
  EXPECT_EQ(with([](auto &o) { o.partial = 7; }), DC_ERROR_RANGE);
  EXPECT_EQ(with([](auto &o) { o.struct_size = 8; }), DC_ERROR_ARGUMENT);
}

TEST_F(Refusal, OfACapacityThatHoldsNotOneSample) {
  dc_cache_options options = options_for(kLength, 1 << 20, 0, 2 << 20);
  dc_cache *cache = nullptr;
  dc_error error;
  const CacheName fresh;
  EXPECT_EQ(dc_cache_open(fresh.c_str(), nullptr, "", &options, &cache, &error), DC_ERROR_RANGE);
  EXPECT_NE(std::string(error.message).find("1048576"), std::string::npos) << error.message;
  EXPECT_FALSE(fresh.exists());
}

// A kept cache that nobody uses must survive a call that could never have replaced it.
TEST_F(Refusal, OfImpossibleOptionsLeavesAKeptCacheAlone) {
  const CacheName kept;
  dc_cache_options options = options_for(kLength, 1 << 20);
  options.keep = 1;
  std::string uuid;
  {
    const Handle cache = open_cache(kept, options);
    ASSERT_EQ(put(cache, 3, 100), DC_OK);
    uuid = info_of(cache).uuid;
  }
  for (const int64_t length : {int64_t{0}, int64_t{-4}, DC_LENGTH_MAX + 1}) {
    dc_cache_options impossible = options;
    impossible.length = length;
    dc_cache *cache = nullptr;
    EXPECT_EQ(dc_cache_open(kept.c_str(), nullptr, "test", &impossible, &cache, nullptr), DC_ERROR_RANGE);
  }
  dc_cache_options contradicting = options;
  contradicting.keep = 2;
  dc_cache *refused = nullptr;
  EXPECT_EQ(dc_cache_open(kept.c_str(), nullptr, "test", &contradicting, &refused, nullptr), DC_ERROR_RANGE);
  const Handle again = open_cache(kept, options);
  EXPECT_EQ(info_of(again).uuid, uuid);
  EXPECT_TRUE(holds(again, 3, 100));
}

TEST_F(Refusal, OfAttachUnlinkGcAndListWithNullOrWrongArguments) {
  dc_cache *cache = reinterpret_cast<dc_cache *>(1);
  EXPECT_EQ(dc_cache_attach(name_.c_str(), nullptr, 0, nullptr, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_attach(nullptr, nullptr, 0, &cache, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(cache, nullptr);
  EXPECT_EQ(dc_cache_attach(name_.c_str(), nullptr, -1, &cache, nullptr), DC_ERROR_RANGE);
  EXPECT_EQ(dc_cache_attach("no-such-cache", nullptr, 10 * kSecond, &cache, nullptr), DC_ERROR_NOT_FOUND);
  EXPECT_EQ(dc_cache_attach("a/b", nullptr, 0, &cache, nullptr), DC_ERROR_NAME);
  EXPECT_EQ(dc_cache_unlink(nullptr, nullptr, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_unlink("", nullptr, nullptr), DC_ERROR_NAME);
  EXPECT_EQ(dc_cache_unlink("no-such-cache", nullptr, nullptr), DC_ERROR_NOT_FOUND);
  EXPECT_EQ(dc_cache_gc("/no/such/place", nullptr, nullptr), DC_ERROR_SYSTEM);
  uint64_t needed = 0;
  EXPECT_EQ(dc_cache_list(nullptr, nullptr, 0, nullptr, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_list(nullptr, nullptr, 8, &needed, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_list("/no/such/place", nullptr, 0, &needed, nullptr), DC_ERROR_SYSTEM);
  uint8_t small[2] = {7, 7};
  EXPECT_EQ(dc_cache_list(nullptr, small, 2, &needed, nullptr), DC_ERROR_BUFFER);
  EXPECT_GT(needed, 2u);
  EXPECT_EQ(small[0], 7);
  EXPECT_EQ(dc_cache_close(nullptr), DC_OK);
}

TEST_F(Refusal, OfEstimateWithNullOrWrongArguments) {
  dc_cache_options options = options_for(kLength, 0);
  uint64_t capacity = 0, total = 0;
  EXPECT_EQ(dc_cache_estimate(nullptr, 1, &capacity, &total, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_estimate(&options, 1, nullptr, &total, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_estimate(&options, 1, &capacity, nullptr, nullptr), DC_ERROR_ARGUMENT);
  options.length = 0;
  EXPECT_EQ(dc_cache_estimate(&options, 1, &capacity, &total, nullptr), DC_ERROR_RANGE);
  options = options_for(DC_LENGTH_MAX, 0);
  EXPECT_EQ(dc_cache_estimate(&options, DC_SAMPLE_BYTES_MAX, &capacity, &total, nullptr), DC_ERROR_RANGE);
  EXPECT_EQ(dc_cache_estimate(&options, UINT64_MAX, &capacity, &total, nullptr), DC_ERROR_TOO_LARGE);
  options = options_for(kLength, 0, 0, 1000);
  EXPECT_EQ(dc_cache_estimate(&options, 1001, &capacity, &total, nullptr), DC_ERROR_TOO_LARGE);
  options = options_for(kLength, 0, 1000);
  EXPECT_EQ(dc_cache_estimate(&options, 1001, &capacity, &total, nullptr), DC_ERROR_TOO_LARGE);
}

TEST_F(Refusal, OfReadingWithNullOrWrongArguments) {
  dc_view view;
  EXPECT_EQ(dc_cache_view(nullptr, 0, &view), DC_ERROR_ARGUMENT);
  EXPECT_EQ(view.owner, nullptr);
  EXPECT_EQ(dc_cache_view(cache_, 0, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_contains(nullptr, 0), DC_ERROR_ARGUMENT);
  uint8_t buffer[200];
  uint64_t bytes = 0;
  EXPECT_EQ(dc_cache_read(nullptr, 0, 0, buffer, 200, &bytes), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_read(cache_, 0, 0, nullptr, 200, &bytes), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_read(cache_, 0, DC_ARRAYS_MAX, buffer, 200, &bytes), DC_ERROR_RANGE);
  for (const int64_t index : kBadIndices) {
    EXPECT_EQ(dc_cache_view(cache_, index, &view), DC_ERROR_RANGE);
    EXPECT_EQ(view.owner, nullptr);
    EXPECT_EQ(dc_cache_contains(cache_, index), DC_ERROR_RANGE);
    EXPECT_EQ(dc_cache_read(cache_, index, 0, buffer, 200, &bytes), DC_ERROR_RANGE);
  }
  dc_cache_view_release(nullptr);
  dc_view empty = {};
  dc_cache_view_release(&empty);
  dc_array array;
  EXPECT_EQ(dc_view_array(nullptr, 0, &array), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_view_array(&empty, 0, &array), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_view_structure(nullptr, &bytes), nullptr);
}

TEST_F(Refusal, OfResidencyOutsideTheEntries) {
  uint8_t bits[2] = {9, 9};
  EXPECT_EQ(dc_cache_residency(nullptr, 0, 1, bits), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_residency(cache_, 0, 1, nullptr), DC_ERROR_ARGUMENT);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const int64_t ranges[][2] = {{-1, 1},          {0, -1},        {0, kLength + 1}, {1, kLength},
                               {kLength + 1, 0}, {kMost, kMost}, {1, kMost}};
  for (const auto &[first, count] : ranges) {
    EXPECT_EQ(dc_cache_residency(cache_, first, count, bits), DC_ERROR_RANGE) << first << " + " << count;
  }
  EXPECT_EQ(bits[0], 9);
}

TEST_F(Refusal, OfLoadingAndFillingWithNullOrWrongArguments) {
  dc_view view;
  dc_fill *fill = reinterpret_cast<dc_fill *>(1);
  EXPECT_EQ(dc_cache_load(nullptr, 1, never, nullptr, 0, &view), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_load(cache_, 1, nullptr, nullptr, 0, &view), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_load(cache_, 1, never, nullptr, 0, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_load(cache_, 1, never, nullptr, -1, &view), DC_ERROR_RANGE);
  EXPECT_EQ(view.owner, nullptr);
  EXPECT_EQ(dc_cache_fill_begin(nullptr, 1, 0, &fill), DC_ERROR_ARGUMENT);
  EXPECT_EQ(fill, nullptr);
  EXPECT_EQ(dc_cache_fill_begin(cache_, 1, 0, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_fill_begin(cache_, 1, -1, &fill), DC_ERROR_RANGE);
  for (const int64_t index : kBadIndices) {
    EXPECT_EQ(dc_cache_load(cache_, index, never, nullptr, 0, &view), DC_ERROR_RANGE);
    EXPECT_EQ(view.owner, nullptr);
    EXPECT_EQ(dc_cache_fill_begin(cache_, index, 0, &fill), DC_ERROR_RANGE);
    EXPECT_EQ(fill, nullptr);
  }
  dc_array array = byte_array(10);
  EXPECT_EQ(dc_cache_fill_allocate(nullptr, &array, 1, nullptr, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_fill_commit(nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_fill_abort(nullptr), DC_OK);
  EXPECT_EQ(dc_cache_fill_index(nullptr), -1);
}

TEST_F(Refusal, OfInfoStatsAndCheckWithNullOrWrongArguments) {
  dc_cache_info info = {};
  dc_cache_stats stats = {};
  dc_cache_report report = {};
  EXPECT_EQ(dc_cache_info_get(cache_, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_info_get(cache_, &info), DC_ERROR_ARGUMENT) << "without its size";
  EXPECT_EQ(dc_cache_stats_get(cache_, DC_STATS_CACHE, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_stats_get(cache_, DC_STATS_CACHE, &stats), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_check(cache_, &report, nullptr), DC_ERROR_ARGUMENT);
  info.struct_size = sizeof info;
  stats.struct_size = sizeof stats;
  report.struct_size = sizeof report;
  EXPECT_EQ(dc_cache_info_get(nullptr, &info), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_stats_get(nullptr, DC_STATS_CACHE, &stats), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_stats_get(cache_, 2, &stats), DC_ERROR_RANGE);
  EXPECT_EQ(dc_cache_stats_get(cache_, -1, &stats), DC_ERROR_RANGE);
  EXPECT_EQ(dc_cache_check(nullptr, &report, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_check(cache_, nullptr, nullptr), DC_OK);
}

// A program of an older and of a later version gets what it knows, and not a byte beyond.
TEST_F(Refusal, DoesNotMeetStructsOfOtherVersions) {
  struct {
    dc_cache_stats stats;
    uint64_t beyond[2];
  } later;
  std::memset(static_cast<void *>(&later), 0xFF, sizeof later);
  later.stats.struct_size = sizeof later.stats + 8;
  ASSERT_EQ(dc_cache_stats_get(cache_, DC_STATS_CACHE, &later.stats), DC_OK);
  EXPECT_EQ(later.stats.fills, 1u);
  EXPECT_EQ(later.stats.struct_size, sizeof later.stats + 8);
  EXPECT_EQ(later.beyond[0], 0u) << "unknown fields read as 0";
  EXPECT_EQ(later.beyond[1], UINT64_MAX);
  dc_cache_stats older;
  std::memset(static_cast<void *>(&older), 0xFF, sizeof older);
  older.struct_size = offsetof(dc_cache_stats, fills);
  ASSERT_EQ(dc_cache_stats_get(cache_, DC_STATS_CACHE, &older), DC_OK);
  EXPECT_EQ(older.fills, UINT64_MAX);
  EXPECT_EQ(older.misses, 0u);
}

}  // namespace
}  // namespace ddpcache::test
