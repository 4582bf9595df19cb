#include "files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>

#include "ddpcache/cache.h"

namespace ddpcache {

void Descriptor::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

namespace {

int flags_of(Access access) { return (access == Access::read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC; }

}  // namespace

Status reopen(int fd, Descriptor *file, Access access) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  Descriptor opened(::open(path.c_str(), flags_of(access)));
  if (!opened.valid()) return system_failure("open", path, errno);
  *file = std::move(opened);
  return {};
}

bool refers_to(int fd, const FileIdentity &identity) {
  struct stat properties;
  return fd >= 0 && fstat(fd, &properties) == 0 && FileIdentity{properties.st_dev, properties.st_ino} == identity;
}

Status check_name(const char *name) {
  if (!name) return failure(DC_ERROR_ARGUMENT, "the cache name is NULL");
  const size_t length = strnlen(name, DC_NAME_BYTES_MAX + 1);
  const auto allowed = [](unsigned char c) { return c < 128 && (std::isalnum(c) || c == '.' || c == '_' || c == '-'); };
  if (length >= 1 && length <= DC_NAME_BYTES_MAX && std::all_of(name, name + length, allowed)) return {};
  return failure(DC_ERROR_NAME, "the cache name \"%.*s\"%s is not 1 to %d characters of A-Z a-z 0-9 . _ -",
                 static_cast<int>(length), name, length > DC_NAME_BYTES_MAX ? "..." : "", DC_NAME_BYTES_MAX);
}

Status Directory::open(const char *path, Directory *directory) {
  directory->path_ = path ? path : "/dev/shm";
  directory->fd_ = Descriptor(::open(directory->path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory->fd_.valid()) return system_failure("open", directory->path_, errno);
  char absolute[PATH_MAX];
  const std::string self = "/proc/self/fd/" + std::to_string(directory->fd());
  const ssize_t length = readlink(self.c_str(), absolute, sizeof absolute);
  if (length <= 0 || length == sizeof absolute) return system_failure("readlink", self, errno);
  directory->path_.assign(absolute, static_cast<size_t>(length));
  return look_at_file_system(directory->fd(), directory->path_, &directory->file_system_);
}

std::string Directory::lock_file() { return "ddpcache." + std::to_string(geteuid()); }

std::string Directory::cache_file(const std::string &name) { return lock_file() + "." + name; }

Status Directory::create_unnamed(Descriptor *file) const {
  // O_TMPFILE wants a path, not an O_PATH descriptor with an empty name.
  const std::string self = "/proc/self/fd/" + std::to_string(fd());
  *file = Descriptor(::open(self.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file->valid()) *file = Descriptor(::open(path_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file->valid() && (errno == EOPNOTSUPP || errno == EISDIR)) {
    return failure(DC_ERROR_UNSUPPORTED, "the file system of %s has no files without a name (O_TMPFILE)",
                   path_.c_str());
  }
  if (!file->valid()) return system_failure("open(O_TMPFILE)", path_, errno);
  // The umask can only have taken bits away.
  if (fchmod(file->get(), 0600) != 0) return system_failure("fchmod", path_, errno);
  return {};
}

Status Directory::link(int fd_of_file, const std::string &name) const {
  const std::string self = "/proc/self/fd/" + std::to_string(fd_of_file);
  if (linkat(AT_FDCWD, self.c_str(), fd(), name.c_str(), AT_SYMLINK_FOLLOW) == 0) return {};
  if (errno == EEXIST) return DC_PRESENT;
  return system_failure("linkat", described(name), errno);
}

Status Directory::open_checked(const std::string &name, Descriptor *file, struct stat *properties,
                               Access access) const {
  // O_NONBLOCK keeps the open of a FIFO from waiting for a writer.
  *file = Descriptor(openat(fd(), name.c_str(), flags_of(access) | O_NOFOLLOW | O_NONBLOCK));
  const int reason = errno;
  const std::string subject = described(name);
  if (!file->valid()) {
    if (reason == ENOENT) return failure(DC_ERROR_NOT_FOUND, "no cache at %s", subject.c_str());
    if (reason == ELOOP) return failure(DC_ERROR_PERMISSION, "%s is a symbolic link: refused", subject.c_str());
    if (reason == EISDIR || reason == ENXIO || reason == EACCES || reason == EPERM) {
      return failure(DC_ERROR_PERMISSION, "%s cannot be a cache of this user: %s", subject.c_str(), strerror(reason));
    }
    return system_failure("open", subject, reason);
  }
  if (fstat(file->get(), properties) != 0) return system_failure("fstat", subject, errno);
  if (!S_ISREG(properties->st_mode)) {
    return failure(DC_ERROR_PERMISSION, "%s is not a regular file (mode 0%o): refused", subject.c_str(),
                   properties->st_mode);
  }
  if (properties->st_uid != geteuid()) {
    return failure(DC_ERROR_PERMISSION, "%s belongs to user %u, not to user %u: refused", subject.c_str(),
                   properties->st_uid, geteuid());
  }
  if (properties->st_nlink > 1) {
    return failure(DC_ERROR_PERMISSION, "%s has %lu hard links, not 1: refused", subject.c_str(),
                   static_cast<unsigned long>(properties->st_nlink));
  }
  return {};
}

bool Directory::leads_to(const std::string &name, const FileIdentity &identity) const {
  struct stat properties;
  return fstatat(fd(), name.c_str(), &properties, AT_SYMLINK_NOFOLLOW) == 0 &&
         FileIdentity{properties.st_dev, properties.st_ino} == identity;
}

Status Directory::remove(const std::string &name) const {
  if (unlinkat(fd(), name.c_str(), 0) == 0) return {};
  if (errno == ENOENT) return failure(DC_ERROR_NOT_FOUND, "no cache at %s", described(name).c_str());
  return system_failure("unlink", described(name), errno);
}

Status Directory::list(std::vector<std::string> *names) const {
  Descriptor readable(openat(fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!readable.valid()) return system_failure("open", path_, errno);
  const std::unique_ptr<DIR, int (*)(DIR *)> stream(fdopendir(readable.get()), closedir);
  if (!stream) return system_failure("fdopendir", path_, errno);
  readable.release();  // the stream closes it
  const std::string prefix = cache_file("");
  while (const dirent *entry = readdir(stream.get())) {
    const std::string file = entry->d_name;
    if (file.starts_with(prefix) && check_name(file.c_str() + prefix.size()).ok()) {
      names->push_back(file.substr(prefix.size()));
    }
  }
  std::sort(names->begin(), names->end());
  return {};
}

}  // namespace ddpcache
