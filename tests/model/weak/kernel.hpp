// Which of the scenario's processes are dead, by the start time in their client records.
#pragma once

#include <cstdint>

namespace weak {

void declare_dead(uint64_t start_time);
void revive_all();

}  // namespace weak
