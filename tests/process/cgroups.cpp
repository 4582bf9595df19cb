// Memory cgroups smaller than the cache that is asked for: the kernel's, of the version that there is, and files that
// say what those of either version say.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "actors.hpp"
#include "mounts.hpp"

namespace ddpcache::test {
namespace {

constexpr uint64_t kMiB = 1 << 20;

bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }
bool begins(const std::string &text, int32_t status) { return text.rfind(std::to_string(status) + ' ', 0) == 0; }

class MemoryLimit : public ::testing::Test {
 protected:
  static constexpr uint64_t kLimit = 160 * kMiB;

  void SetUp() override {
    if (!group_.made()) GTEST_SKIP() << "no memory cgroup can be made here";
    ASSERT_TRUE(group_.add(actor_.pid()));
  }
  std::string open_cache_of(uint64_t bytes, bool partial) {
    const std::string wish = std::to_string(bytes) + " 0 16 " + (partial ? "1 0" : "0 0");
    return actor_.ask(std::string("open ") + name_.c_str() + " 4000 " + wish);
  }

  const CacheName name_;
  MemoryGroup group_{kLimit};
  Actor actor_;
};

TEST_F(MemoryLimit, BelowTheRequestIsAnErrorBeforeAnythingIsReserved) {
  const std::string refused = open_cache_of(1024 * kMiB, false);
  EXPECT_TRUE(begins(refused, DC_ERROR_NO_SPACE)) << refused;
  EXPECT_TRUE(has(refused, "needs 102") && has(refused, "the memory cgroup has")) << refused;
  EXPECT_LT(group_.peak_bytes(), kLimit / 2);
  EXPECT_FALSE(group_.ran_out());
  EXPECT_FALSE(name_.exists());
}

TEST_F(MemoryLimit, ShrinksAPartialCacheWhichIsFullBeforeTheGroupIs) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer's own memory, several times what the cache takes, is more than the limit";
#endif
  ASSERT_EQ(open_cache_of(1024 * kMiB, true), "0");
  int stored = 0;
  std::string status;
  while ((status = actor_.ask("put " + std::to_string(stored) + " 100000")) == "0") ++stored;
  EXPECT_EQ(status, std::to_string(DC_FULL)) << "its process was killed";
  EXPECT_GE(stored, 500);
  EXPECT_LT(static_cast<uint64_t>(stored) * 100'000, kLimit);
  for (int i = 0; i < stored; i += 7) EXPECT_EQ(actor_.ask("get " + std::to_string(i) + " 100000"), "1");
  EXPECT_FALSE(group_.ran_out());
  EXPECT_EQ(actor_.ask("close"), "0");
}

// A data set that was read before: the kernel gives its pages back as soon as somebody needs them.
TEST_F(MemoryLimit, DoesNotCountPageCacheAsUsed) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/data";
  const int fd = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  const std::vector<char> chunk(kMiB, 'x');
  for (int i = 0; i < 128; ++i) ASSERT_EQ(write(fd, chunk.data(), chunk.size()), static_cast<ssize_t>(chunk.size()));
  // From here on they are not in memory, and then charged to who reads them.
  ASSERT_EQ(fdatasync(fd), 0);
  ASSERT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
  close(fd);
  ASSERT_EQ(actor_.ask("read-file " + path), std::to_string(128 * kMiB));
  if (group_.peak_bytes() < 128 * kMiB) GTEST_SKIP() << "files of " << path << " are not charged to their readers";
  ASSERT_EQ(open_cache_of(80 * kMiB, false), "0");
  for (int i = 0; i < 700; ++i) ASSERT_EQ(actor_.ask("put " + std::to_string(i) + " 100000"), "0") << i;
  EXPECT_FALSE(group_.ran_out());
  EXPECT_EQ(actor_.ask("close"), "0");
}

class SaidLimit : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!may_unshare()) GTEST_SKIP() << "making namespaces and mounts is not permitted here";
  }
  void say(uint64_t limit, uint64_t usage, uint64_t inactive) {
    const std::string wish = directory_.path() + " " + std::to_string(GetParam()) + " " + std::to_string(limit) + " " +
                             std::to_string(usage) + " " + std::to_string(inactive);
    ASSERT_EQ(actor_.ask("fake-group " + wish), "0");
  }
  std::string open_cache_of(uint64_t bytes, bool partial) {
    const std::string wish = std::to_string(bytes) + " 0 16 " + (partial ? "1 0" : "0 0");
    return actor_.ask(std::string("open ") + name_.c_str() + " 4000 " + wish);
  }

  const CacheName name_;
  const TemporaryDirectory directory_;
  Actor actor_;
};

INSTANTIATE_TEST_SUITE_P(Version, SaidLimit, ::testing::Values(1, 2), ::testing::PrintToStringParamName());

TEST_P(SaidLimit, BelowTheRequestIsAnErrorWithWhatIsFreeThere) {
  ASSERT_NO_FATAL_FAILURE(say(160 * kMiB, 60 * kMiB, 0));
  const std::string refused = open_cache_of(1024 * kMiB, false);
  EXPECT_TRUE(begins(refused, DC_ERROR_NO_SPACE)) << refused;
  EXPECT_TRUE(has(refused, "the memory cgroup has 100 MiB free")) << refused;
  EXPECT_FALSE(name_.exists());
}

TEST_P(SaidLimit, ShrinksAPartialCache) {
  ASSERT_NO_FATAL_FAILURE(say(160 * kMiB, 60 * kMiB, 0));
  ASSERT_EQ(open_cache_of(1024 * kMiB, true), "0");
  const Handle cache = attach_cache(name_.c_str());
  EXPECT_LE(info_of(cache).file_bytes, 100 * kMiB);
  EXPECT_GE(info_of(cache).file_bytes, 80 * kMiB);
}

TEST_P(SaidLimit, DoesNotCountInactiveFilePagesAsUsed) {
  ASSERT_NO_FATAL_FAILURE(say(160 * kMiB, 150 * kMiB, 140 * kMiB));
  EXPECT_EQ(open_cache_of(80 * kMiB, false), "0");
}

}  // namespace
}  // namespace ddpcache::test
