// What of a mapping this process has page-table entries for.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ddpcache::test {

// How many of the small pages that hold these bytes are mapped; not touched by being asked for.
inline uint64_t mapped_pages(const uint8_t *begin, uint64_t bytes) {
  constexpr uint64_t kPage = 4096, kPresent = uint64_t{1} << 63;
  const uint64_t first = reinterpret_cast<uint64_t>(begin) / kPage;
  const uint64_t after = (reinterpret_cast<uint64_t>(begin) + bytes + kPage - 1) / kPage;
  std::vector<uint64_t> entries(after - first);
  const int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  const ssize_t length = pread(fd, entries.data(), entries.size() * 8, static_cast<off_t>(first * 8));
  close(fd);
  EXPECT_EQ(length, static_cast<ssize_t>(entries.size() * 8)) << "/proc/self/pagemap";
  return static_cast<uint64_t>(
      std::count_if(entries.begin(), entries.end(), [](uint64_t entry) { return (entry & kPresent) != 0; }));
}

}  // namespace ddpcache::test
