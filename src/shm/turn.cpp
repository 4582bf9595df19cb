#include "turn.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "hash.hpp"
#include "locks.hpp"

namespace ddpcache {
namespace {

constexpr int kRangeBits = 20;

struct flock lock_of(short kind, int64_t first_byte, int64_t bytes) {
  struct flock request = {};
  request.l_type = kind;
  request.l_whence = SEEK_SET;
  request.l_start = first_byte;
  request.l_len = bytes;
  return request;
}

}  // namespace

Status Turn::try_take(const Directory &directory, const std::string &name, bool *taken, uint32_t *holder_at) {
  // Of two names that have one range, one waits for the other: it costs time.
  first_byte_ = static_cast<int64_t>(hash64(name.data(), name.size()) >> (64 - 62 + kRangeBits) << kRangeBits);
  *taken = false;
  // No child shall inherit the lock, or it would last as long as the child.
  const std::lock_guard process_lock(process_mutex());
  struct stat properties;
  if (Status status = open_lock_file(directory, &file_, &properties); !status.ok()) return status;
  identity_ = {properties.st_dev, properties.st_ino};
  Status status = lock(directory, taken, holder_at);
  if (!status.ok() || !*taken) {
    file_.reset();
    return status;
  }
  register_fork_aware(this, file_.get());
  taken_ = true;
  process_ = fork_generation();
  said_ = 0;
  return {};
}

Status Turn::lock(const Directory &directory, bool *taken, uint32_t *holder_at) {
  struct flock request = lock_of(F_WRLCK, first_byte_, 1);
  if (fcntl(file_.get(), F_OFD_SETLK, &request) == 0) {
    // Not of a lock file that somebody has removed meanwhile: the next call opens the new one.
    *taken = directory.leads_to(Directory::lock_file(), identity_);
    *holder_at = 0;
    return {};
  }
  if (errno != EAGAIN && errno != EACCES) {
    return system_failure("fcntl(F_OFD_SETLK)", directory.described(Directory::lock_file()), errno);
  }
  request = lock_of(F_WRLCK, first_byte_, int64_t{1} << kRangeBits);
  const bool told = fcntl(file_.get(), F_OFD_GETLK, &request) == 0 && request.l_type != F_UNLCK;
  *holder_at = told ? static_cast<uint32_t>(std::clamp<int64_t>(request.l_len - 1, 0, kWhole)) : 0;
  return {};
}

void Turn::say(uint32_t at) {
  at = std::min(at, kWhole);
  if (!taken_ || at <= said_ || !refers_to(file_.get(), identity_)) return;
  // Adjacent locks of one holder become one.
  struct flock request = lock_of(F_WRLCK, first_byte_, int64_t{1} + at);
  if (fcntl(file_.get(), F_OFD_SETLK, &request) == 0) said_ = at;
}

void Turn::give_up() {
  if (!taken_) return;
  taken_ = false;
  unregister_fork_aware(this);
  // A child that was forked since then, or past the handlers, has the descriptor too: to close ours would not end the
  // lock. Nor is the lock such a child's to end.
  struct flock request = lock_of(F_UNLCK, first_byte_, int64_t{1} << kRangeBits);
  if (process_ == fork_generation() && refers_to(file_.get(), identity_)) fcntl(file_.get(), F_OFD_SETLK, &request);
  close_own();
}

// A number that the program closed, and may have used again, is not ours to close.
void Turn::close_own() noexcept {
  if (!refers_to(file_.get(), identity_)) file_.release();
  file_.reset();
}

}  // namespace ddpcache
