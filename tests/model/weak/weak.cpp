// The library under the C++ memory model: no scenario is violated as it is, and each is with an order less.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "mutants.hpp"

namespace weak {
namespace {

std::vector<Exploration> explore(const std::vector<Scenario> &scenarios) {
  std::vector<Exploration> runs = run_scenarios(scenarios);
  for (const Exploration &run : runs) {
    EXPECT_EQ(run.outcome.violation, "") << run.name;
    EXPECT_TRUE(run.outcome.complete) << run.name;
  }
  return runs;
}

TEST(WeakMemory, NoExecutionWithinTheBoundsViolatesAScenario) {
  int64_t executions = 0;
  for (const Exploration &run : explore(all_scenarios())) {
    executions += run.outcome.executions;
    EXPECT_GT(run.outcome.executions, 1) << run.name << " has nothing to choose";
  }
  std::printf("%ld executions\n", executions);
}

TEST(WeakMemory, RandomExecutionsViolateNone) {
  for (const Scenario &scenario : all_scenarios()) {
    Bounds bounds = scenario.bounds;
    bounds.random_seed = 20261130;
    bounds.executions = std::getenv("DDPCACHE_SOAK") ? 100'000 : 200;
    const Program program = scenario.make();
    EXPECT_EQ(explorer().explore(program, bounds).violation, "") << scenario.name << ", seed " << bounds.random_seed;
  }
}

// Of the edges that everything rests on, by the scenarios that are quick.
TEST(WeakMemory, AWeakenedEdgeIsNoticed) {
  const std::vector<std::string> quick = {"a hit sees the whole sample",
                                          "a reader keeps what it looks at",
                                          "a copy is whole",
                                          "one fills and the other waits",
                                          "a newcomer fills",
                                          "the last view frees the handle",
                                          "a value is built once for all"};
  std::vector<Scenario> scenarios = all_scenarios();
  std::erase_if(scenarios, [&](const Scenario &scenario) {
    return std::find(quick.begin(), quick.end(), scenario.name) == quick.end();
  });
  ASSERT_EQ(scenarios.size(), quick.size());
  const std::vector<Exploration> runs = explore(scenarios);
  const std::vector<std::string> edges = {
      "filling.cpp: Fill::leave",  "reading.cpp: Cache::find",        "private_copies.cpp: Cache::find_copy",
      "filling.cpp: Cache::claim", "clients.hpp: Clients::drop_view", "clients.cpp: Clients::is_named",
      "lazy.hpp: Lazy<T>::get"};
  for (const std::string &edge : edges) {
    int caught = 0;
    for (size_t site = 0; site < explorer().sites().size(); ++site) {
      const Site at = explorer().sites()[site];
      if (place_of(at) != edge) continue;
      for (const std::memory_order to : weaker(at)) {
        caught += !try_mutant(scenarios, runs, static_cast<int>(site), to).caught_by.empty();
      }
    }
    EXPECT_GT(caught, 0) << edge;
  }
}

TEST(WeakMemory, EveryOrderIsNeeded) {
  if (!std::getenv("DDPCACHE_SOAK")) GTEST_SKIP() << "minutes: set DDPCACHE_SOAK=1";
  const std::vector<Scenario> scenarios = all_scenarios();
  const std::vector<Exploration> runs = explore(scenarios);
  for (size_t site = 0; site < explorer().sites().size(); ++site) {
    const Site at = explorer().sites()[site];
    for (const std::memory_order to : weaker(at)) {
      // The orders of dc_cache_check are not reduced: docs/memory-model.md.
      if (place_of(at).find("checker") != std::string::npos || place_of(at).find("look_at") != std::string::npos)
        continue;
      EXPECT_NE(try_mutant(scenarios, runs, static_cast<int>(site), to).caught_by, "")
          << place_of(at) << " line " << at.line << ": " << at.operation << " " << name_of(at.order) << " to "
          << name_of(to);
    }
  }
}

}  // namespace
}  // namespace weak
