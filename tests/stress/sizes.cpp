// The largest sample there may be, beside the smallest.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "../support/caches.hpp"

namespace ddpcache::test {
namespace {

// What /proc/meminfo says is available, in bytes.
uint64_t memory_available() {
  std::ifstream file("/proc/meminfo");
  uint64_t kibibytes = 0;
  for (std::string line; std::getline(file, line);) {
    unsigned long long value = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %llu kB", &value) == 1) kibibytes = value;
  }
  return kibibytes << 10;
}

TEST(LargestSample, OfFourGibibytesSharesACacheWithSamplesOfAFewBytes) {
  constexpr uint64_t kLargest = DC_SAMPLE_BYTES_MAX, kEnd = 1 << 20, kGibibyte = 1 << 30;
  constexpr uint64_t kStep = kLargest + (64 << 10);
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "one thread only, and the thread sanitizer remembers the accesses to 4 GiB in 16 GiB more";
#endif
  // Two steps, one for each class.
  if (memory_available() < 2 * kStep + 3 * kGibibyte) {
    GTEST_SKIP() << "it needs 11 GiB of memory; available are " << (memory_available() >> 20) << " MiB";
  }
  const CacheName name;
  dc_cache_options options = options_for(100, 2 * kStep, 0, kLargest);
  dc_cache *opened = nullptr;
  dc_error error = {};
  const int32_t status = dc_cache_open(name.c_str(), nullptr, "test", &options, &opened, &error);
  if (status == DC_ERROR_NO_SPACE) GTEST_SKIP() << error.message;
  ASSERT_EQ(status, DC_OK) << error.message;
  const Handle cache(opened);

  dc_fill *fill = nullptr;
  ASSERT_EQ(dc_cache_fill_begin(cache, 0, 0, &fill), DC_OK);
  dc_array array = byte_array(kLargest);
  ASSERT_EQ(dc_cache_fill_allocate(fill, &array, 1, nullptr, &error), DC_OK) << error.message;
  ASSERT_EQ(array.bytes, kLargest);
  write_pattern(array.data, kEnd, 0);
  write_pattern(array.data + kLargest - kEnd, kEnd, 1);
  ASSERT_EQ(dc_cache_fill_commit(fill), DC_OK);
  for (int64_t i = 1; i < 100; ++i) ASSERT_EQ(put(cache, i, static_cast<uint64_t>(i)), DC_OK) << i << " bytes";

  dc_view view = {};
  ASSERT_EQ(dc_cache_view(cache, 0, &view), DC_OK);
  EXPECT_EQ(view.bytes, kLargest);
  EXPECT_TRUE(has_pattern(view.data, kEnd, 0));
  EXPECT_TRUE(has_pattern(view.data + kLargest - kEnd, kEnd, 1));
  dc_cache_view_release(&view);
  for (int64_t i = 1; i < 100; ++i) EXPECT_TRUE(holds(cache, i, static_cast<uint64_t>(i)));
  EXPECT_EQ(report_of(cache).entries_ready, 100u);
}

}  // namespace
}  // namespace ddpcache::test
