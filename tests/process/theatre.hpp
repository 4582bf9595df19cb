// The scene of the tests that kill and stop clients: a cache that the test's own process has open too.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "actors.hpp"

namespace ddpcache::test {

using Clock = std::chrono::steady_clock;

inline constexpr uint64_t kBytes = 20'000;
inline constexpr int64_t kIndex = 7;
// Ten times what a takeover may take after the kernel has released the dead one's lock.
inline constexpr auto kPatience = std::chrono::seconds(1);

// A cache of some dozens of pieces, which the tests' own process has open too.
class Theatre : public ::testing::Test {
 protected:
  static dc_cache_options options() { return options_for(1000, 2 << 20, kBytes); }
  static std::string attach_to(const CacheName &name) { return std::string("attach ") + name.c_str(); }
  static std::string put_it() { return "put " + std::to_string(kIndex) + " " + std::to_string(kBytes); }
  static std::string load_it(int64_t timeout_ms) {
    return "load " + std::to_string(kIndex) + " " + std::to_string(kBytes) + " " + std::to_string(timeout_ms);
  }

  // Waits until somebody waits for an entry.
  void await_waiter() const {
    while (stats_of(cache_).waits == 0) usleep(1000);
  }

  // The entry is stored, right, and every other piece of memory can still be had.
  void expect_every_piece_usable(uint64_t bytes = kBytes) {
    EXPECT_TRUE(holds(cache_, kIndex, bytes));
    const dc_cache_info info = info_of(cache_);
    int64_t index = 100;
    for (int refused = 0; refused < 5 && index < info.length; ++index) refused += put(cache_, index, kBytes) != DC_OK;
    const dc_cache_report report = report_of(cache_);
    EXPECT_EQ(report.steps_reserved, info.steps);
    EXPECT_EQ(report.extents_free, 0u);
    EXPECT_EQ(report.extents_named, 0u);
    EXPECT_EQ(report.entries_writing + report.entries_orphaned, 0u);
    EXPECT_EQ(report.entries_ready, report.extents_owned);
    EXPECT_TRUE(holds(cache_, kIndex, bytes));
  }
  // The same, and the cache goes with its last client.
  void expect_nothing_lost(uint64_t bytes = kBytes) {
    expect_every_piece_usable(bytes);
    EXPECT_EQ(cache_.close(), DC_OK);
    EXPECT_FALSE(name_.exists());
  }

  const CacheName name_;
  Handle cache_ = open_cache(name_, options());
};

// A crash point's name, for a test's.
inline std::string point_name(const ::testing::TestParamInfo<const char *> &point) {
  std::string name = point.param;
  name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
  return name;
}

}  // namespace ddpcache::test
