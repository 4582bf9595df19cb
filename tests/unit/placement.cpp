// NUMA nodes and page sizes: what is asked for is what the kernel then says.
#include "placement.hpp"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>

#include "../support/caches.hpp"

namespace ddpcache::test {
namespace {

constexpr const char *kSmaps =
    "7f0000000000-7f0000400000 r--s 00000000 00:1a 5 /dev/shm/x\n"
    "Size:               4096 kB\nKernelPageSize:        4 kB\nMMUPageSize:           4 kB\n"
    "AnonHugePages:      2048 kB\nShmemPmdMapped:        0 kB\nFilePmdMapped:         0 kB\n"
    "VmFlags: rd sh mr mw me ms sd\n"
    "7f0000400000-7f0000800000 rw-s 00400000 00:1a 5 /dev/shm/Name: 9 kB\n"
    "KernelPageSize:        4 kB\nShmemPmdMapped:     2048 kB\n"
    "7f0000800000-7f0000c00000 rw-s 00000000 00:1b 6 /huge/y\n"
    "KernelPageSize:     2048 kB\nShmemPmdMapped:        0 kB\n";

uint64_t largest(uint64_t begin, uint64_t end) {
  std::istringstream smaps(kSmaps);
  return largest_page_in(smaps, begin, end, 32 << 20);
}

TEST(Placement, ReadsTheLargestPageOfARangeOutOfSmaps) {
  EXPECT_EQ(largest(0x7f0000000000, 0x7f0000400000), 4096u);
  EXPECT_EQ(largest(0x7f0000100000, 0x7f0000101000), 4096u);
  EXPECT_EQ(largest(0x7f0000000000, 0x7f0000400001), 32u << 20) << "a page of the second mapping, huge as sysfs says";
  EXPECT_EQ(largest(0x7f0000800000, 0x7f0000c00000), 2u << 20);
  EXPECT_EQ(largest(0x1000, 0x2000), 0u);
  EXPECT_EQ(largest(0x7f0000c00000, 0x7f0000d00000), 0u);
}

TEST(Placement, OfOrdinaryMemoryIsSmallPagesOnNoNodeInParticular) {
  const uint64_t bytes = 1 << 20;
  uint8_t *memory =
      static_cast<uint8_t *>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_EQ(interleaved_nodes(memory), 1u);
  memory[0] = 1;
  EXPECT_GE(largest_page(memory, bytes), 4096u);
  munmap(memory, bytes);
}

// The policy that a kernel keeps for the memory at an address; -1 where it knows none.
int policy_at(const void *address) {
  int mode = -1;
  return syscall(SYS_get_mempolicy, &mode, nullptr, 0, address, MPOL_F_ADDR) == 0 ? mode : -1;
}

int allowed_nodes() {
  unsigned long nodes[16] = {};
  if (syscall(SYS_get_mempolicy, nullptr, nodes, 1025, nullptr, MPOL_F_MEMS_ALLOWED) != 0) return -1;
  int count = 0;
  for (const unsigned long word : nodes) count += __builtin_popcountl(word);
  return count;
}

TEST(Placement, OfAnInterleavedCacheIsKeptWithItsFileForEveryProcess) {
  const int nodes = allowed_nodes();
  if (nodes < 0) GTEST_SKIP() << "this kernel, or a filter of system calls, has no get_mempolicy";
  for (const uint32_t interleave : {0u, 1u}) {
    const CacheName name;
    dc_cache_options options = options_for(10, 8 << 20);
    options.interleave = interleave;
    const Handle cache = open_cache(name, options);
    EXPECT_EQ(put(cache, 1, 100), DC_OK);
    dc_cache *looking = nullptr;
    ASSERT_EQ(dc_cache_attach_read_only(name.c_str(), nullptr, kSecond, &looking, nullptr), DC_OK);
    const Handle own(looking);
    for (dc_cache *one : {static_cast<dc_cache *>(cache), looking}) {
      dc_view view;
      ASSERT_EQ(dc_cache_view(one, 1, &view), DC_OK);
      EXPECT_EQ(policy_at(view.data) == MPOL_INTERLEAVE, interleave == 1) << "policy " << policy_at(view.data);
      dc_cache_view_release(&view);
      EXPECT_EQ(info_of(one).numa_nodes, interleave ? static_cast<uint32_t>(nodes) : 1u);
    }
  }
}

TEST(Placement, OfACacheThatDoesNotAskIsThatOfItsFileSystem) {
  const CacheName name;
  const Handle cache = open_cache(name, options_for(10, 8 << 20));
  EXPECT_EQ(info_of(cache).page_bytes, 4096u);
}

TEST(Placement, AskedForInVainIsNoError) {
  const CacheName name;
  dc_cache_options options = options_for(10, 16 << 20);
  options.huge_pages = 1;
  options.interleave = 1;
  const Handle cache = open_cache(name, options);
  EXPECT_EQ(put(cache, 1, 10'000), DC_OK);
  EXPECT_TRUE(holds(cache, 1, 10'000));
  EXPECT_GE(info_of(cache).page_bytes, 4096u);
  const Handle second = open_cache(name, options_for(10, 16 << 20));
  EXPECT_TRUE(holds(second, 1, 10'000)) << "neither is a part of the identity";
}

}  // namespace
}  // namespace ddpcache::test
