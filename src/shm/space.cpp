#include "space.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

namespace ddpcache {
namespace {

// The number in a file that holds one; kUnlimited for "max", for what version 1 says instead (the largest number of
// pages), or where the file is not there.
uint64_t number_in(const std::string &path) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value && value < uint64_t{1} << 60 ? value : kUnlimited;
}

// The number after `key` in a file of lines "key value".
uint64_t value_of(const std::string &path, const std::string &key) {
  std::ifstream file(path);
  std::string word;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    uint64_t value = 0;
    if (fields >> word >> value && word == key) return value;
  }
  return kUnlimited;
}

struct CgroupFiles {
  const char *limit;
  const char *usage;
  const char *inactive;  // in memory.stat
};
constexpr CgroupFiles kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr CgroupFiles kVersion2 = {"memory.max", "memory.current", "inactive_file"};

uint64_t headroom_of_group(const std::string &folder, const CgroupFiles &files) {
  const uint64_t limit = number_in(folder + "/" + files.limit);
  const uint64_t usage = number_in(folder + "/" + files.usage);
  if (limit == kUnlimited || usage == kUnlimited) return kUnlimited;
  const uint64_t inactive = value_of(folder + "/memory.stat", files.inactive);
  const uint64_t used = usage - std::min(usage, inactive == kUnlimited ? 0 : inactive);
  return limit - std::min(limit, used);
}

// The tightest group from `path` below the mount up to the mount itself. Inside a container the path may lie outside
// what is mounted; the mount is then the container's own group.
uint64_t headroom_up_from(const std::string &mount, std::string path, const CgroupFiles &files) {
  uint64_t least = headroom_of_group(mount, files);
  while (path.size() > 1) {
    least = std::min(least, headroom_of_group(mount + path, files));
    path.resize(path.rfind('/'));
  }
  return least;
}

struct CgroupMount {
  std::string path;
  bool version2;
};

std::vector<CgroupMount> memory_mounts(const std::string &root) {
  std::vector<CgroupMount> mounts;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string skipped, path, word, kind, source, options;
    fields >> skipped >> skipped >> skipped >> skipped >> path;
    while (fields >> word && word != "-") {
    }
    fields >> kind >> source >> options;
    const bool memory = ("," + options + ",").find(",memory,") != std::string::npos;
    if (kind == "cgroup2" || (kind == "cgroup" && memory)) mounts.push_back({root + path, kind == "cgroup2"});
  }
  return mounts;
}

// This process's path in the hierarchy: the line "0::PATH" (version 2) or "N:...memory...:PATH".
std::string own_group(const std::string &root, bool version2) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string controllers = ",";
    controllers.append(line, first + 1, second - first - 1).append(",");
    if (version2 ? controllers == ",," : controllers.find(",memory,") != std::string::npos)
      return line.substr(second + 1);
  }
  return "/";
}

}  // namespace

uint64_t cgroup_headroom(const std::string &root) {
  uint64_t least = kUnlimited;
  for (const CgroupMount &mount : memory_mounts(root)) {
    least = std::min(
        least, headroom_up_from(mount.path, own_group(root, mount.version2), mount.version2 ? kVersion2 : kVersion1));
  }
  return least;
}

Space look_at_space(int fd, const std::string &root) {
  Space space;
  struct statvfs properties;
  // A tmpfs mounted without a limit says that it has no blocks at all.
  if (fstatvfs(fd, &properties) == 0 && properties.f_blocks > 0)
    space.file_system = uint64_t{properties.f_bavail} * properties.f_frsize;
  space.cgroup = cgroup_headroom(root);
  const uint64_t kilobytes = value_of(root + "/proc/meminfo", "MemAvailable:");
  if (kilobytes != kUnlimited) space.machine = kilobytes * 1024;
  return space;
}

uint64_t Space::available() const {
  const uint64_t memory = std::min(cgroup, machine);
  if (memory == kUnlimited) return file_system;
  const uint64_t margin = std::min<uint64_t>(memory / 16, uint64_t{256} << 20);
  return std::min(file_system, memory - margin);
}

std::string Space::described() const {
  std::string text = "the file system has " + readable_bytes(file_system) + " free";
  if (cgroup != kUnlimited) text += ", the memory cgroup " + readable_bytes(cgroup);
  if (machine != kUnlimited) text += ", the machine " + readable_bytes(machine);
  return text;
}

Status reserve(int fd, uint64_t offset, uint64_t bytes) {
  while (fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    if (errno == EINTR) continue;
    if (errno == ENOSPC || errno == EDQUOT || errno == ENOMEM) return DC_FULL;
    return system_failure("fallocate", readable_bytes(bytes), errno);
  }
  return {};
}

std::string readable_bytes(uint64_t bytes) {
  constexpr std::array<const char *, 7> kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  char text[48];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.4g %s", value, kUnits[unit]);
  return text;
}

}  // namespace ddpcache
