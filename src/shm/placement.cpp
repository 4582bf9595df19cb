#include "placement.hpp"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <fstream>

namespace ddpcache {
namespace {

constexpr uint64_t kNodesMax = 1024;  // the most that Linux can be built for
using NodeMask = std::array<unsigned long, kNodesMax / (8 * sizeof(long))>;
// The kernel counts one bit more than it reads.
constexpr unsigned long kMaskBits = kNodesMax + 1;

uint64_t huge_page_bytes() {
  uint64_t bytes = 0;
  std::ifstream("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size") >> bytes;
  return bytes;
}

}  // namespace

void interleave(uint8_t *begin, uint64_t bytes) {
  NodeMask allowed = {};
  if (syscall(SYS_get_mempolicy, nullptr, allowed.data(), kMaskBits, nullptr, MPOL_F_MEMS_ALLOWED) != 0) return;
  static_cast<void>(syscall(SYS_mbind, begin, bytes, MPOL_INTERLEAVE, allowed.data(), kMaskBits, 0));
}

uint32_t interleaved_nodes(const uint8_t *at) {
  int mode = MPOL_DEFAULT;
  NodeMask nodes = {};
  if (syscall(SYS_get_mempolicy, &mode, nodes.data(), kMaskBits, at, MPOL_F_ADDR) != 0) return 1;
  if ((mode & ~MPOL_MODE_FLAGS) != MPOL_INTERLEAVE) return 1;
  int count = 0;
  for (const unsigned long word : nodes) count += std::popcount(word);
  return static_cast<uint32_t>(std::max(1, count));
}

void ask_huge_pages(uint8_t *begin, uint64_t bytes) { static_cast<void>(madvise(begin, bytes, MADV_HUGEPAGE)); }

uint64_t largest_page(const uint8_t *begin, uint64_t bytes) {
  std::ifstream smaps("/proc/self/smaps");
  const uint64_t first = reinterpret_cast<uint64_t>(begin);
  return largest_page_in(smaps, first, first + bytes, huge_page_bytes());
}

uint64_t largest_page_in(std::istream &smaps, uint64_t begin, uint64_t end, uint64_t huge_bytes) {
  uint64_t largest = 0;
  bool within = false;
  for (std::string line; std::getline(smaps, line);) {
    uint64_t from = 0, to = 0, kilobytes = 0;
    char field[32] = "";
    if (std::sscanf(line.c_str(), "%31[A-Za-z]: %lu kB", field, &kilobytes) == 2) {
      const std::string name = field;
      if (!within || kilobytes == 0) continue;
      if (name == "KernelPageSize") largest = std::max(largest, kilobytes << 10);
      if (name == "ShmemPmdMapped" || name == "FilePmdMapped") largest = std::max(largest, huge_bytes);
    } else if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) {
      within = from < end && to > begin;
    }
  }
  return largest;
}

}  // namespace ddpcache
