// What attaching to a large cache costs a new process. The cache lies in a tmpfs of this process's own mount namespace,
// so that it needs neither a large /dev/shm nor leaves anything behind.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>

#include "support.hpp"

namespace bench {
namespace {

constexpr uint64_t kSampleBytes = 150'000;
constexpr int64_t kLength = (uint64_t{16} << 30) / kSampleBytes;

void write_file(const char *path, const std::string &text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    stop("%s: %s", path, std::strerror(errno));
  }
  close(fd);
}

// Root may have a mount namespace at once, others only inside a user namespace.
void enter_mount_namespace() {
  if (unshare(CLONE_NEWNS) == 0) return;
  const uid_t user = getuid();
  const gid_t group = getgid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) stop("a private mount namespace: %s", std::strerror(errno));
  write_file("/proc/self/setgroups", "deny");
  write_file("/proc/self/uid_map", "0 " + std::to_string(user) + " 1");
  write_file("/proc/self/gid_map", "0 " + std::to_string(group) + " 1");
}

// A directory on a new tmpfs that ends with this process and its children.
std::string private_tmpfs() {
  enter_mount_namespace();
  std::string directory = "/tmp/ddpcache-bench-XXXXXX";
  if (!mkdtemp(directory.data())) stop("mkdtemp: %s", std::strerror(errno));
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("ddpcache-bench", directory.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "size=20g,mode=0700") != 0) {
    stop("mount of a tmpfs: %s", std::strerror(errno));
  }
  return directory;
}

uint64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  uint64_t kilobytes = 0;
  while (file >> word) {
    if (word == "MemAvailable:" && file >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

double attach_in_new_process(const Cache &cache, const std::string &directory) {
  const std::string command =
      "exec /proc/" + std::to_string(getpid()) + "/exe attach-once " + cache.name() + " " + directory;
  FILE *output = popen(command.c_str(), "r");
  double milliseconds = 0;
  if (!output || std::fscanf(output, "%lf", &milliseconds) != 1 || pclose(output) != 0) stop("attach-once failed");
  return milliseconds;
}

double cpu_milliseconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

}  // namespace

void attach_once(const char *name, const char *directory) {
  dc_cache *cache = nullptr;
  dc_error error = {};
  const double begin = cpu_milliseconds();
  const int32_t status = dc_cache_attach(name, directory, 1'000'000'000, &cache, &error);
  const double spent = cpu_milliseconds() - begin;
  require(status, "dc_cache_attach", error);
  std::printf("%.6f\n", spent);
  require(dc_cache_close(cache), "dc_cache_close");
}

void attach() {
  const std::string directory = private_tmpfs();
  {
    Cache cache(options_for(kLength, kSampleBytes), directory.c_str());
    // As full as memory allows: what is reserved but never touched costs an attaching process no less.
    constexpr uint64_t kLeftFree = uint64_t{4} << 30;
    int64_t filled = 0;
    for (; filled < kLength && (filled % 1024 != 0 || available_bytes() > kLeftFree); ++filled) {
      cache.fill(filled, kSampleBytes, [](uint8_t *data) { std::memset(data, 1, kSampleBytes); });
    }
    measure("attach, 16 GiB", "ms of CPU", {{"ddpcache", [&] { return attach_in_new_process(cache, directory); }}},
            {{"bytes filled", std::to_string(static_cast<uint64_t>(filled) * kSampleBytes)},
             {"entries", std::to_string(kLength)}});
  }
  umount(directory.c_str());
  rmdir(directory.c_str());
}

}  // namespace bench
