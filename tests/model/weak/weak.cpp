// The library under the C++ memory model: no scenario is violated as it is, and each is with an order less.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "../../support/soak.hpp"
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
    bounds.executions = ddpcache::test::soaked(200, 5'000);
    const Program program = scenario.make();
    EXPECT_EQ(explorer().explore(program, bounds).violation, "") << scenario.name << ", seed " << bounds.random_seed;
  }
}

// All places that the scenarios come by.
const std::vector<Site> &find_sites(const std::vector<Scenario> &scenarios) {
  for (const Scenario &scenario : scenarios) {
    Bounds bounds = scenario.bounds;
    bounds.random_seed = 20261130;
    bounds.executions = 50;
    EXPECT_EQ(explorer().explore(scenario.make(), bounds).violation, "") << scenario.name;
  }
  return explorer().sites();
}

// As docs/memory-model.md has it, without who catches it.
std::string row_of(const Site &site, std::memory_order to) {
  return place_of(site) + " | " + site.operation + (site.failure ? ", failed" : "") + " | " + name_of(site.order) +
         " | " + name_of(to);
}

// Who catches the mutants that have this row there; several where a function has several such places.
std::map<std::string, std::vector<std::string>> documented() {
  std::ifstream document(DDPCACHE_ROOT "/docs/memory-model.md");
  const std::regex row(R"(\| (\S+: .*) \| ([^|]*) \| [^|]* \|)");
  std::map<std::string, std::vector<std::string>> found;
  for (std::string line; std::getline(document, line);) {
    if (std::smatch parts; std::regex_match(line, parts, row)) found[parts[1]].push_back(parts[2]);
  }
  return found;
}

bool is_caught(const Scenario &scenario, int site, std::memory_order to) {
  return !explorer().explore(scenario.make(), scenario.bounds, {site, to}).violation.empty();
}

// By the scenarios that docs/memory-model.md names, which are all that fail at once.
TEST(WeakMemory, EveryOrderIsNeededByTheScenarioThatTheTableNames) {
  const std::vector<Scenario> scenarios = all_scenarios();
  std::map<std::string, std::vector<std::string>> rows = documented();
  std::map<std::string, int> places;
  int mutants = 0;
  const std::vector<Site> sites = find_sites(scenarios);
  for (size_t site = 0; site < sites.size(); ++site) {
    for (const std::memory_order to : weaker(sites[site])) {
      const std::string row = row_of(sites[site], to);
      const std::vector<std::string> &catchers = rows[row];
      ++places[row];
      ++mutants;
      EXPECT_TRUE(std::any_of(catchers.begin(), catchers.end(),
                              [&](const std::string &name) {
                                const auto scenario = std::find_if(scenarios.begin(), scenarios.end(),
                                                                   [&](auto &s) { return s.name == name; });
                                return scenario != scenarios.end() && is_caught(*scenario, static_cast<int>(site), to);
                              }))
          << row << ", line " << sites[site].line;
    }
  }
  for (const auto &[row, catchers] : rows) EXPECT_EQ(static_cast<int>(catchers.size()), places[row]) << row;
  std::printf("%d mutants\n", mutants);
}

// The same by whichever scenario, which is what the table is made of.
TEST(WeakMemory, EveryOrderIsNeeded) {
  if (!ddpcache::test::soaking()) GTEST_SKIP() << "tests/run soak runs it";
  const std::vector<Scenario> scenarios = all_scenarios();
  const std::vector<Exploration> runs = explore(scenarios);
  for (size_t site = 0; site < explorer().sites().size(); ++site) {
    const Site at = explorer().sites()[site];
    for (const std::memory_order to : weaker(at)) {
      EXPECT_NE(try_mutant(scenarios, runs, static_cast<int>(site), to).caught_by, "")
          << row_of(at, to) << ", line " << at.line;
    }
  }
}

struct Unreached {
  const char *file, *text, *why;
};

// Orders in the sources that no scenario can come by.
constexpr Unreached kUnreached[] = {
    {"base/atomic.hpp", "kRelaxed", "what ThreadSanitizer is told in place of a fence"},
    {"cache/filling.cpp", "shared.store(next.bits()", "a mutant of test builds"},
    {"cache/filling.cpp", "EntryWord::ready(generation_, extent_.place).bits());", "a mutant of test builds"},
    {"cache/moves.hpp", "move_observer.load()", "test builds only, set while nothing else runs"},
};

// The line of each order stronger than relaxed, written or by default.
std::vector<std::pair<int, std::string>> orders_in(const std::filesystem::path &source) {
  static const std::regex order(
      R"(memory_order_(acquire|release|acq_rel|seq_cst)|\.load\(\)|\.(store|exchange|fetch_\w+|)"
      R"(compare_exchange_\w+)\((?!.*memory_order|.*kRelaxed).*\);)");
  std::vector<std::pair<int, std::string>> found;
  std::ifstream file(source);
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (std::regex_search(line, order)) found.emplace_back(number, line);
  }
  return found;
}

TEST(WeakMemory, EveryOrderInTheSourcesIsReachedByAScenario) {
  std::set<std::pair<std::string, int>> reached;
  for (const Site &site : find_sites(all_scenarios())) {
    const std::string file = std::filesystem::path(site.file).lexically_normal().string();
    // A call may go on in the next line, which then has the order.
    for (const int line : {0, 1})
      reached.emplace(file.substr(file.rfind("src/") + 4), static_cast<int>(site.line) + line);
  }
  const std::filesystem::path sources = DDPCACHE_ROOT "/src";
  int orders = 0;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(sources)) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") continue;
    const std::string file = entry.path().lexically_relative(sources).string();
    for (const auto &[line, text] : orders_in(entry.path())) {
      ++orders;
      const bool excused = std::any_of(std::begin(kUnreached), std::end(kUnreached), [&](const Unreached &place) {
        return file == place.file && text.find(place.text) != std::string::npos;
      });
      EXPECT_NE(reached.count({file, line}) != 0, excused) << file << ":" << line << ": " << text;
    }
  }
  EXPECT_GT(orders, 60);
}

}  // namespace
}  // namespace weak
