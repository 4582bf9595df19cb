// The layout of a job from the variables that launchers set, as a pure function of them.
#pragma once

#include <functional>
#include <string>

#include "ddpcache/sampler.h"
#include "status.hpp"

namespace ddpcache {

// The value of a variable, or nullptr where it is not set.
using Environment = std::function<const char *(const char *name)>;

// Fills all fields but struct_size.
Status detect_topology(const Environment &environment, dc_topology *topology);

}  // namespace ddpcache
