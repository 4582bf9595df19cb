// Mapping pages in advance: which of them are then mapped.
#include "pages.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "../support/mapped_pages.hpp"

namespace ddpcache::test {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kPages = 1200;

// A file of kPages pages, written, and mapped read only by nobody yet.
class Pages : public ::testing::TestWithParam<const char *> {
 protected:
  void SetUp() override {
    fd_ = open(GetParam(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    ASSERT_GE(fd_, 0) << GetParam();
    const std::vector<char> ones(kPages * kPage, 1);
    ASSERT_EQ(write(fd_, ones.data(), ones.size()), static_cast<ssize_t>(ones.size()));
    ASSERT_EQ(fsync(fd_), 0);
    void *memory = mmap(nullptr, kPages * kPage, PROT_READ, MAP_SHARED, fd_, 0);
    ASSERT_NE(memory, MAP_FAILED);
    memory_ = static_cast<const uint8_t *>(memory);
  }
  void TearDown() override {
    munmap(const_cast<uint8_t *>(memory_), kPages * kPage);
    close(fd_);
  }

  int fd_ = -1;
  const uint8_t *memory_ = nullptr;
};

TEST_P(Pages, AllOfARangeAreMapped) {
  EXPECT_EQ(mapped_pages(memory_, kPages * kPage), 0u);
  map_pages(memory_ + 16 * kPage, 900 * kPage, false);
  EXPECT_EQ(mapped_pages(memory_ + 16 * kPage, 900 * kPage), 900u);
  map_pages(memory_, kPages * kPage, true);
  EXPECT_EQ(mapped_pages(memory_, kPages * kPage), kPages);
}

// As a kernel answers that does not know MADV_POPULATE_READ: it takes no address between pages either.
TEST_P(Pages, AreTouchedWhereTheKernelCannotMapThem) {
  map_pages(memory_ + 1, kPages * kPage - kPage, false);
  EXPECT_GE(mapped_pages(memory_, kPages * kPage), kPages - 1);
}

TEST_P(Pages, ThatAreNotInMemoryAreLeftWhereTheyAre) {
  ASSERT_EQ(posix_fadvise(fd_, 100 * kPage, 600 * kPage, POSIX_FADV_DONTNEED), 0);
  std::vector<unsigned char> resident(kPages);
  ASSERT_EQ(mincore(const_cast<uint8_t *>(memory_), kPages * kPage, resident.data()), 0);
  const auto in_memory = std::count_if(resident.begin(), resident.end(), [](unsigned char p) { return p & 1; });
  map_pages(memory_, kPages * kPage, true);
  std::vector<unsigned char> after(kPages);
  ASSERT_EQ(mincore(const_cast<uint8_t *>(memory_), kPages * kPage, after.data()), 0);
  EXPECT_EQ(after, resident);
  EXPECT_EQ(mapped_pages(memory_, kPages * kPage), static_cast<uint64_t>(in_memory));
}

TEST_P(Pages, BeyondTheEndOfAFileAreLeftOut) {
  ASSERT_EQ(ftruncate(fd_, 10 * kPage), 0);
  map_pages(memory_, kPages * kPage, true);
  map_pages(memory_, kPages * kPage, false);
  EXPECT_EQ(mapped_pages(memory_, kPages * kPage), 10u);
}

INSTANTIATE_TEST_SUITE_P(OnMemoryAndOnDisk, Pages, ::testing::Values("/dev/shm", "."),
                         [](const auto &test) { return test.index == 0 ? "Memory" : "Disk"; });

}  // namespace
}  // namespace ddpcache::test
