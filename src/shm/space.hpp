// How much memory or disk a cache may take, and taking it before it is touched.
#pragma once

#include <cstdint>
#include <string>

#include "medium.hpp"
#include "status.hpp"

namespace ddpcache {

inline constexpr uint64_t kUnlimited = UINT64_MAX;

// What is free, in bytes, by each of those that can say no.
struct Space {
  FileSystem place;
  uint64_t file_system = kUnlimited;
  uint64_t cgroup = kUnlimited;   // of the tightest visible memory cgroup, v1 or v2; of caches in memory
  uint64_t machine = kUnlimited;  // MemAvailable; or what is free of the huge pages of this size

  // The least of them. Of memory a margin is left, so that the cache is not what wakes the OOM killer, and of a disk,
  // so that it is not what stops others.
  uint64_t available() const;
  std::string described() const;
  // How to get more.
  const char *remedy() const;
};

// What is free for this user where the file lies.
uint64_t file_system_room(int fd);

// The longest file that this process may make: beyond it the kernel would send a signal that ends the process.
uint64_t file_size_limit();

// `root` stands before /proc and /sys; tests give one of their own.
Space look_at_space(int fd, const std::string &root = "");

// The room left in the tightest memory cgroup that this process can see above itself: limit - usage + inactive file
// pages.
uint64_t cgroup_headroom(const std::string &root = "");

// Makes a range of a file safe to touch: fallocate(2) itself, since glibc's emulation would write to it unreserved.
// DC_FULL where the file system has no room, DC_ERROR_UNSUPPORTED where it cannot reserve.
Status reserve(int fd, uint64_t offset, uint64_t bytes);

// How many bytes of a file are reserved; 0 where that cannot be told.
uint64_t reserved_bytes(int fd);

// Gives a range back: nothing is reserved there any more, and it reads as zeros.
Status give_back(int fd, uint64_t offset, uint64_t bytes);

// "1.5 GiB", for messages.
std::string readable_bytes(uint64_t bytes);

}  // namespace ddpcache
