// What the library asks of the kernel, done for real, and what that orders told to the explorer; and a process's death,
// which a scenario decides.
#include <set>
#include <string>

#define lock_exclusive real_lock_exclusive
#define lock_shared real_lock_shared
#define unlock real_unlock
#define probe real_probe
#include "../../../src/shm/locks.cpp"
#undef lock_exclusive
#undef lock_shared
#undef unlock
#undef probe

#define this_process real_this_process
#define death_proved real_death_proved
#include "../../../src/shm/process.cpp"
#undef this_process
#undef death_proved

#define look_at_space real_look_at_space
#define reserve real_reserve
#define reserved_bytes real_reserved_bytes
#include "../../../src/shm/space.cpp"
#undef look_at_space
#undef reserve
#undef reserved_bytes

#include "explorer.hpp"
#include "kernel.hpp"

namespace ddpcache {
namespace {

uint64_t lock_of(int64_t byte) { return uint64_t{1} << 63 | static_cast<uint64_t>(byte); }
uint64_t last_start = 0;
std::set<uint64_t> dead;

}  // namespace

LockResult lock_exclusive(int fd, int64_t byte) {
  weak::explorer().arrive(lock_of(byte));
  const LockResult result = real_lock_exclusive(fd, byte);
  if (result == LockResult::taken) weak::explorer().enter_kernel(lock_of(byte));
  return result;
}

LockResult lock_shared(int fd, int64_t byte) { return real_lock_shared(fd, byte); }

void unlock(int fd, int64_t byte) {
  weak::explorer().arrive(lock_of(byte));
  weak::explorer().leave_kernel(lock_of(byte));
  real_unlock(fd, byte);
}

ProbeResult probe(int fd, int64_t byte) {
  weak::explorer().arrive(lock_of(byte));
  const ProbeResult result = real_probe(fd, byte);
  if (result == ProbeResult::free) weak::explorer().enter_kernel(lock_of(byte));
  return result;
}

// Each handle as if it were a process of its own.
ProcessIdentity this_process() { return {getpid(), ++last_start, 1, 1}; }

bool death_proved(const ProcessIdentity &process) {
  weak::explorer().enter_kernel(process.start_time);  // whatever it did comes before, where it is proved
  return dead.count(process.start_time) != 0;
}

Space look_at_space(int, const std::string &) { return {}; }

Status reserve(int fd, uint64_t offset, uint64_t bytes) {
  weak::explorer().reserved(offset);
  return real_reserve(fd, offset, bytes);
}

uint64_t reserved_bytes(int fd) {
  const uint64_t known = weak::explorer().known_bytes();
  return known != 0 ? known : real_reserved_bytes(fd);
}

}  // namespace ddpcache

namespace weak {

void declare_dead(uint64_t start_time) {
  explorer().leave_kernel(start_time);
  ddpcache::dead.insert(start_time);
}
void revive_all() { ddpcache::dead.clear(); }

}  // namespace weak
