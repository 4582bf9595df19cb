// Caches on a local disk: a file system of the test's own on a loop device, small enough to be filled.
#include <gtest/gtest.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>

#include "actors.hpp"
#include "medium.hpp"
#include "mounts.hpp"

namespace ddpcache::test {
namespace {

constexpr uint64_t kMiB = 1 << 20;

bool begins(const std::string &text, int32_t status) { return text.rfind(std::to_string(status) + ' ', 0) == 0; }
bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

class Disk : public ::testing::TestWithParam<const char *> {
 protected:
  void SetUp() override {
    std::string why;
    if (!mount_.format_and_mount(GetParam(), kMegabytes, &why)) GTEST_SKIP() << why;
    name_.emplace(mount_.path().c_str());
  }
  void TearDown() override { name_.reset(); }

  std::string open_as(const std::string &wish) const { return std::string("open ") + name_->c_str() + " " + wish; }
  uint64_t free_bytes() const {
    struct statfs properties = {};
    EXPECT_EQ(statfs(mount_.path().c_str(), &properties), 0);
    return properties.f_bavail * static_cast<uint64_t>(properties.f_bsize);
  }

  static constexpr int kMegabytes = 320;  // the least that an xfs takes
  Mount mount_;
  std::optional<CacheName> name_;
};

INSTANTIATE_TEST_SUITE_P(Of, Disk, ::testing::Values("ext4", "xfs"),
                         [](const auto &information) { return std::string(information.param); });

TEST_P(Disk, HoldsTheSamplesOfSeveralProcesses) {
  const Handle cache = open_cache(*name_, options_for(1000, 40 * kMiB));
  Actor other;
  ASSERT_EQ(other.ask("in " + mount_.path()), "0");
  ASSERT_EQ(other.ask(std::string("attach ") + name_->c_str()), "0");
  for (int64_t i = 0; i < 50; ++i) {
    ASSERT_EQ(put(cache, i, 150'000), DC_OK);
    ASSERT_EQ(other.ask("put " + std::to_string(100 + i) + " 150000"), "0");
  }
  for (int64_t i = 0; i < 50; ++i) {
    EXPECT_TRUE(holds(cache, 100 + i, 150'000));
    EXPECT_EQ(other.ask("get " + std::to_string(i) + " 150000"), "1");
  }
  ASSERT_EQ(other.ask("begin 500 0"), "0");
  ASSERT_EQ(other.ask("allocate 150000"), "0");
  other.kill_and_reap();
  EXPECT_EQ(put(cache, 500, 150'000), DC_OK) << "a dead client's fill is taken over";
  EXPECT_EQ(report_of(cache).entries_ready, 101u);
}

TEST_P(Disk, GoesWithItsLastClientUnlessItIsKept) {
  Handle cache = open_cache(*name_, options_for(100, 8 * kMiB));
  EXPECT_EQ(cache.close(), DC_OK);
  EXPECT_FALSE(name_->exists());

  Actor actor;
  ASSERT_EQ(actor.ask("in " + mount_.path()), "0");
  ASSERT_EQ(actor.ask(open_as("100 8388608 0 16 0 0")), "0");
  actor.kill_and_reap();
  EXPECT_TRUE(name_->exists());
  uint8_t names[1000];
  uint64_t bytes = 0;
  EXPECT_EQ(dc_cache_list(name_->directory(), names, sizeof names, &bytes, nullptr), DC_OK);
  EXPECT_EQ(std::string(names, names + bytes), std::string(name_->c_str()) + "\n");
  int32_t removed = 0;
  EXPECT_EQ(dc_cache_gc(name_->directory(), &removed, nullptr), DC_OK);
  EXPECT_EQ(removed, 1);
  EXPECT_FALSE(name_->exists());

  dc_cache_options options = options_for(100, 8 * kMiB);
  options.keep = 1;
  cache = open_cache(*name_, options);
  ASSERT_EQ(put(cache, 3, 1000), DC_OK);
  EXPECT_EQ(cache.close(), DC_OK);
  EXPECT_EQ(dc_cache_gc(name_->directory(), &removed, nullptr), DC_OK);
  cache = open_cache(*name_, options);
  EXPECT_TRUE(holds(cache, 3, 1000));
  cache.close();
  EXPECT_EQ(dc_cache_unlink(name_->c_str(), name_->directory(), nullptr), DC_OK);
  EXPECT_FALSE(name_->exists());
}

TEST_P(Disk, AlwaysTakesChecksums) {
  dc_cache_options options = options_for(100, 8 * kMiB);
  const Handle cache = open_cache(*name_, options);
  EXPECT_EQ(info_of(cache).checksums, static_cast<uint32_t>(DC_CHECKSUMS_FILL));
  const Handle as_before = open_cache(*name_, options);
  options.checksums = DC_CHECKSUMS_FILL;
  const Handle as_it_is = open_cache(*name_, options);
  options.checksums = DC_CHECKSUMS_READ;
  dc_cache *other = nullptr;
  EXPECT_EQ(dc_cache_open(name_->c_str(), name_->directory(), "test", &options, &other, nullptr), DC_ERROR_MISMATCH);
}

TEST_P(Disk, RefusesMoreThanItHasAndSaysWhatToDo) {
  Actor actor;
  ASSERT_EQ(actor.ask("in " + mount_.path()), "0");
  const std::string refused = actor.ask(open_as("1000 1073741824 0 16 0 0"));
  EXPECT_TRUE(begins(refused, DC_ERROR_NO_SPACE)) << refused;
  EXPECT_TRUE(has(refused, mount_.path()) && has(refused, "needs 102") && has(refused, "make room on the disk"))
      << refused;
  EXPECT_FALSE(has(refused, "the machine")) << "memory is no limit here: " << refused;
}

TEST_P(Disk, GivesHalfOfWhatIsFreeWhereNoCapacityIsAsked) {
  const uint64_t free = free_bytes();
  const Handle cache = open_cache(*name_, options_for(1000, 0));
  const uint64_t capacity = info_of(cache).capacity_bytes;
  EXPECT_GE(capacity, free / 2 - free / 16);
  EXPECT_LE(capacity, free / 2);
}

TEST_P(Disk, IsFilledByAPartialCacheUpToAMargin) {
  Actor actor;
  ASSERT_EQ(actor.ask("in " + mount_.path()), "0");
  const uint64_t free = free_bytes();
  ASSERT_EQ(actor.ask(open_as("100000 1099511627776 0 16 1 0")), "0");
  int64_t stored = 0;
  std::string status;
  while ((status = actor.ask("put " + std::to_string(stored) + " 500000")) == "0") ++stored;
  EXPECT_EQ(status, std::to_string(DC_FULL)) << "not a SIGBUS";
  EXPECT_GE(stored, static_cast<int64_t>(free * 3 / 4 / 500'000));
  EXPECT_GE(free_bytes(), free / 32) << "some is left for others";
  for (int64_t i = 0; i < stored; i += 7) EXPECT_EQ(actor.ask("get " + std::to_string(i) + " 500000"), "1");
  EXPECT_EQ(actor.ask("close"), "0");
}

// What is reserved stays writable on a disk without a free block: samples, words, and pieces that are used again.
TEST_P(Disk, ThatAnotherProgramFillsStopsGrowthAndNothingElse) {
  Actor actor;
  ASSERT_EQ(actor.ask("in " + mount_.path()), "0");
  ASSERT_EQ(actor.ask(open_as("1000 50000000 0 16 0 1")), "0");
  int64_t stored = 0;
  ASSERT_NO_FATAL_FAILURE(fill_beside_a_hog(&actor, &stored));
  EXPECT_LT(stored, 150) << "only what was reserved before";
  for (int64_t i = 0; i < stored; ++i) {
    ASSERT_EQ(actor.ask("remove " + std::to_string(i)), "0");
    ASSERT_EQ(actor.ask("put " + std::to_string(500 + i) + " 100000"), "0");
  }
  sync();  // on a full disk, what was reserved can be written
  for (int64_t i = 0; i < stored; ++i) EXPECT_EQ(actor.ask("get " + std::to_string(500 + i) + " 100000"), "1");
  expect_growth_without_the_hog(&actor);
}

// Where the temporary directory is on a disk that a cache may lie on; else on one of the test's own, whose device is a
// file there.
TEST(LargerThanMemory, DataSetIsServedFromTheDisk) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer's own memory is more than the limit";
#endif
  constexpr uint64_t kLimit = 64 * kMiB;
  constexpr int64_t kSamples = 320;
  const std::string kBytes = " 1048000";
  MemoryGroup group(kLimit);
  if (!group.made()) GTEST_SKIP() << "no memory cgroup can be made here";
  const TemporaryDirectory temporary;
  Mount mount;
  std::string directory = temporary.path();
  struct statfs properties = {};
  ASSERT_EQ(statfs(directory.c_str(), &properties), 0);
  FileSystem found;
  const Status status = classify_file_system(static_cast<uint32_t>(properties.f_type), 4096, directory, &found);
  std::string why;
  if (!status.ok() || found.medium != Medium::disk) {
    if (!mount.format_and_mount("ext4", 600, &why)) GTEST_SKIP() << why;
    directory = mount.path();
  }
  const CacheName name(directory.c_str());
  Actor actor;
  ASSERT_TRUE(group.add(actor.pid()));
  ASSERT_EQ(actor.ask("in " + directory), "0");
  ASSERT_EQ(actor.ask(std::string("open ") + name.c_str() + " 320 402653184 1048000 16 0 0"), "0");
  for (int64_t i = 0; i < kSamples; ++i) ASSERT_EQ(actor.ask("put " + std::to_string(i) + kBytes), "0");
  // Twice, in an order that is not that of the disk.
  for (int64_t i = 0; i < 2 * kSamples; ++i) {
    const int64_t index = i * 197 % kSamples;
    ASSERT_EQ(actor.ask("get " + std::to_string(index) + kBytes), "1");
  }
  EXPECT_GE(group.peak_bytes(), kLimit / 2) << "the limit was felt";
  EXPECT_LE(group.peak_bytes(), kLimit) << "320 MiB of samples never took more";
  EXPECT_FALSE(group.ran_out());
  EXPECT_EQ(actor.ask("close"), "0");
  actor.kill_and_reap();
}

class Kinds : public ::testing::Test {
 protected:
  static std::string refusal(const std::string &directory) {
    const dc_cache_options options = options_for(10, kMiB);
    dc_cache *cache = nullptr;
    dc_error error = {};
    EXPECT_EQ(dc_cache_open("x", directory.c_str(), nullptr, &options, &cache, &error), DC_ERROR_UNSUPPORTED);
    int32_t removed = 0;
    EXPECT_EQ(dc_cache_gc(directory.c_str(), &removed, nullptr), DC_ERROR_UNSUPPORTED);
    EXPECT_EQ(dc_cache_unlink("x", directory.c_str(), nullptr), DC_ERROR_UNSUPPORTED);
    EXPECT_TRUE(std::filesystem::is_empty(directory)) << "nothing is left there, not even a lock file";
    return error.message;
  }
};

TEST_F(Kinds, AContainersLayersAreRefusedByName) {
  const TemporaryDirectory parts;
  for (const char *part : {"/lower", "/upper", "/work"}) std::filesystem::create_directory(parts.path() + part);
  Mount mount;
  const std::string options =
      "lowerdir=" + parts.path() + "/lower,upperdir=" + parts.path() + "/upper,workdir=" + parts.path() + "/work";
  if (!mount.mount("overlay", options)) GTEST_SKIP() << "an overlay cannot be mounted here";
  const std::string text = refusal(mount.path());
  EXPECT_TRUE(has(text, "overlay") && has(text, mount.path()) && has(text, "mounted volume")) << text;
}

TEST_F(Kinds, MemoryThatCannotBeReservedIsRefusedByName) {
  Mount mount;
  if (!mount.mount("ramfs", "")) GTEST_SKIP() << "a ramfs cannot be mounted here";
  const std::string text = refusal(mount.path());
  EXPECT_TRUE(has(text, "ramfs") && has(text, "reserve")) << text;
}

// Its type is that of ext4, and it says only when asked that it cannot reserve.
TEST_F(Kinds, Ext2IsRefusedWhenItCannotReserve) {
  Mount mount;
  std::string why;
  if (!mount.format_and_mount("ext2", 16, &why)) GTEST_SKIP() << why;
  const dc_cache_options options = options_for(10, kMiB);
  dc_cache *cache = nullptr;
  dc_error error = {};
  EXPECT_EQ(dc_cache_open("x", mount.path().c_str(), nullptr, &options, &cache, &error), DC_ERROR_UNSUPPORTED);
  EXPECT_TRUE(has(error.message, "fallocate") && has(error.message, "ext2")) << error.message;
}

}  // namespace
}  // namespace ddpcache::test
