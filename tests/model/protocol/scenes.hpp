// What the clients of the model are set to do.
#pragma once

#include "protocol.hpp"

namespace ddpcache::model {

// Searched whole in every run of the tests.
const std::vector<Scene> &scenes();
// With more clients, or more faults, for a soak.
const std::vector<Scene> &long_scenes();

}  // namespace ddpcache::model
