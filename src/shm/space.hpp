// How much memory a cache may take, and taking it before it is touched.
#pragma once

#include <cstdint>
#include <string>

#include "status.hpp"

namespace ddpcache {

inline constexpr uint64_t kUnlimited = UINT64_MAX;

// What is free, in bytes, by each of the three that can say no.
struct Space {
  uint64_t file_system = kUnlimited;
  uint64_t cgroup = kUnlimited;   // of the tightest visible memory cgroup, v1 or v2
  uint64_t machine = kUnlimited;  // MemAvailable

  // The least of them; of memory a margin is left, so that the cache is not what wakes the OOM killer.
  uint64_t available() const;
  std::string described() const;
};

// `root` stands before /proc and /sys; tests give one of their own.
Space look_at_space(int fd, const std::string &root = "");

// The room left in the tightest memory cgroup that this process can see above itself: limit - usage + inactive file
// pages.
uint64_t cgroup_headroom(const std::string &root = "");

// Makes a range of a file safe to touch: fallocate(2) itself, since glibc's emulation would write to it unreserved.
// DC_FULL where the file system has no room.
Status reserve(int fd, uint64_t offset, uint64_t bytes);

// "1.5 GiB", for messages.
std::string readable_bytes(uint64_t bytes);

}  // namespace ddpcache
