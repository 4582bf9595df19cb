// The two kinds of lock, and what each is for.
//
// NameLock, a flock on the user's own empty lock file, guards names: whoever links or unlinks a cache holds it. It is
// never proof of anything about a client.
//
// Byte locks, OFD locks on bytes of a cache's file far beyond its end, are the liveness of clients: the kernel drops
// them when the last descriptor of the open file description is gone, whichever PID namespace the process was in.
#pragma once

#include <cstdint>

#include "files.hpp"

namespace ddpcache {

// The user's own lock file, made where there is none; checked to be that.
Status open_lock_file(const Directory &directory, Descriptor *file, struct stat *properties);

class NameLock {
 public:
  // Waits until `deadline_ns`, then DC_ERROR_LOCKED with the holder where the kernel names it.
  static Status acquire(const Directory &directory, int64_t deadline_ns, NameLock *lock);
  // For who changes no name, and may be unable to write to the directory: the lock file is not made where there is
  // none. Nobody holds a lock on a file that is not there; DC_OK then, without a lock.
  static Status acquire_existing(const Directory &directory, int64_t deadline_ns, NameLock *lock);

 private:
  static Status acquire(const Directory &directory, int64_t deadline_ns, Access access, NameLock *lock);

  Descriptor file_;  // closing it releases the lock
};

// Offsets that no file reaches, so that a lock never covers data.
inline constexpr int64_t kAttachByte = int64_t{1} << 62;
constexpr int64_t client_byte(uint32_t client) { return kAttachByte + 1 + client; }

enum class LockResult { taken, held_by_other, failed };

LockResult lock_exclusive(int fd, int64_t byte);
LockResult lock_shared(int fd, int64_t byte);
void unlock(int fd, int64_t byte);

// Whether another open file description holds a lock on this byte. Its own locks are invisible to a descriptor.
// `failed` where the kernel cannot say, which is not proof of death.
enum class ProbeResult { free, held, failed };
ProbeResult probe(int fd, int64_t byte);

}  // namespace ddpcache
