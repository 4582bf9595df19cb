// Loaders that fail while others wait, or that ask for what they are loading.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "../support/caches.hpp"
#include "ddpcache/cache.hpp"

namespace ddpcache::test {
namespace {

using namespace std::chrono_literals;

// Whatever goes wrong in a loader: its caller has its own error, and who waits has its turn, at once.
class FailingLoader : public ::testing::TestWithParam<const char *> {
 protected:
  static constexpr int64_t kIndex = 7;

  // Runs a load that fails as the parameter says, once somebody waits for it.
  void fail_when_waited_for() {
    const auto wait_for_waiter = [this] {
      begun_ = true;
      while (stats_of(cache_).waits == 0) std::this_thread::sleep_for(1ms);
    };
    const std::string how = GetParam();
    if (how == "throws") {
      ddpcache::Cache same = ddpcache::Cache::attach(name_.c_str());
      const auto throwing = [&](ddpcache::Filling &, std::int64_t) {
        wait_for_waiter();
        throw std::out_of_range("no such file");
      };
      EXPECT_THROW(static_cast<void>(same.load(kIndex, throwing)), std::out_of_range);
      return;
    }
    struct Failure {
      decltype(wait_for_waiter) &wait;
      std::string how;
      uint64_t too_large;
    } failure{wait_for_waiter, how, info_of(cache_).sample_bytes_max + 1};
    const dc_loader loader = [](dc_fill *fill, int64_t, void *user) -> int32_t {
      Failure *own = static_cast<Failure *>(user);
      own->wait();
      if (own->how == "fails") return 0;
      dc_array array = byte_array(own->how == "allocates-too-much" ? own->too_large : 100);
      dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr);
      if (own->how == "allocates-twice") dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr);
      return own->how == "fails-late" ? -1 : DC_LOADED;
    };
    dc_view view;
    const int32_t own_error = how == "allocates-twice"      ? DC_ERROR_STATE
                              : how == "allocates-too-much" ? DC_ERROR_TOO_LARGE
                                                            : DC_ERROR_LOADER;
    EXPECT_EQ(dc_cache_load(cache_, kIndex, loader, &failure, 0, &view), own_error);
  }

  const CacheName name_;
  const Handle cache_ = open_cache(name_, options_for(100, 4 << 20));
  std::atomic<bool> begun_{false};
};

INSTANTIATE_TEST_SUITE_P(Loader, FailingLoader,
                         ::testing::Values("fails", "fails-late", "throws", "allocates-twice", "allocates-too-much"),
                         [](const auto &how) {
                           std::string name = how.param;
                           name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
                           return name;
                         });

TEST_P(FailingLoader, PassesTheTurnToAWaiterAndTellsItsCaller) {
  // Nobody looks again by himself: a wake-up that is missing is a hang.
  ASSERT_EQ(setenv("DDPCACHE_WAIT_SLICE_NS", std::to_string(1000 * kSecond).c_str(), 1), 0);
  std::thread failing([this] { fail_when_waited_for(); });
  while (!begun_) std::this_thread::sleep_for(1ms);
  Errand errand{300};
  dc_view view;
  EXPECT_EQ(dc_cache_load(cache_, kIndex, load_pattern, &errand, 100 * kSecond, &view), DC_OK);
  dc_cache_view_release(&view);
  failing.join();
  unsetenv("DDPCACHE_WAIT_SLICE_NS");
  EXPECT_EQ(errand.runs, 1);
  EXPECT_TRUE(holds(cache_, kIndex, 300));
  EXPECT_EQ(stats_of(cache_).open_fills, 0u);
  const dc_cache_report report = report_of(cache_);
  EXPECT_EQ(report.entries_writing + report.extents_named, 0u);
}

// A thread that would wait for itself.
TEST(OwnFill, AskedForAgainByItsThreadIsAnErrorAtOnceWhateverTheDeadline) {
  const CacheName name;
  const Handle cache = open_cache(name, options_for(100, 4 << 20));
  dc_fill *fill = nullptr, *again = nullptr;
  ASSERT_EQ(dc_cache_fill_begin(cache, 7, 0, &fill), DC_OK);
  const auto before = std::chrono::steady_clock::now();
  Errand errand;
  dc_view view;
  dc_error error = {};
  EXPECT_EQ(dc_cache_load(cache, 7, load_pattern, &errand, 3600 * kSecond, &view), DC_ERROR_RECURSION);
  EXPECT_EQ(dc_cache_fill_begin(cache, 7, 3600 * kSecond, &again), DC_ERROR_RECURSION);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 1s);
  EXPECT_EQ(errand.runs, 0);
  EXPECT_EQ(again, nullptr);
  dc_array array = byte_array(100);
  EXPECT_EQ(dc_cache_fill_allocate(fill, &array, 1, nullptr, &error), DC_OK) << "the fill goes on";
  write_pattern(array.data, 100, 7);
  EXPECT_EQ(dc_cache_fill_commit(fill), DC_OK);
  EXPECT_TRUE(holds(cache, 7, 100));
}

}  // namespace
}  // namespace ddpcache::test
