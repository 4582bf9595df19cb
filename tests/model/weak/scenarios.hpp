// What the explored threads do, and what must hold whatever the memory model lets them see.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "explorer.hpp"

namespace weak {

struct Scenario {
  std::string name;
  Bounds bounds;
  std::function<Program()> make;  // with memory of its own
};

std::vector<Scenario> all_scenarios();

// Of the files scenarios_*.cpp.
void add_filling(std::vector<Scenario> *all);
void add_dropping(std::vector<Scenario> *all);
void add_clients(std::vector<Scenario> *all);
void add_processes(std::vector<Scenario> *all);
void add_checks(std::vector<Scenario> *all);

}  // namespace weak
