// Forks: a child is a client of its own, and what was its parent's stays the parent's.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "actors.hpp"

namespace ddpcache::test {
namespace {

class Forked : public ::testing::Test {
 protected:
  Forked() { EXPECT_EQ(parent_.ask(std::string("attach ") + name_.c_str()), "0"); }
  ~Forked() override { report_of(cache_); }

  void expect_parents_fill_untouched() {
    EXPECT_EQ(put(cache_, 7, 1000, 100 * kMillisecond), DC_BUSY);
    EXPECT_EQ(parent_.ask("write 0 1000"), "0");
    EXPECT_EQ(parent_.ask("commit"), "0");
    EXPECT_TRUE(holds(cache_, 7, 1000));
    EXPECT_EQ(stats_of(cache_).takeovers, 0u);
  }

  const CacheName name_;
  const Handle cache_ = open_cache(name_, options_for(100, 1 << 20));
  Actor parent_;
};

TEST_F(Forked, ChildHasARecordOfItsOwnFromItsFirstUseOn) {
  EXPECT_EQ(info_of(cache_).clients_attached, 2u);
  ASSERT_NE(parent_.ask("fork"), "");
  EXPECT_EQ(parent_.ask("put 3 500"), "0");
  EXPECT_EQ(info_of(cache_).clients_attached, 3u);
  EXPECT_TRUE(holds(cache_, 3, 500));
  EXPECT_EQ(parent_.ask("close"), "0");
  EXPECT_EQ(info_of(cache_).clients_attached, 2u);
}

TEST_F(Forked, ChildLivesOnWhileItsDeadParentsFillIsRecovered) {
  for (const bool child_uses_it_first : {true, false}) {
    const CacheName name;
    Handle cache = open_cache(name, options_for(100, 1 << 20));
    Actor parent;
    ASSERT_EQ(parent.ask(std::string("attach ") + name.c_str()), "0");
    ASSERT_EQ(parent.ask("begin 7 0"), "0");
    ASSERT_EQ(parent.ask("allocate 1000"), "0");
    const pid_t child = std::stoi(parent.ask("fork"));
    EXPECT_TRUE(!child_uses_it_first || parent.ask("put 8 1000") == "0");
    EXPECT_EQ(put(cache, 7, 1000, 100 * kMillisecond), DC_BUSY);
    parent.kill_and_reap();
    EXPECT_EQ(put(cache, 7, 1000, 60 * kSecond), DC_OK);
    EXPECT_EQ(parent.ask("get 7 1000"), "1") << "the child is alive";
    EXPECT_EQ(parent.ask("put 9 1000"), "0");
    EXPECT_TRUE(holds(cache, 9, 1000));
    EXPECT_EQ(kill(child, SIGKILL), 0);
    report_of(cache);
  }
}

// As multiprocessing by system calls does it: the child finds out by itself.
TEST_F(Forked, ChildThatBypassedTheForkHandlersIsAClientOfItsOwnToo) {
  const CacheName name;
  Handle cache = open_cache(name, options_for(100, 1 << 20));
  Actor parent;
  ASSERT_EQ(parent.ask(std::string("attach ") + name.c_str()), "0");
  ASSERT_EQ(parent.ask("begin 7 0"), "0");
  ASSERT_EQ(parent.ask("allocate 1000"), "0");
  const pid_t child = std::stoi(parent.ask("raw-fork"));
  EXPECT_EQ(parent.ask("put 8 1000"), "0");
  EXPECT_EQ(info_of(cache).clients_attached, 3u);
  EXPECT_EQ(parent.ask("load 7 1000 50"), std::to_string(DC_BUSY) + " 0") << "the parent's fill is not the child's";
  parent.kill_and_reap();
  EXPECT_EQ(put(cache, 7, 1000, 60 * kSecond), DC_OK);
  EXPECT_EQ(parent.ask("get 7 1000"), "1");
  EXPECT_EQ(kill(child, SIGKILL), 0);
  report_of(cache);
}

// Its first call asks whether the filler lives: by then it must be a client of its own, or its parent looks dead to it.
TEST_F(Forked, ChildThatBypassedTheForkHandlersAndAsksFirstLeavesItsParentAlive) {
  ASSERT_EQ(parent_.ask("begin 7 0"), "0");
  ASSERT_EQ(parent_.ask("allocate 1000"), "0");
  const pid_t child = std::stoi(parent_.ask("raw-fork"));
  EXPECT_EQ(parent_.ask("begin 7 0"), std::to_string(DC_BUSY));
  EXPECT_EQ(report_of(cache_).entries_writing, 1u);
  EXPECT_EQ(report_of(cache_).entries_orphaned, 0u);
  EXPECT_EQ(kill(child, SIGKILL), 0);
}

TEST_F(Forked, ChildThatClosesTheHandleLeavesTheParentsLockAndRecord) {
  ASSERT_EQ(parent_.ask("begin 7 0"), "0");
  ASSERT_EQ(parent_.ask("allocate 1000"), "0");
  EXPECT_EQ(parent_.ask("in-child close"), "0");
  EXPECT_EQ(info_of(cache_).clients_attached, 2u);
  expect_parents_fill_untouched();
}

TEST_F(Forked, ChildThatUsesTheHandleAndExitsLeavesTheParentsLockAndRecord) {
  ASSERT_EQ(parent_.ask("begin 7 0"), "0");
  ASSERT_EQ(parent_.ask("allocate 1000"), "0");
  EXPECT_EQ(parent_.ask("in-child put 8 1000"), "0");
  EXPECT_EQ(parent_.ask("in-child get 8 1000"), "1");
  expect_parents_fill_untouched();
}

TEST_F(Forked, ChildCanNeitherEndNorUseItsParentsFill) {
  ASSERT_EQ(parent_.ask("begin 7 0"), "0");
  ASSERT_EQ(parent_.ask("allocate 1000"), "0");
  EXPECT_EQ(parent_.ask("in-child abort"), "0") << "it is left alone";
  EXPECT_EQ(parent_.ask("in-child commit"), std::to_string(DC_ERROR_STATE));
  EXPECT_EQ(parent_.ask("in-child allocate 1000"), std::to_string(DC_ERROR_STATE));
  EXPECT_EQ(parent_.ask("in-child load 7 1000 50"), std::to_string(DC_BUSY) + " 0");
  expect_parents_fill_untouched();
}

TEST_F(Forked, ChildMayWaitAlthoughItsParentHasAFillOpen) {
  ASSERT_EQ(parent_.ask("begin 8 0"), "0");
  ASSERT_NE(parent_.ask("fork"), "");
  Actor filler;
  ASSERT_EQ(filler.ask(std::string("attach ") + name_.c_str()), "0");
  ASSERT_EQ(filler.ask("begin 7 0"), "0");
  ASSERT_EQ(filler.ask("allocate 1000"), "0");
  ASSERT_EQ(filler.ask("write 0 1000"), "0");
  const uint64_t waits = stats_of(cache_).waits;
  parent_.tell("load 7 1000 60000");
  while (stats_of(cache_).waits == waits) usleep(1000);
  ASSERT_EQ(filler.ask("commit"), "0");
  EXPECT_EQ(parent_.hear(), "0 0");
}

TEST_F(Forked, ChildReadsAnInheritedViewAlsoAfterItHasClosedTheCache) {
  ASSERT_EQ(put(cache_, 5, 1000), DC_OK);
  ASSERT_EQ(parent_.ask("view 5"), "0");
  EXPECT_EQ(parent_.ask("in-child view-right 1000"), "1");
  ASSERT_NE(parent_.ask("fork"), "");
  EXPECT_EQ(parent_.ask("close"), "0");
  EXPECT_EQ(parent_.ask("view-right 1000"), "1");
}

TEST_F(Forked, WhileAnotherThreadFillsTheChildNeitherHangsNorOwnsThatFill) {
  ASSERT_EQ(parent_.ask("background 7"), "0");
  EXPECT_EQ(parent_.ask("in-child load 7 1000 50"), std::to_string(DC_BUSY) + " 0");
  EXPECT_EQ(parent_.ask("in-child put 8 1000"), "0");
  EXPECT_EQ(parent_.ask("in-child close"), "0");
  EXPECT_EQ(put(cache_, 7, 1000), DC_BUSY);
  EXPECT_EQ(stats_of(cache_).takeovers, 0u);
  parent_.kill_and_reap();
  EXPECT_EQ(put(cache_, 7, 1000, 60 * kSecond), DC_OK);
}

TEST_F(Forked, LoaderThatReturnsInTheChildFillsNothing) {
  const dc_loader forking = [](dc_fill *fill, int64_t index, void *user) -> int32_t {
    dc_array array = byte_array(64);
    EXPECT_EQ(dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr), DC_OK);
    write_pattern(array.data, 64, index);
    *static_cast<pid_t *>(user) = fork();
    return DC_LOADED;
  };
  pid_t child = -1;
  dc_view view;
  const int32_t status = dc_cache_load(cache_, 30, forking, &child, 0, &view);
  if (child == 0) _exit(status == DC_ERROR_STATE ? 0 : 1);
  EXPECT_EQ(status, DC_OK);
  dc_cache_view_release(&view);
  int result = -1;
  EXPECT_EQ(waitpid(child, &result, 0), child);
  EXPECT_EQ(result, 0) << "in the child the load is an error";
  EXPECT_TRUE(holds(cache_, 30, 64));
}

// Forks in the middle of opens and closes of other threads: no child inherits a lock that nobody will ever release.
TEST(Forking, AmidOpensAndClosesOfOtherThreadsNeverHangs) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP()
      << "the address sanitizer's allocator holds no lock over a fork: a child of a process whose other threads "
         "allocate may wait for ever in malloc (GCC 12)";
#endif
  const CacheName shared;
  const Handle cache = open_cache(shared, options_for(100, 1 << 20));
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      const CacheName own;
      while (!stop) {
        const Handle mine = open_cache(own, options_for(10, 1 << 20));
        dc_cache *other = nullptr;
        if (dc_cache_attach(shared.c_str(), nullptr, 10 * kSecond, &other, nullptr) == DC_OK) dc_cache_close(other);
      }
    });
  }
  for (int i = 0; i < 60; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      const bool stored = put(cache, i, 100) == DC_OK && holds(cache, i, 100);
      dc_cache *other = nullptr;
      const bool attached = dc_cache_attach(shared.c_str(), nullptr, 10 * kSecond, &other, nullptr) == DC_OK;
      _exit(stored && attached && dc_cache_close(other) == DC_OK ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "child " << i;
  }
  stop = true;
  for (std::thread &thread : threads) thread.join();
  for (int i = 0; i < 60; ++i) EXPECT_TRUE(holds(cache, i, 100));
  report_of(cache);
}

// Forks in the middle of the fills of other threads, at whatever step they are: the child has none of these fills, and
// its own calls end.
TEST(Forking, AmidFillsOfOtherThreadsLeavesThemToTheParent) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "as above: a child may wait for ever in the address sanitizer's malloc";
#endif
  constexpr int64_t kThreads = 3, kForks = 60;
  const CacheName name;
  dc_cache_options options = options_for(kForks + kThreads, 4 << 20);
  options.droppable = 1;
  const Handle cache = open_cache(name, options);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; !stop; ++i) {
        const int64_t index = kForks + t;
        dc_fill *fill = nullptr;
        if (dc_cache_fill_begin(cache, index, 0, &fill) != DC_OK) {
          ++wrong;
          break;
        }
        dc_array array = byte_array(500);
        wrong += dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr) != DC_OK;
        write_pattern(array.data, 500, index);
        const bool stored = i % 3 == 0;
        wrong += (stored ? dc_cache_fill_commit(fill) : dc_cache_fill_abort(fill)) != DC_OK;
        wrong += stored && dc_cache_remove(cache, index) != DC_OK;
      }
    });
  }
  for (int64_t i = 0; i < kForks; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      const int32_t status = put(cache, i, 100);
      if (status != DC_OK) _exit(100 + status);
      _exit(holds(cache, i, 100) && dc_cache_close(cache) == DC_OK ? 0 : 1);  // with a fill of its own it could not
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "child " << i;
  }
  stop = true;
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(stats_of(cache).takeovers, 0u);
  EXPECT_GT(stats_of(cache).aborts, 100u);
  for (int64_t i = 0; i < kForks; ++i) EXPECT_TRUE(holds(cache, i, 100));
  EXPECT_EQ(report_of(cache).entries_writing, 0u);
}

// Three generations, each with its own fill.
TEST(Forking, ReachesGrandchildren) {
  const CacheName name;
  const Handle cache = open_cache(name, options_for(100, 1 << 20));
  Actor actor;
  ASSERT_EQ(actor.ask(std::string("attach ") + name.c_str()), "0");
  ASSERT_EQ(actor.ask("begin 1 0"), "0");
  const pid_t child = std::stoi(actor.ask("fork"));
  ASSERT_EQ(actor.ask("begin 2 0"), "0");
  ASSERT_NE(actor.ask("fork"), "");
  ASSERT_EQ(actor.ask("put 3 100"), "0");
  EXPECT_EQ(info_of(cache).clients_attached, 4u);
  EXPECT_EQ(put(cache, 1, 100), DC_BUSY);
  EXPECT_EQ(put(cache, 2, 100), DC_BUSY);
  ASSERT_EQ(kill(child, SIGKILL), 0);
  EXPECT_EQ(put(cache, 2, 100, 60 * kSecond), DC_OK);
  EXPECT_EQ(put(cache, 1, 100), DC_BUSY) << "the first one lives";
  EXPECT_EQ(actor.ask("get 2 100"), "1");
  report_of(cache);
}

}  // namespace
}  // namespace ddpcache::test
