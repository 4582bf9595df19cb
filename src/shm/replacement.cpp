#include "replacement.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <climits>
#include <cstdlib>
#include <memory>

#include "ddpcache/base.h"
#include "fault.hpp"

namespace ddpcache {
namespace {

constexpr char kPrefix[] = ".ddpcache-saving-";
constexpr int kNamesTried = 100;

std::string temporary_name() {
  uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) number = static_cast<uint64_t>(getpid());
  char text[40];
  std::snprintf(text, sizeof text, "%s%016" PRIx64, kPrefix, number);
  return text;
}

bool leads_to(int directory, const std::string &name, int fd) {
  struct stat there, ours;
  return fstatat(directory, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &ours) == 0 &&
         there.st_dev == ours.st_dev && there.st_ino == ours.st_ino;
}

// False only where another process holds the lock: a file system without locks proves nothing about anybody.
bool lock_ours(int fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

}  // namespace

Replacement::~Replacement() {
  if (process_ != fork_generation()) return;
  if (!temporary_.empty()) unlinkat(directory_.get(), temporary_.c_str(), 0);
  // A child that was forked meanwhile has the file open too, and would keep the space of what nobody wants any more.
  if (!published_ && file_.valid()) static_cast<void>(!ftruncate(file_.get(), 0));
}

Status Replacement::resolve(const std::string &path) {
  const std::unique_ptr<char, void (*)(void *)> resolved(realpath(path.c_str(), nullptr), std::free);
  struct stat properties;
  if (resolved) {
    path_ = resolved.get();
    if (stat(resolved.get(), &properties) != 0) return system_failure("stat", path_, errno);
    if (!S_ISREG(properties.st_mode)) {
      return failure(DC_ERROR_ARGUMENT, "%s is not a regular file (mode 0%o): nothing is saved over it", path_.c_str(),
                     properties.st_mode);
    }
  } else if (errno != ENOENT) {
    return system_failure("realpath", path, errno);
  } else if (lstat(path.c_str(), &properties) == 0) {
    return failure(DC_ERROR_ARGUMENT, "%s is a symbolic link that leads nowhere", path.c_str());
  } else {
    path_ = path;
  }
  const size_t slash = path_.rfind('/');
  name_ = slash == std::string::npos ? path_ : path_.substr(slash + 1);
  if (name_.empty() || name_ == "." || name_ == "..") {
    return failure(DC_ERROR_ARGUMENT, "\"%s\" does not name a file", path.c_str());
  }
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path_.substr(0, slash);
  directory_ = Descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return directory_.valid() ? Status() : system_failure("open", folder, errno);
}

Status Replacement::begin(const std::string &path, Making making) {
  if (Status status = resolve(path); !status.ok()) return status;
  sweep();
  if (making == Making::named) return make_named();
  // 0666 as any new file; the umask takes its part.
  file_ = Descriptor(openat(directory_.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
  if (file_.valid()) {
    flock(file_.get(), LOCK_EX | LOCK_NB);  // nobody else can have it
    return {};
  }
  // What kernels and file systems say that have no unnamed files.
  if (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL || errno == ENOENT) return make_named();
  return system_failure("open(O_TMPFILE)", path_, errno);
}

Status Replacement::make_named() {
  for (int i = 0; i < kNamesTried; ++i) {
    const std::string name = temporary_name();
    file_ =
        Descriptor(openat(directory_.get(), name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!file_.valid() && errno == EEXIST) continue;
    if (!file_.valid()) return system_failure("open", path_, errno);
    DC_FAULT_POINT("save-named");
    // A sweep may have come between the two calls, and taken the file for one without an owner.
    if (!lock_ours(file_.get()) || !leads_to(directory_.get(), name, file_.get())) continue;
    temporary_ = name;
    return {};
  }
  return failure(DC_ERROR_SYSTEM, "%d temporary names beside %s were taken", kNamesTried, path_.c_str());
}

Status Replacement::link_temporary() {
  const std::string self = "/proc/self/fd/" + std::to_string(file_.get());
  for (int i = 0; i < kNamesTried; ++i) {
    const std::string name = temporary_name();
    if (linkat(AT_FDCWD, self.c_str(), directory_.get(), name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      temporary_ = name;
      return {};
    }
    if (errno != EEXIST) break;
  }
  return system_failure("linkat", path_, errno);
}

Status Replacement::publish() {
  const std::string self = "/proc/self/fd/" + std::to_string(file_.get());
  if (temporary_.empty()) {
    // Where nothing has the name, it takes no temporary one.
    if (linkat(AT_FDCWD, self.c_str(), directory_.get(), name_.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      published_ = true;
    } else {
      if (errno != EEXIST) return system_failure("linkat", path_, errno);
      if (Status status = link_temporary(); !status.ok()) return status;
    }
  }
  if (!temporary_.empty()) {
    DC_FAULT_POINT("save-linked");
    if (renameat(directory_.get(), temporary_.c_str(), directory_.get(), name_.c_str()) != 0) {
      return system_failure("rename", path_, errno);
    }
    temporary_.clear();
    published_ = true;
  }
  DC_FAULT_POINT("save-renamed");
  if (fsync(directory_.get()) != 0 && errno != EINVAL) return system_failure("fsync", path_ + "'s directory", errno);
  return {};
}

void Replacement::sweep() const {
  Descriptor readable(openat(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!readable.valid()) return;
  const std::unique_ptr<DIR, int (*)(DIR *)> stream(fdopendir(readable.get()), closedir);
  if (!stream) return;
  readable.release();  // the stream closes it
  while (const dirent *entry = readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (!name.starts_with(kPrefix)) continue;
    const Descriptor file(openat(directory_.get(), name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat properties;
    if (!file.valid() || fstat(file.get(), &properties) != 0) continue;
    if (!S_ISREG(properties.st_mode) || properties.st_uid != geteuid()) continue;
    // Here a lock that cannot be had, for whatever reason, leaves the file alone.
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0 || !leads_to(directory_.get(), name, file.get())) continue;
    unlinkat(directory_.get(), name.c_str(), 0);
  }
}

}  // namespace ddpcache
