// File systems of a test's own: mounted in a mount namespace that the test's process, and the actors that it starts
// afterwards, have to themselves, so that nothing is left behind however the test ends.
#pragma once

#include <cstdint>
#include <string>

namespace ddpcache::test {

// A directory under `parent`, or else $TMPDIR or /tmp, removed with all that is in it.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(const char *parent = nullptr);
  TemporaryDirectory(const TemporaryDirectory &) = delete;
  TemporaryDirectory &operator=(const TemporaryDirectory &) = delete;
  ~TemporaryDirectory();
  const std::string &path() const { return path_; }

 private:
  std::string path_;
};

class Mount {
 public:
  Mount() = default;
  Mount(const Mount &) = delete;
  Mount &operator=(const Mount &) = delete;
  ~Mount() { unmount(); }

  // A file system that needs no device. False where it cannot be mounted.
  bool mount(const char *kind, const std::string &options);
  // A file system on a loop device over a new file of this size. `why` says what is missing.
  bool format_and_mount(const char *kind, int megabytes, std::string *why);

  const std::string &path() const { return path_; }

  // For file systems on a device. A power cut: what has not reached the device is lost, and the file system that is
  // mounted again is what recovery makes of the rest. Nobody may have a file open there.
  bool cut_power_and_mount_again();

 private:
  bool mount_image();
  void unmount();

  const TemporaryDirectory directory_;
  const std::string path_ = directory_.path() + "/mount";
  const std::string image_ = directory_.path() + "/image";
  bool mounted_ = false;
};

// Huge pages of 2 MiB, set aside for as long as this lives, beside those that the machine had.
class HugePagePool {
 public:
  explicit HugePagePool(int pages);
  HugePagePool(const HugePagePool &) = delete;
  HugePagePool &operator=(const HugePagePool &) = delete;
  ~HugePagePool();
  // How many of them are there.
  int pages() const { return got_; }

 private:
  int before_ = 0;
  int got_ = 0;
  int lock_ = -1;
};

// A memory cgroup of a test's own, of version 1 or 2, with a limit. It must be empty when it goes.
class MemoryGroup {
 public:
  explicit MemoryGroup(uint64_t limit_bytes);
  MemoryGroup(const MemoryGroup &) = delete;
  MemoryGroup &operator=(const MemoryGroup &) = delete;
  ~MemoryGroup();

  // False where no such group can be made here.
  bool made() const { return !folder_.empty(); }
  bool add(int pid);
  // The most that its processes have had at one time, page cache included, and whether one of them was killed for it.
  uint64_t peak_bytes() const;
  bool ran_out() const;

 private:
  std::string folder_;
  bool version2_ = false;
};

// Moves this process to a mount namespace of its own. False where it may not.
bool leave_mount_namespace();

}  // namespace ddpcache::test
