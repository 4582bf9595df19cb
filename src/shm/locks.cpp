#include "locks.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>

#include "clock.hpp"

namespace ddpcache {
namespace {

// The pid that holds a flock on this file, as /proc/locks has it; 0 where it does not say.
int flock_holder(const struct stat &file) {
  char wanted[64];
  std::snprintf(wanted, sizeof wanted, "%02x:%02x:%lu", major(file.st_dev), minor(file.st_dev),
                static_cast<unsigned long>(file.st_ino));
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    int pid = 0;
    char identity[64] = "";
    if (std::sscanf(line.c_str(), "%*s FLOCK %*s %*s %d %63s", &pid, identity) == 2 &&
        identity == std::string(wanted)) {
      return pid;
    }
  }
  return 0;
}

LockResult set_lock(int fd, int64_t byte, short kind) {
  struct flock request = {};
  request.l_type = kind;
  request.l_whence = SEEK_SET;
  request.l_start = byte;
  request.l_len = 1;
  if (fcntl(fd, F_OFD_SETLK, &request) == 0) return LockResult::taken;
  return errno == EAGAIN || errno == EACCES ? LockResult::held_by_other : LockResult::failed;
}

// To read only: DC_MISS where there is none.
Status open_lock_file_to(const Directory &directory, Access access, Descriptor *file, struct stat *properties) {
  const std::string name = Directory::lock_file();
  const std::string subject = directory.described(name);
  const int kind = access == Access::read_only ? O_RDONLY : O_RDWR | O_CREAT;
  *file = Descriptor(openat(directory.fd(), name.c_str(), kind | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (!file->valid() && access == Access::read_only && errno == ENOENT) return DC_MISS;
  if (!file->valid() && errno == ELOOP) {
    return failure(DC_ERROR_PERMISSION, "%s is a symbolic link: refused", subject.c_str());
  }
  if (!file->valid() || fstat(file->get(), properties) != 0) return system_failure("open", subject, errno);
  if (!S_ISREG(properties->st_mode) || properties->st_uid != geteuid() || properties->st_nlink > 1) {
    return failure(DC_ERROR_PERMISSION, "%s is not a regular file of user %u with one name: refused", subject.c_str(),
                   geteuid());
  }
  // The umask may have taken bits that the next open needs.
  if (access == Access::read_write && (properties->st_mode & 0777) != 0600 && fchmod(file->get(), 0600) != 0) {
    return system_failure("fchmod", subject, errno);
  }
  return {};
}

}  // namespace

Status open_lock_file(const Directory &directory, Descriptor *file, struct stat *properties) {
  return open_lock_file_to(directory, Access::read_write, file, properties);
}

Status NameLock::acquire(const Directory &directory, int64_t deadline_ns, NameLock *lock) {
  return acquire(directory, deadline_ns, Access::read_write, lock);
}

Status NameLock::acquire_existing(const Directory &directory, int64_t deadline_ns, NameLock *lock) {
  const Status status = acquire(directory, deadline_ns, Access::read_only, lock);
  return status.code() == DC_MISS ? Status() : status;
}

Status NameLock::acquire(const Directory &directory, int64_t deadline_ns, Access access, NameLock *lock) {
  const std::string name = Directory::lock_file();
  const std::string subject = directory.described(name);
  Descriptor file;
  struct stat properties = {};
  if (Status status = open_lock_file_to(directory, access, &file, &properties); !status.ok()) return status;
  for (int64_t pause_ns = 50'000;; pause_ns = std::min<int64_t>(2 * pause_ns, 5'000'000)) {
    if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      if (directory.leads_to(name, {properties.st_dev, properties.st_ino})) {
        lock->file_ = std::move(file);
        return {};
      }
      // Somebody removed the file: a lock on it keeps nobody out any more.
      if (Status status = open_lock_file_to(directory, access, &file, &properties); !status.ok()) return status;
      continue;
    }
    if (errno != EWOULDBLOCK && errno != EINTR) return system_failure("flock", subject, errno);
    if (now_ns() >= deadline_ns) {
      const int holder = flock_holder(properties);
      return failure(DC_ERROR_LOCKED, "%s is held by %s, and still was at the deadline", subject.c_str(),
                     holder > 0 ? ("process " + std::to_string(holder)).c_str() : "a process that this one cannot see");
    }
    const timespec pause = {0, pause_ns};
    nanosleep(&pause, nullptr);
  }
}

LockResult lock_exclusive(int fd, int64_t byte) { return set_lock(fd, byte, F_WRLCK); }
LockResult lock_shared(int fd, int64_t byte) { return set_lock(fd, byte, F_RDLCK); }
void unlock(int fd, int64_t byte) { set_lock(fd, byte, F_UNLCK); }

ProbeResult probe(int fd, int64_t byte) {
  struct flock request = {};
  request.l_type = F_WRLCK;
  request.l_whence = SEEK_SET;
  request.l_start = byte;
  request.l_len = 1;
  if (fcntl(fd, F_OFD_GETLK, &request) != 0) return ProbeResult::failed;
  return request.l_type == F_UNLCK ? ProbeResult::free : ProbeResult::held;
}

}  // namespace ddpcache
