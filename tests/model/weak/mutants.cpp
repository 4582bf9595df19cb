#include "mutants.hpp"

#include <algorithm>
#include <chrono>

namespace weak {

using std::memory_order;

std::vector<Exploration> run_scenarios(const std::vector<Scenario> &scenarios) {
  std::vector<Exploration> runs;
  for (const Scenario &scenario : scenarios) {
    const auto begin = std::chrono::steady_clock::now();
    const Program program = scenario.make();
    Exploration run = {scenario.name, explorer().explore(program, scenario.bounds), 0, explorer().visits()};
    run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<memory_order> weaker(const Site &site) {
  const bool update = site.operation.starts_with("fetch") || site.operation.ends_with("exchange");
  const bool both = site.operation == "fence" || (update && !site.failure);
  switch (site.order) {
    case memory_order::seq_cst:
      if (both) return {memory_order::acq_rel};
      return {site.operation == "store" ? memory_order::release : memory_order::acquire};
    case memory_order::acq_rel: return {memory_order::acquire, memory_order::release};
    default: return {memory_order::relaxed};
  }
}

Row try_mutant(const std::vector<Scenario> &scenarios, const std::vector<Exploration> &runs, int site,
               memory_order to) {
  Row row = {explorer().sites()[static_cast<size_t>(site)], to, "", ""};
  std::vector<size_t> visiting;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (std::find(runs[i].visits.begin(), runs[i].visits.end(), site) != runs[i].visits.end()) visiting.push_back(i);
  }
  std::sort(visiting.begin(), visiting.end(), [&](size_t a, size_t b) { return runs[a].seconds < runs[b].seconds; });
  for (const size_t i : visiting) {
    const Program program = scenarios[i].make();
    const Outcome outcome = explorer().explore(program, scenarios[i].bounds, {site, to});
    if (outcome.violation.empty()) continue;
    row.caught_by = scenarios[i].name;
    row.how = outcome.violation;
    break;
  }
  return row;
}

const char *name_of(memory_order order) {
  switch (order) {
    case memory_order::relaxed: return "relaxed";
    case memory_order::consume: return "consume";
    case memory_order::acquire: return "acquire";
    case memory_order::release: return "release";
    case memory_order::acq_rel: return "acq_rel";
    case memory_order::seq_cst: return "seq_cst";
  }
  return "";
}

std::string place_of(const Site &site) {
  std::string function = site.function.substr(0, site.function.find('('));
  function = function.substr(function.rfind(' ') + 1);
  for (const std::string_view space : {"ddpcache::", "{anonymous}::"}) {
    for (size_t at; (at = function.find(space)) != std::string::npos;) function.erase(at, space.size());
  }
  return site.file.substr(site.file.rfind('/') + 1) + ": " + function;
}

}  // namespace weak
