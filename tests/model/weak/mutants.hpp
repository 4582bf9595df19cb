// Every order that is stronger than relaxed, weakened by one step, in turn; and the scenario that notices.
#pragma once

#include <string>
#include <vector>

#include "scenarios.hpp"

namespace weak {

struct Row {
  Site site;
  std::memory_order weakened;
  std::string caught_by, how;  // empty: by nobody
};

struct Exploration {
  std::string name;
  Outcome outcome;
  double seconds;
  std::vector<int> visits;
};

// All scenarios with the orders as they are.
std::vector<Exploration> run_scenarios(const std::vector<Scenario> &scenarios);

// What a site may be weakened to by one step. All further steps allow more, so what catches these catches them.
std::vector<std::memory_order> weaker(const Site &site);

Row try_mutant(const std::vector<Scenario> &scenarios, const std::vector<Exploration> &runs, int site,
               std::memory_order to);

const char *name_of(std::memory_order order);
// "clients.cpp: Clients::join", without what changes with each edit.
std::string place_of(const Site &site);

}  // namespace weak
