// How much memory is free, as container limits of both versions say it.
#include "space.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "files.hpp"

namespace ddpcache {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kMiB = 1 << 20;

// A directory that stands before /proc and /sys.
class FakeRoot : public ::testing::Test {
 protected:
  FakeRoot() {
    char path[] = "/tmp/ddpcache-root-XXXXXX";
    root_ = mkdtemp(path);
  }
  ~FakeRoot() override { fs::remove_all(root_); }

  void write(const std::string &path, const std::string &text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void mount_version2() {
    write("/proc/self/mountinfo",
          "22 1 0:20 / /proc rw - proc proc rw\n29 22 0:25 / /cg rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
  }
  void mount_version1() {
    write("/proc/self/mountinfo",
          "30 22 0:26 / /cg/cpu rw - cgroup cgroup rw,cpu\n31 22 0:27 / /cg/memory rw - cgroup cgroup rw,memory\n");
  }
  void group2(const std::string &path, const std::string &limit, uint64_t usage, uint64_t inactive = 0) {
    write("/cg" + path + "/memory.max", limit + "\n");
    write("/cg" + path + "/memory.current", std::to_string(usage) + "\n");
    write("/cg" + path + "/memory.stat", "anon 5\nfile 77\ninactive_file " + std::to_string(inactive) + "\n");
  }
  void group1(const std::string &path, uint64_t limit, uint64_t usage, uint64_t inactive = 0) {
    write("/cg/memory" + path + "/memory.limit_in_bytes", std::to_string(limit) + "\n");
    write("/cg/memory" + path + "/memory.usage_in_bytes", std::to_string(usage) + "\n");
    write("/cg/memory" + path + "/memory.stat",
          "inactive_file 1\ntotal_inactive_file " + std::to_string(inactive) + "\n");
  }

  std::string root_;
};

TEST_F(FakeRoot, WithoutAnyFileLimitsNothing) { EXPECT_EQ(cgroup_headroom(root_), kUnlimited); }

TEST_F(FakeRoot, OfVersion2LeavesLimitMinusUsage) {
  mount_version2();
  write("/proc/self/cgroup", "0::/job\n");
  group2("/job", std::to_string(100 * kMiB), 30 * kMiB);
  EXPECT_EQ(cgroup_headroom(root_), 70 * kMiB);
}

TEST_F(FakeRoot, OfVersion2DoesNotCountInactiveFilePages) {
  mount_version2();
  write("/proc/self/cgroup", "0::/job\n");
  group2("/job", std::to_string(100 * kMiB), 90 * kMiB, 60 * kMiB);
  EXPECT_EQ(cgroup_headroom(root_), 70 * kMiB);
}

TEST_F(FakeRoot, OfVersion2TakesTheTightestOfNestedLimits) {
  mount_version2();
  write("/proc/self/cgroup", "0::/pod/job\n");
  group2("/pod/job", std::to_string(100 * kMiB), 10 * kMiB);
  group2("/pod", std::to_string(80 * kMiB), 60 * kMiB);
  EXPECT_EQ(cgroup_headroom(root_), 20 * kMiB);
  group2("/pod", "max", 60 * kMiB);
  EXPECT_EQ(cgroup_headroom(root_), 90 * kMiB);
}

TEST_F(FakeRoot, OfVersion2WithoutALimitLimitsNothing) {
  mount_version2();
  write("/proc/self/cgroup", "0::/job\n");
  group2("/job", "max", 30 * kMiB);
  EXPECT_EQ(cgroup_headroom(root_), kUnlimited);
}

TEST_F(FakeRoot, OfAContainerIsTheMountItselfWhereThePathLiesOutside) {
  mount_version2();
  write("/proc/self/cgroup", "0::/system.slice/docker-abc.scope\n");
  group2("", std::to_string(64 * kMiB), 4 * kMiB);
  EXPECT_EQ(cgroup_headroom(root_), 60 * kMiB);
}

TEST_F(FakeRoot, UsedBeyondItsLimitLeavesNothing) {
  mount_version2();
  write("/proc/self/cgroup", "0::/job\n");
  group2("/job", std::to_string(100 * kMiB), 130 * kMiB, 10 * kMiB);
  EXPECT_EQ(cgroup_headroom(root_), 0u);
  group2("/job", std::to_string(100 * kMiB), 10 * kMiB, 30 * kMiB);
  EXPECT_EQ(cgroup_headroom(root_), 100 * kMiB) << "more inactive than used is nothing used";
}

TEST_F(FakeRoot, OfVersion1LeavesLimitMinusUsageWithTheWholeTreesFilePages) {
  mount_version1();
  write("/proc/self/cgroup", "5:cpu:/elsewhere\n4:memory:/pod/job\n0::/\n");
  group1("/pod/job", 100 * kMiB, 50 * kMiB, 20 * kMiB);
  EXPECT_EQ(cgroup_headroom(root_), 70 * kMiB);
  group1("/pod", 60 * kMiB, 50 * kMiB);
  EXPECT_EQ(cgroup_headroom(root_), 10 * kMiB);
}

TEST_F(FakeRoot, OfVersion1SaysUnlimitedByAHugeNumber) {
  mount_version1();
  write("/proc/self/cgroup", "4:memory:/job\n");
  group1("/job", 9223372036854771712u, 50 * kMiB);
  EXPECT_EQ(cgroup_headroom(root_), kUnlimited);
}

TEST_F(FakeRoot, WithBothVersionsTakesTheTighter) {
  write("/proc/self/mountinfo",
        "31 22 0:27 / /cg/memory rw - cgroup cgroup rw,memory\n29 22 0:25 / /cg rw - cgroup2 cgroup2 rw\n");
  write("/proc/self/cgroup", "4:memory:/job\n0::/job\n");
  group1("/job", 100 * kMiB, 50 * kMiB);
  group2("/job", std::to_string(40 * kMiB), 10 * kMiB);
  EXPECT_EQ(cgroup_headroom(root_), 30 * kMiB);
}

TEST_F(FakeRoot, OfGarbageIsReadWithoutHarm) {
  write("/proc/self/mountinfo", "\n - \n1 2 3\n29 22 0:25 / /cg rw - cgroup2\n");
  write("/proc/self/cgroup", ":::\nnonsense\n0:\n");
  write("/cg/memory.max", "-1 -2 x\n");
  EXPECT_EQ(cgroup_headroom(root_), kUnlimited);
  write("/proc/self/cgroup", "0::\n");
  EXPECT_EQ(cgroup_headroom(root_), kUnlimited);
}

TEST_F(FakeRoot, GivesTheMachinesAvailableMemory) {
  write("/proc/meminfo", "MemTotal: 8000 kB\nMemFree: 1000 kB\nMemAvailable:    2048 kB\n");
  EXPECT_EQ(look_at_space(-1, root_).machine, 2 * kMiB);
}

TEST(Space, LeavesAMarginOfMemoryButNotOfTheFileSystem) {
  Space space;
  space.file_system = 100 * kMiB;
  EXPECT_EQ(space.available(), 100 * kMiB);
  space.machine = 160 * kMiB;
  EXPECT_EQ(space.available(), 100 * kMiB);
  space.cgroup = 80 * kMiB;
  EXPECT_EQ(space.available(), 75 * kMiB);
  space.cgroup = uint64_t{1} << 40;
  space.machine = uint64_t{1} << 41;
  space.file_system = kUnlimited;
  EXPECT_EQ(space.available(), (uint64_t{1} << 40) - 256 * kMiB);
}

TEST(Space, IsReservedByTheKernelOrRefused) {
  const int fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  EXPECT_TRUE(reserve(fd, 0, kMiB).ok());
  EXPECT_TRUE(reserve(fd, 0, kMiB).ok()) << "a repetition changes nothing";
  struct stat properties;
  ASSERT_EQ(fstat(fd, &properties), 0);
  EXPECT_EQ(properties.st_blocks * 512, static_cast<blkcnt_t>(kMiB));
  EXPECT_EQ(reserve(fd, 0, uint64_t{1} << 50).code(), DC_FULL);
  close(fd);
  EXPECT_EQ(reserve(-1, 0, kMiB).code(), DC_ERROR_SYSTEM);
}

TEST(Bytes, AreReadable) {
  EXPECT_EQ(readable_bytes(0), "0 bytes");
  EXPECT_EQ(readable_bytes(1023), "1023 bytes");
  EXPECT_EQ(readable_bytes(1536), "1.5 KiB");
  EXPECT_EQ(readable_bytes(uint64_t{3} << 30), "3 GiB");
  EXPECT_EQ(readable_bytes(UINT64_MAX), "16 EiB");
}

}  // namespace
}  // namespace ddpcache
