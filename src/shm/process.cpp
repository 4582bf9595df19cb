#include "process.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

namespace ddpcache {
namespace {

struct ProcessStat {
  char state = 0;
  uint64_t start_time = 0;
};

enum class Lookup { found, absent, unknown };

Lookup read_stat(const std::string &pid, ProcessStat *result) {
  std::FILE *file = std::fopen(("/proc/" + pid + "/stat").c_str(), "re");
  if (!file) return errno == ENOENT || errno == ESRCH ? Lookup::absent : Lookup::unknown;
  char text[1024];
  const size_t length = std::fread(text, 1, sizeof text - 1, file);
  const bool vanished = length == 0 && std::ferror(file) && errno == ESRCH;
  std::fclose(file);
  if (vanished) return Lookup::absent;
  text[length] = '\0';
  // The command name may hold anything, so fields are counted from the last parenthesis.
  const char *rest = std::strrchr(text, ')');
  unsigned long long start = 0;
  if (!rest || std::sscanf(rest + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                           &result->state, &start) != 2) {
    return Lookup::unknown;
  }
  result->start_time = start;
  return Lookup::found;
}

// /proc may be mounted for another PID namespace, where our numbers mean other processes.
bool proc_is_ours() {
  char target[32];
  const ssize_t length = readlink("/proc/self", target, sizeof target - 1);
  if (length <= 0) return false;
  target[length] = '\0';
  return std::atoi(target) == getpid();
}

uint64_t own_namespace(const char *kind) {
  struct stat properties;
  return stat((std::string("/proc/self/ns/") + kind).c_str(), &properties) == 0 ? properties.st_ino : 0;
}

// /proc may hide another process of the same user (hidepid): the kernel itself is asked too, where it can be.
bool kernel_knows(int32_t pid) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd >= 0) close(fd);
  return fd >= 0 || (errno != ESRCH && errno != ENOSYS);
}

// A zombie leader may have threads that still run.
bool has_other_task(const std::string &pid) {
  DIR *tasks = opendir(("/proc/" + pid + "/task").c_str());
  if (!tasks) return errno != ENOENT && errno != ESRCH;  // what cannot be seen may be there
  bool other = false;
  while (const dirent *task = readdir(tasks)) other |= task->d_name[0] != '.' && pid != task->d_name;
  closedir(tasks);
  return other;
}

}  // namespace

ProcessIdentity this_process() {
  ProcessIdentity identity;
  identity.pid = getpid();
  ProcessStat stat;
  if (proc_is_ours() && read_stat("self", &stat) == Lookup::found) {
    identity.start_time = stat.start_time;
    identity.pid_namespace = own_namespace("pid");
    identity.time_namespace = own_namespace("time");
  }
  return identity;
}

bool death_proved(const ProcessIdentity &process) {
  if (process.pid_namespace == 0 || process.pid_namespace != own_namespace("pid") ||
      process.time_namespace != own_namespace("time") || !proc_is_ours()) {
    return false;
  }
  const std::string pid = std::to_string(process.pid);
  ProcessStat stat;
  switch (read_stat(pid, &stat)) {
    case Lookup::absent: return !kernel_knows(process.pid);
    case Lookup::unknown: return false;
    case Lookup::found: break;
  }
  if (stat.start_time != process.start_time) return true;
  return (stat.state == 'Z' || stat.state == 'X') && !has_other_task(pid);
}

bool life_proved(const ProcessIdentity &process) {
  ProcessStat stat;
  return process.pid_namespace != 0 && process.pid_namespace == own_namespace("pid") &&
         process.time_namespace == own_namespace("time") && proc_is_ours() &&
         read_stat(std::to_string(process.pid), &stat) == Lookup::found && stat.start_time == process.start_time &&
         stat.state != 'Z' && stat.state != 'X';
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace ddpcache
