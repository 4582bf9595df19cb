#include "mounts.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace ddpcache::test {
namespace {

constexpr const char *kPool = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

// FS_IOC_SHUTDOWN with "no log flush": the file system stops at once, as if the machine had.
constexpr unsigned long kShutdown = _IOR('X', 125, uint32_t);
constexpr uint32_t kWithoutLogFlush = 2;

bool succeeds(const std::string &command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

int number_in(const char *path) {
  int value = 0;
  std::ifstream(path) >> value;
  return value;
}

}  // namespace

TemporaryDirectory::TemporaryDirectory(const char *parent) {
  if (!parent) parent = std::getenv("TMPDIR");
  path_ = std::string(parent ? parent : "/tmp") + "/ddpcache-test-XXXXXX";
  if (!mkdtemp(path_.data())) path_.clear();
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

bool leave_mount_namespace() {
  return unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

bool Mount::mount(const char *kind, const std::string &options) {
  if (!leave_mount_namespace()) return false;
  mkdir(path_.c_str(), 0700);
  mounted_ = ::mount("none", path_.c_str(), kind, 0, options.c_str()) == 0;
  return mounted_;
}

bool Mount::format_and_mount(const char *kind, int megabytes, std::string *why) {
  const std::string mkfs = std::string("mkfs.") + kind;
  *why = mkfs + " or a loop device is missing, or mounting is not permitted";
  if (!leave_mount_namespace()) return false;
  mkdir(path_.c_str(), 0700);
  std::ofstream(image_).close();
  std::error_code failed;
  std::filesystem::resize_file(image_, static_cast<uintmax_t>(megabytes) << 20, failed);
  const std::string search_path = "PATH=\"$PATH:/usr/sbin:/sbin\" ";
  return !failed && succeeds(search_path + mkfs + " -q " + image_) && mount_image();
}

bool Mount::mount_image() {
  mounted_ = succeeds("PATH=\"$PATH:/usr/sbin:/sbin\" mount -o loop " + image_ + " " + path_);
  return mounted_;
}

bool Mount::cut_power_and_mount_again() {
  const int fd = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  uint32_t how = kWithoutLogFlush;
  const bool down = fd >= 0 && ioctl(fd, kShutdown, &how) == 0;
  ::close(fd);
  if (!down || umount(path_.c_str()) != 0) return false;
  mounted_ = false;
  return mount_image();
}

void Mount::unmount() {
  if (mounted_) umount2(path_.c_str(), MNT_DETACH);
  mounted_ = false;
}

HugePagePool::HugePagePool(int pages) {
  // Other runs of these tests do the same.
  lock_ = ::open(kPool, O_RDONLY | O_CLOEXEC);
  flock(lock_, LOCK_EX);
  before_ = number_in(kPool);
  std::ofstream(kPool) << before_ + pages;
  got_ = std::max(0, number_in(kPool) - before_);
}

HugePagePool::~HugePagePool() {
  std::ofstream(kPool) << before_;
  ::close(lock_);
}

MemoryGroup::MemoryGroup(uint64_t limit_bytes) {
  for (const bool version2 : {false, true}) {
    const std::string parent = version2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const std::string folder = parent + "/ddpcache-test-" + std::to_string(getpid());
    if (mkdir(folder.c_str(), 0755) != 0) continue;
    std::ofstream limit(folder + (version2 ? "/memory.max" : "/memory.limit_in_bytes"));
    if (limit << limit_bytes << std::flush) {
      folder_ = folder;
      version2_ = version2;
      return;
    }
    rmdir(folder.c_str());
  }
}

MemoryGroup::~MemoryGroup() {
  if (made()) rmdir(folder_.c_str());
}

bool MemoryGroup::add(int pid) {
  std::ofstream members(folder_ + "/cgroup.procs");
  return static_cast<bool>(members << pid << std::flush);
}

uint64_t MemoryGroup::peak_bytes() const {
  uint64_t bytes = 0;
  std::ifstream(folder_ + (version2_ ? "/memory.peak" : "/memory.max_usage_in_bytes")) >> bytes;
  return bytes;
}

bool MemoryGroup::ran_out() const {
  std::ifstream events(folder_ + (version2_ ? "/memory.events" : "/memory.oom_control"));
  std::string key;
  for (uint64_t count = 0; events >> key >> count;) {
    if (key == "oom_kill") return count > 0;
  }
  return false;
}

}  // namespace ddpcache::test
