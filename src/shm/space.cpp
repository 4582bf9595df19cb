#include "space.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
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

// Pages of this size that are neither in use nor promised to a mapping, and those that the kernel may still add.
uint64_t free_huge_pages(uint64_t page_bytes, const std::string &root) {
  const std::string folder = root + "/sys/kernel/mm/hugepages/hugepages-" + std::to_string(page_bytes / 1024) + "kB/";
  const auto pages = [&folder](const char *name) {
    const uint64_t count = number_in(folder + name);
    return count == kUnlimited ? 0 : count;
  };
  const uint64_t free = pages("free_hugepages"), promised = pages("resv_hugepages");
  const uint64_t more = pages("nr_overcommit_hugepages"), added = pages("surplus_hugepages");
  return (free - std::min(free, promised) + more - std::min(more, added)) * page_bytes;
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

uint64_t file_system_room(int fd) {
  struct statvfs properties;
  // A tmpfs or hugetlbfs mounted without a limit says that it has no blocks at all.
  if (fstatvfs(fd, &properties) != 0 || properties.f_blocks == 0) return kUnlimited;
  return uint64_t{properties.f_bavail} * properties.f_frsize;
}

uint64_t file_size_limit() {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 ? limit.rlim_cur : kUnlimited;
}

Space look_at_space(int fd, const std::string &root) {
  Space space;
  // Of a file that is open already, so that it was looked at before.
  static_cast<void>(look_at_file_system(fd, "", &space.place));
  space.file_system = file_system_room(fd);
  switch (space.place.medium) {
    case Medium::disk: break;
    case Medium::huge_pages: space.machine = free_huge_pages(space.place.page_bytes, root); break;
    case Medium::memory: {
      space.cgroup = cgroup_headroom(root);
      const uint64_t kilobytes = value_of(root + "/proc/meminfo", "MemAvailable:");
      if (kilobytes != kUnlimited) space.machine = kilobytes * 1024;
    }
  }
  return space;
}

uint64_t Space::available() const {
  const auto less_margin = [](uint64_t bytes) { return bytes - std::min<uint64_t>(bytes / 16, uint64_t{256} << 20); };
  switch (place.medium) {
    case Medium::disk: return less_margin(file_system);
    case Medium::huge_pages: return std::min(file_system, machine);
    case Medium::memory: break;
  }
  const uint64_t memory = std::min(cgroup, machine);
  return memory == kUnlimited ? file_system : std::min(file_system, less_margin(memory));
}

std::string Space::described() const {
  const bool huge = place.medium == Medium::huge_pages;
  const std::string pool = huge ? "the pool of huge pages of " + readable_bytes(place.page_bytes) : "the machine";
  std::string text;
  const auto add = [&text](const std::string &what, uint64_t bytes) {
    if (bytes == kUnlimited) return;
    text += (text.empty() ? "" : ", ") + what + " has " + readable_bytes(bytes) + " free";
  };
  add("the file system", file_system);
  add("the memory cgroup", cgroup);
  add(pool, machine);
  return text;
}

const char *Space::remedy() const {
  switch (place.medium) {
    case Medium::disk: return "make room on the disk";
    case Medium::huge_pages: return "have more huge pages set aside (sysctl vm.nr_hugepages; the size= of the mount)";
    case Medium::memory: break;
  }
  return "enlarge the space (docker run --shm-size, Kubernetes emptyDir with medium Memory, mount -o remount,size=... "
         "/dev/shm)";
}

Status reserve(int fd, uint64_t offset, uint64_t bytes) {
  while (fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    if (errno == EINTR) continue;
    if (errno == ENOSPC || errno == EDQUOT || errno == ENOMEM) return DC_FULL;
    if (errno == EOPNOTSUPP) {
      return failure(DC_ERROR_UNSUPPORTED, "the file system cannot reserve space (fallocate), as ext2 and ext3 cannot");
    }
    return system_failure("fallocate", readable_bytes(bytes), errno);
  }
  return {};
}

uint64_t reserved_bytes(int fd) {
  struct stat properties;
  return fd >= 0 && fstat(fd, &properties) == 0 ? static_cast<uint64_t>(properties.st_blocks) * 512 : 0;
}

Status give_back(int fd, uint64_t offset, uint64_t bytes) {
  constexpr int kHow = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  while (fallocate(fd, kHow, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return system_failure("fallocate(FALLOC_FL_PUNCH_HOLE)", readable_bytes(bytes), errno);
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
