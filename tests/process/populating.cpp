// The thread that maps a cache's pages: what it maps, and that it is never in the way.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../support/caches.hpp"
#include "../support/mapped_pages.hpp"

namespace ddpcache::test {
namespace {

constexpr uint64_t kBytes = 150'000;
constexpr int64_t kSamples = 200;

int populating_threads() {
  int found = 0;
  for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    found += name == "ddpcache-pages";
  }
  return found;
}

template <typename Condition>
bool comes_true(Condition &&condition) {
  for (int i = 0; i < 10'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

class Populating : public ::testing::Test {
 protected:
  Populating() {
    for (int64_t i = 0; i < kSamples; ++i) EXPECT_EQ(put(filler_, i, kBytes), DC_OK);
  }

  // Whether every page of these samples' data is mapped; only their heads are touched here.
  static bool mapped(dc_cache *cache, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      dc_view view;
      EXPECT_EQ(dc_cache_view(cache, i, &view), DC_OK);
      const uint64_t pages = mapped_pages(view.data, view.bytes);
      dc_cache_view_release(&view);
      if (pages < kBytes / 4096) return false;
    }
    return true;
  }

  const CacheName name_;
  const Handle filler_ = open_cache(name_, options_for(2 * kSamples, 64 << 20, kBytes));
};

TEST_F(Populating, MapsWhatIsThereAndAtTheNextCallWhatWasAdded) {
  Handle cache = attach_cache(name_.c_str());
  EXPECT_FALSE(mapped(cache, 0, kSamples));
  ASSERT_EQ(dc_cache_populate(cache), DC_OK);
  EXPECT_TRUE(comes_true([&] { return mapped(cache, 0, kSamples); }));
  EXPECT_TRUE(comes_true([&] { return populating_threads() == 0; })) << "it ends by itself";
  for (int64_t i = kSamples; i < 2 * kSamples; ++i) ASSERT_EQ(put(filler_, i, kBytes), DC_OK);
  ASSERT_EQ(dc_cache_populate(cache), DC_OK);
  EXPECT_TRUE(comes_true([&] { return mapped(cache, 0, 2 * kSamples); }));
  EXPECT_EQ(cache.close(), DC_OK);
}

TEST_F(Populating, ClosingEndsItAndViewsOutliveIt) {
  for (int round = 0; round < 50; ++round) {
    Handle cache = attach_cache(name_.c_str());
    dc_view view;
    ASSERT_EQ(dc_cache_view(cache, round, &view), DC_OK);
    ASSERT_EQ(dc_cache_populate(cache), DC_OK);
    ASSERT_EQ(dc_cache_populate(cache), DC_OK);
    EXPECT_LE(populating_threads(), 1);
    if (round % 2) std::this_thread::sleep_for(std::chrono::microseconds(50 * round));
    ASSERT_EQ(cache.close(), DC_OK);
    EXPECT_EQ(populating_threads(), 0);
    EXPECT_TRUE(has_pattern(view.data, view.bytes, round));
    dc_cache_view_release(&view);
  }
}

TEST_F(Populating, ThreadsThatAskAtOnceHaveOneAtWork) {
  Handle cache = attach_cache(name_.c_str());
  std::vector<std::jthread> askers;
  for (int i = 0; i < 4; ++i) {
    askers.emplace_back([&] {
      for (int k = 0; k < 100; ++k) EXPECT_EQ(dc_cache_populate(cache), DC_OK);
    });
  }
  for (int k = 0; k < 20; ++k) EXPECT_LE(populating_threads(), 1);
  askers.clear();
  EXPECT_EQ(cache.close(), DC_OK);
}

std::atomic<int> handled_elsewhere{0};

TEST_F(Populating, NoSignalIsHandledOnIt) {
  static const pid_t main_thread = gettid();
  struct sigaction action = {}, before;
  action.sa_handler = [](int) { handled_elsewhere += gettid() != main_thread; };
  sigaction(SIGUSR1, &action, &before);
  sigset_t usr1, mask;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &usr1, &mask);
  Handle cache = attach_cache(name_.c_str());
  pthread_sigmask(SIG_UNBLOCK, &usr1, nullptr);
  // The thread is begun by one that does not block it; then nobody but the thread could take it.
  ASSERT_EQ(dc_cache_populate(cache), DC_OK);
  pthread_sigmask(SIG_BLOCK, &usr1, nullptr);
  for (int i = 0; i < 1000; ++i) kill(getpid(), SIGUSR1);
  EXPECT_EQ(cache.close(), DC_OK);
  EXPECT_EQ(handled_elsewhere, 0);
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  sigaction(SIGUSR1, &before, nullptr);
}

int exit_status_of_child(const std::function<bool()> &body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST_F(Populating, AForkedChildHasNoneOfItsParentsAndMayHaveItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer takes the parent's thread for one that the child has and never joins";
#endif
  Handle cache = attach_cache(name_.c_str());
  ASSERT_EQ(dc_cache_populate(cache), DC_OK);
#ifdef __SANITIZE_ADDRESS__
  // Its allocator may be locked by the thread at the fork.
  ASSERT_TRUE(comes_true([&] { return mapped(cache, 0, kSamples) && populating_threads() == 0; }));
#endif
  EXPECT_EQ(exit_status_of_child([&] {
              return populating_threads() == 0 && dc_cache_populate(cache) == DC_OK &&
                     comes_true([&] { return mapped(cache, 0, kSamples); }) && cache.close() == DC_OK &&
                     populating_threads() == 0;
            }),
            0);
  EXPECT_EQ(exit_status_of_child([&] { return cache.close() == DC_OK; }), 0) << "the parent's is not waited for";
  EXPECT_EQ(cache.close(), DC_OK);
}

TEST(PopulatingNothing, AnEmptyCacheAndNoCacheAreNoTrouble) {
  const CacheName name;
  Handle cache = open_cache(name, options_for(10, 1 << 20));
  EXPECT_EQ(dc_cache_populate(cache), DC_OK);
  EXPECT_EQ(dc_cache_populate(nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(cache.close(), DC_OK);
}

}  // namespace
}  // namespace ddpcache::test
