// The explorer itself, on shapes whose outcomes the C++ memory model settles: what is allowed must come up, what is
// forbidden must not.
#include <gtest/gtest.h>

#include <set>

#include "atomic.hpp"

namespace {

using ddpcache::Atomic;
using ddpcache::atomic_fence;
using Result = std::vector<int>;
constexpr auto relaxed = std::memory_order::relaxed;
constexpr auto acquire = std::memory_order::acquire;
constexpr auto release = std::memory_order::release;
constexpr auto acq_rel = std::memory_order::acq_rel;
constexpr auto seq_cst = std::memory_order::seq_cst;

class Litmus : public ::testing::Test {
 protected:
  // All results that the threads can leave in r, and then what `last` adds.
  std::set<Result> results(std::vector<std::function<void()>> threads, std::function<Result()> last = {}) {
    std::set<Result> all;
    weak::Program program;
    program.threads = std::move(threads);
    program.before = [&] { r.assign(4, 0); };
    program.after = [&] {
      Result result = r;
      if (last) {
        for (const int value : last()) result.push_back(value);
      }
      while (!result.empty() && result.back() == 0) result.pop_back();
      all.insert(result);
    };
    const weak::Outcome outcome = weak::explorer().explore(program, {.preemptions = 8, .stale = 8});
    EXPECT_TRUE(outcome.complete) << outcome.violation;
    return all;
  }

  bool races(std::vector<std::function<void()>> threads) {
    weak::Program program;
    program.threads = std::move(threads);
    program.before = [&] { r.assign(4, 0); };
    return !weak::explorer().explore(program, {.preemptions = 8, .stale = 8}).violation.empty();
  }

  Atomic<int> x{0}, y{0}, z{0};
  int plain = 0;
  Result r;
};

TEST_F(Litmus, StoresAreSeenLateUnlessAllIsSequential) {
  const auto run = [&](std::memory_order store, std::memory_order load) {
    return results({[&] { x.store(1, store), r[0] = y.load(load); }, [&] { y.store(1, store), r[1] = x.load(load); }});
  };
  EXPECT_TRUE(run(relaxed, relaxed).count({}));
  EXPECT_TRUE(run(release, acquire).count({}));
  EXPECT_TRUE(run(seq_cst, acquire).count({}));
  EXPECT_EQ(run(seq_cst, seq_cst), (std::set<Result>{{0, 1}, {1}, {1, 1}}));
}

TEST_F(Litmus, FencesOfOneOrderKeepStoresBeforeLoads) {
  const auto run = [&](std::memory_order left, std::memory_order right) {
    return results({[&] { x.store(1, relaxed), atomic_fence(left), r[0] = y.load(relaxed); },
                    [&] { y.store(1, relaxed), atomic_fence(right), r[1] = x.load(relaxed); }});
  };
  EXPECT_TRUE(run(acq_rel, acq_rel).count({}));
  EXPECT_TRUE(run(seq_cst, acq_rel).count({}));
  EXPECT_FALSE(run(seq_cst, seq_cst).count({}));
}

TEST_F(Litmus, AFenceAgainstSequentialOperations) {
  EXPECT_FALSE(results({[&] { x.store(1, relaxed), atomic_fence(seq_cst), r[0] = y.load(relaxed); },
                        [&] { y.store(1, seq_cst), r[1] = x.load(seq_cst); }})
                   .count({}));
  EXPECT_TRUE(results({[&] { x.store(1, relaxed), atomic_fence(acq_rel), r[0] = y.load(relaxed); },
                       [&] { y.store(1, seq_cst), r[1] = x.load(seq_cst); }})
                  .count({}));
}

TEST_F(Litmus, AMessageNeedsBothEnds) {
  const auto run = [&](std::memory_order store, std::memory_order load) {
    return results(
        {[&] { x.store(1, relaxed), y.store(1, store); }, [&] { r[0] = y.load(load), r[1] = x.load(relaxed); }});
  };
  EXPECT_TRUE(run(relaxed, acquire).count({1}));
  EXPECT_TRUE(run(release, relaxed).count({1}));
  EXPECT_EQ(run(release, acquire), (std::set<Result>{{}, {0, 1}, {1, 1}}));
}

TEST_F(Litmus, AMessageByFences) {
  const auto run = [&](std::memory_order left, std::memory_order right) {
    return results({[&] { x.store(1, relaxed), atomic_fence(left), y.store(1, relaxed); },
                    [&] { r[0] = y.load(relaxed), atomic_fence(right), r[1] = x.load(relaxed); }});
  };
  EXPECT_FALSE(run(release, acquire).count({1}));
  EXPECT_TRUE(run(relaxed, acquire).count({1}));
  EXPECT_TRUE(run(release, relaxed).count({1}));
  EXPECT_TRUE(run(acquire, release).count({1}));
}

TEST_F(Litmus, LoadsDoNotSeeWhatIsStoredLater) {  // allowed by C++ where relaxed; see explorer.hpp
  EXPECT_FALSE(results({[&] { r[0] = x.load(relaxed), y.store(1, relaxed); },
                        [&] { r[1] = y.load(relaxed), x.store(1, relaxed); }})
                   .count({1, 1}));
}

TEST_F(Litmus, ReadersAgreeOnIndependentStoresOnlyWhereAllIsSequential) {
  const auto run = [&](std::memory_order store, std::memory_order load) {
    return results({[&] { x.store(1, store); }, [&] { y.store(1, store); },
                    [&] { r[0] = x.load(load), r[1] = y.load(load); },
                    [&] { r[2] = y.load(load), r[3] = x.load(load); }});
  };
  EXPECT_TRUE(run(release, acquire).count({1, 0, 1}));
  EXPECT_FALSE(run(seq_cst, seq_cst).count({1, 0, 1}));
}

TEST_F(Litmus, OneWordGoesForwardOnly) {
  EXPECT_EQ(results({[&] { x.store(1, relaxed), x.store(2, relaxed); },
                     [&] { r[0] = x.load(relaxed), r[1] = x.load(relaxed); }}),
            (std::set<Result>{{}, {0, 1}, {0, 2}, {1, 1}, {1, 2}, {2, 2}}));
}

TEST_F(Litmus, ReadersAgreeOnTheOrderOfOneWord) {
  EXPECT_FALSE(results({[&] { x.store(1, relaxed); }, [&] { x.store(2, relaxed); },
                        [&] { r[0] = x.load(relaxed), r[1] = x.load(relaxed); },
                        [&] { r[2] = x.load(relaxed), r[3] = x.load(relaxed); }})
                   .count({1, 2, 2, 1}));
}

TEST_F(Litmus, WhatWasReadIsNotOvertaken) {  // CoWR, CoRW
  EXPECT_FALSE(results({[&] { x.store(1, relaxed), r[0] = x.load(relaxed); }}).count({}));
  EXPECT_FALSE(results({[&] { r[0] = x.load(relaxed), x.store(1, relaxed); }, [&] { x.store(2, relaxed); }}, [&] {
                 return Result{x.load()};
               }).count({2, 0, 0, 0, 2}));
}

TEST_F(Litmus, StoresToTwoWordsMayCrossUnlessSequential) {  // 2+2W
  const auto run = [&](std::memory_order order) {
    return results({[&] { x.store(1, order), y.store(2, order); }, [&] { y.store(1, order), x.store(2, order); }}, [&] {
      return Result{x.load(), y.load()};
    });
  };
  EXPECT_TRUE(run(relaxed).count({0, 0, 0, 0, 1, 1}));
  EXPECT_TRUE(run(release).count({0, 0, 0, 0, 1, 1}));
  EXPECT_FALSE(run(seq_cst).count({0, 0, 0, 0, 1, 1}));
}

TEST_F(Litmus, AReleaseSequenceGoesOnThroughUpdatesOnly) {
  const auto run = [&](std::function<void()> between) {
    return results({[&] { x.store(1, relaxed), y.store(1, release); }, between,
                    [&] {
                      if (y.load(acquire) == 2) r[0] = 1, r[1] = x.load(relaxed);
                    }});
  };
  EXPECT_FALSE(run([&] {
                 int one = 1;
                 y.compare_exchange_strong(one, 2, relaxed);
               }).count({1}));
  EXPECT_TRUE(run([&] {
                if (y.load(relaxed) == 1) y.store(2, relaxed);
              }).count({1}));
  // C++20 ended sequences by plain stores of the same thread.
  EXPECT_TRUE(results({[&] { x.store(1, relaxed), y.store(1, release), y.store(2, relaxed); },
                       [&] {
                         if (y.load(acquire) == 2) r[0] = 1, r[1] = x.load(relaxed);
                       }})
                  .count({1}));
}

TEST_F(Litmus, UpdatesLoseNothing) {
  EXPECT_EQ(
      results({[&] { x.fetch_add(1, relaxed); }, [&] { x.fetch_add(1, relaxed); }, [&] { x.fetch_add(1, relaxed); }},
              [&] { return Result{x.load()}; }),
      (std::set<Result>{{0, 0, 0, 0, 3}}));
}

TEST_F(Litmus, WhatOneLearntAnotherLearnsFromIt) {  // WRC
  const auto run = [&](std::memory_order pass) {
    return results({[&] { x.store(1, release); },
                    [&] {
                      if (x.load(acquire) == 1) y.store(1, pass);
                    },
                    [&] { r[0] = y.load(acquire), r[1] = x.load(relaxed); }});
  };
  EXPECT_FALSE(run(release).count({1}));
  EXPECT_TRUE(run(relaxed).count({1}));
}

TEST_F(Litmus, AnUpdateThatFailsIsALoad) {
  const auto run = [&](std::memory_order failure) {
    return results({[&] { x.store(1, relaxed), y.store(1, release); },
                    [&] {
                      int zero = 0;
                      if (!y.compare_exchange_strong(zero, 5, acquire, failure)) r[0] = zero, r[1] = x.load(relaxed);
                    }});
  };
  EXPECT_TRUE(run(relaxed).count({1}));
  EXPECT_FALSE(run(acquire).count({1}));
}

TEST_F(Litmus, PlainMemoryRacesUnlessHandedOver) {
  const auto run = [&](std::memory_order store, std::memory_order load) {
    return races({[&] { weak::explorer().write(&plain), x.store(1, store); },
                  [&] {
                    if (x.load(load) == 1) weak::explorer().read(&plain);
                  }});
  };
  EXPECT_FALSE(run(release, acquire));
  EXPECT_TRUE(run(relaxed, acquire));
  EXPECT_TRUE(run(release, relaxed));
}

TEST_F(Litmus, AWaitThatNobodyEndsIsFound) {
  Atomic<uint64_t> word{0};
  const auto *futex = reinterpret_cast<const uint32_t *>(&word);
  const auto wait = [&] { weak::explorer().wait(futex, 0); };
  const auto wake = [&] { weak::explorer().wake(futex); };
  EXPECT_FALSE(races({wait, [&] { word.store(1, relaxed), wake(); }}));
  EXPECT_TRUE(races({wait, [&] { wake(), word.store(1, relaxed); }}));
  EXPECT_TRUE(races({wait, [&] { word.store(1, relaxed); }}));
}

}  // namespace
