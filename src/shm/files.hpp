// The files that caches live in: their names, who owns them, how they are born and removed.
//
// A file is made without a name, completed, and then linked to its name, so that nobody ever sees half of one and a
// creator that dies leaves nothing. Whatever has a name is checked after opening: a regular file of this user with one
// link, not reached through a symbolic link. Anything else is refused, never followed and never deleted.
#pragma once

#include <sys/stat.h>

#include <string>
#include <utility>
#include <vector>

#include "medium.hpp"
#include "status.hpp"

namespace ddpcache {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Descriptor() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void reset();
  // Gives the number up without closing it: for one that the program has closed, and may have used again.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// What a process may do to a file. Who only reads holds no descriptor and no mapping through which he could write.
enum class Access { read_only, read_write };

// Which file a descriptor is open on. A number alone proves nothing: the program may have closed it and used it again.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  friend bool operator==(const FileIdentity &, const FileIdentity &) = default;
};

// The same file through an open file description of its own.
Status reopen(int fd, Descriptor *file, Access access = Access::read_write);

bool refers_to(int fd, const FileIdentity &identity);

// A directory that holds caches: /dev/shm or one that the user gave.
class Directory {
 public:
  // `path` is nullptr for /dev/shm. DC_ERROR_UNSUPPORTED where a cache may not lie: see medium.hpp.
  static Status open(const char *path, Directory *directory);

  int fd() const { return fd_.get(); }
  // Absolute, so that a later chdir changes nothing.
  const std::string &path() const { return path_; }
  const FileSystem &file_system() const { return file_system_; }

  // The file names of this user's caches and lock file.
  static std::string lock_file();
  static std::string cache_file(const std::string &name);
  std::string described(const std::string &file) const { return path_ + "/" + file; }

  // An unnamed file of mode 0600.
  Status create_unnamed(Descriptor *file) const;
  // DC_PRESENT where the name is taken.
  Status link(int fd_of_file, const std::string &name) const;
  // DC_ERROR_NOT_FOUND, DC_ERROR_PERMISSION or an open file that passed every check.
  Status open_checked(const std::string &name, Descriptor *file, struct stat *properties,
                      Access access = Access::read_write) const;
  // Whether the name now leads to this file.
  bool leads_to(const std::string &name, const FileIdentity &identity) const;
  Status remove(const std::string &name) const;
  // The cache names of this user, sorted.
  Status list(std::vector<std::string> *names) const;

 private:
  std::string path_;
  Descriptor fd_;
  FileSystem file_system_;
};

// DC_ERROR_NAME unless the name is 1..200 of A-Z a-z 0-9 . _ -
Status check_name(const char *name);

}  // namespace ddpcache
