// Who a process is, and how its death is proved.
#pragma once

#include <cstdint>
#include <string>

namespace ddpcache {

// A pid alone is used again after its process; with its start time it is not, within one PID namespace.
struct ProcessIdentity {
  int32_t pid = 0;
  uint64_t start_time = 0;      // in clock ticks since boot, field 22 of /proc/PID/stat
  uint64_t pid_namespace = 0;   // inode of /proc/self/ns/pid; 0 where it is unknown
  uint64_t time_namespace = 0;  // and of /proc/self/ns/time, in which start times are told; 0 where there are none
};

ProcessIdentity this_process();

// True only where the process certainly runs no more: it lived in this PID and time namespace, and its pid is gone,
// belongs to a process with another start time, or is a zombie without another task. Where /proc cannot tell, false.
bool death_proved(const ProcessIdentity &process);

// True only where the process certainly runs: as above, with that start time, and no zombie.
bool life_proved(const ProcessIdentity &process);

// 36 characters of /proc/sys/kernel/random/boot_id; empty where there is none.
std::string boot_id();

}  // namespace ddpcache
