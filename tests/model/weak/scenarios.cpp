#include "scenarios.hpp"

namespace weak {

std::vector<Scenario> all_scenarios() {
  std::vector<Scenario> all;
  add_filling(&all);
  add_dropping(&all);
  add_clients(&all);
  add_processes(&all);
  add_checks(&all);
  return all;
}

}  // namespace weak
