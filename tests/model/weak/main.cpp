// weak_memory                      explores all scenarios
// weak_memory --table [PART [SCENARIO]]   and then each mutant, and prints who caught it: of places that have PART in
//                                  their name, or, after a !, have it not; by scenarios with SCENARIO in theirs
// weak_memory --random SEED RUNS   random executions of all scenarios, without bounds
// weak_memory --only PART          scenarios with PART in their name, and their violations step by step
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "mutants.hpp"

namespace {

using namespace weak;

int print_runs(const std::vector<Exploration> &runs) {
  int wrong = 0;
  int64_t executions = 0;
  double seconds = 0;
  for (const Exploration &run : runs) {
    const Outcome &outcome = run.outcome;
    std::fprintf(stderr, "%-60s %9ld executions%s %7.2f s  %s\n", run.name.c_str(), outcome.executions,
                 outcome.complete ? "" : " (not all)", run.seconds, outcome.violation.c_str());
    wrong += !outcome.violation.empty();
    executions += outcome.executions;
    seconds += run.seconds;
  }
  std::fprintf(stderr, "%zu scenarios, %ld executions, %.1f s\n", runs.size(), executions, seconds);
  return wrong;
}

int print_table(const std::vector<Scenario> &scenarios, const std::vector<Exploration> &runs, const char *only) {
  int uncaught = 0, mutants = 0;
  std::printf("| where | operation | order | weakened to | caught by | what came up |\n|---|---|---|---|---|---|\n");
  const size_t sites = explorer().sites().size();
  for (size_t site = 0; site < sites; ++site) {
    const Site at = explorer().sites()[site];
    if (only && (place_of(at).find(only + (*only == '!')) == std::string::npos) != (*only == '!')) continue;
    for (const std::memory_order to : weaker(at)) {
      const Row row = try_mutant(scenarios, runs, static_cast<int>(site), to);
      ++mutants;
      uncaught += row.caught_by.empty();
      std::printf("| %s | %s%s | %s | %s | %s | %s |\n", place_of(at).c_str(), at.operation.c_str(),
                  at.failure ? ", failed" : "", name_of(at.order), name_of(to),
                  row.caught_by.empty() ? "NOBODY" : row.caught_by.c_str(), row.how.c_str());
      if (row.caught_by.empty()) std::printf("| ^ %s:%u:%u |\n", at.file.c_str(), at.line, at.column);
      std::fflush(stdout);
    }
  }
  std::fprintf(stderr, "%zu sites, %d mutants, %d uncaught\n", sites, mutants, uncaught);
  return uncaught;
}

}  // namespace

int main(int count, char **arguments) {
  std::vector<Scenario> scenarios = all_scenarios();
  const bool table = count > 1 && std::strcmp(arguments[1], "--table") == 0;
  if (count > 2 && std::strcmp(arguments[1], "--only") == 0) {
    std::erase_if(scenarios, [&](const Scenario &s) { return s.name.find(arguments[2]) == std::string::npos; });
    for (Scenario &s : scenarios) s.bounds.trace = true;
  }
  if (table && count > 3) {
    std::erase_if(scenarios, [&](const Scenario &s) { return s.name.find(arguments[3]) == std::string::npos; });
  }
  if (count > 3 && std::strcmp(arguments[1], "--random") == 0) {
    for (Scenario &scenario : scenarios) {
      scenario.bounds.random_seed = std::strtoull(arguments[2], nullptr, 10);
      scenario.bounds.executions = std::strtoll(arguments[3], nullptr, 10);
    }
  }
  const std::vector<Exploration> runs = run_scenarios(scenarios);
  const int wrong = print_runs(runs);
  if (!table || wrong != 0) return wrong != 0;
  return print_table(scenarios, runs, count > 2 ? arguments[2] : nullptr) != 0;
}
