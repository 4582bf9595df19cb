// How far an epoch has come: what a saved state says beyond the sampler's options.
#pragma once

#include "stages.hpp"
#include "windows.hpp"

namespace ddpcache {

struct Progress {
  uint64_t epoch = 0;
  Exchange exchange;  // in force in this epoch
  Stages stages;      // at least one
};

}  // namespace ddpcache
