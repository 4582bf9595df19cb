// A file that gets its name when it is complete. Until then the name leads to what it led to before, and a process that
// dies leaves nothing, or where the file system has no unnamed files a temporary that the next one removes.
//
// A temporary is in use while its maker holds a flock on it, which the kernel ends with the process: nobody's time-out
// decides that a slow maker is dead.
#pragma once

#include <string>

#include "files.hpp"
#include "fork.hpp"

namespace ddpcache {

class Replacement {
 public:
  enum class Making { unnamed_if_possible, named };

  Replacement() = default;
  Replacement(const Replacement &) = delete;
  Replacement &operator=(const Replacement &) = delete;
  ~Replacement();  // removes what was not published, but in no child of its maker

  // Makes the file in the directory of `path`, after removing what makers that died there have left. A symbolic link is
  // followed; DC_ERROR_ARGUMENT where the path leads to anything but a regular file or nothing.
  Status begin(const std::string &path, Making making = Making::unnamed_if_possible);

  int fd() const { return file_.get(); }
  // Where it will be, links resolved.
  const std::string &path() const { return path_; }

  // Gives the file its name, in place of another. The caller has synced it.
  Status publish();

 private:
  Status resolve(const std::string &path);
  Status make_named();
  // Links the unnamed file to a temporary name.
  Status link_temporary();
  void sweep() const;

  std::string path_;
  std::string name_;  // within the directory
  Descriptor directory_;
  Descriptor file_;
  std::string temporary_;  // its name now; empty while it has none
  bool published_ = false;
  const uint32_t process_ = fork_generation();
};

}  // namespace ddpcache
