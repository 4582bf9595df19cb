// Caches on a hugetlbfs: a pool of huge pages and a mount that the test makes for itself.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <string>

#include "actors.hpp"
#include "mounts.hpp"

namespace ddpcache::test {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kHuge = 2 * kMiB;

class HugePages : public ::testing::Test {
 protected:
  static constexpr int kPages = 40;

  void SetUp() override {
    if (pool_.pages() < kPages) GTEST_SKIP() << "there are no " << kPages << " huge pages of 2 MiB to be had";
    if (!mount_.mount("hugetlbfs", "pagesize=2M")) GTEST_SKIP() << "mounting a hugetlbfs is not permitted here";
    name_.emplace(mount_.path().c_str());
  }
  void TearDown() override { name_.reset(); }

  static bool begins(const std::string &text, int32_t status) {
    return text.rfind(std::to_string(status) + ' ', 0) == 0;
  }
  std::string in_directory() const { return "in " + mount_.path(); }
  std::string attach() const { return std::string("attach ") + name_->c_str(); }

  const HugePagePool pool_{kPages};
  Mount mount_;
  std::optional<CacheName> name_;
};

// Whether this process has memory mapped in pages of 2 MiB.
bool maps_huge_pages() {
  std::ifstream maps("/proc/self/smaps");
  for (std::string line; std::getline(maps, line);) {
    if (line.rfind("KernelPageSize:", 0) == 0 && line.find(" 2048 kB") != std::string::npos) return true;
  }
  return false;
}

TEST_F(HugePages, HoldTheSamplesOfSeveralProcesses) {
  ASSERT_FALSE(maps_huge_pages());
  const Handle cache = open_cache(*name_, options_for(1000, 40 * kMiB));
  const dc_cache_info info = info_of(cache);
  EXPECT_EQ(info.step_bytes % kHuge, 0u);
  EXPECT_EQ(info.control_bytes % kHuge, 0u);
  EXPECT_EQ(info.file_bytes % kHuge, 0u);
  EXPECT_TRUE(maps_huge_pages());
  Actor other;
  ASSERT_EQ(other.ask(in_directory()), "0");
  ASSERT_EQ(other.ask(attach()), "0");
  for (int64_t i = 0; i < 50; ++i) {
    ASSERT_EQ(put(cache, i, 150'000), DC_OK);
    ASSERT_EQ(other.ask("put " + std::to_string(100 + i) + " 150000"), "0");
  }
  for (int64_t i = 0; i < 50; ++i) {
    EXPECT_TRUE(holds(cache, 100 + i, 150'000));
    EXPECT_EQ(other.ask("get " + std::to_string(i) + " 150000"), "1");
  }
  EXPECT_EQ(stats_of(cache).reserved_bytes % kHuge, 0u);
  EXPECT_GE(stats_of(cache).reserved_bytes, 100 * 150'000u);
  report_of(cache);
}

TEST_F(HugePages, OfAFillerThatWasKilledAreUsedAgain) {
  const Handle cache = open_cache(*name_, options_for(1000, 8 * kMiB, 150'000));
  Actor victim;
  ASSERT_EQ(victim.ask(in_directory()), "0");
  ASSERT_EQ(victim.ask(attach()), "0");
  ASSERT_EQ(victim.ask("begin 7 0"), "0");
  ASSERT_EQ(victim.ask("allocate 150000"), "0");
  victim.kill_and_reap();
  EXPECT_EQ(put(cache, 7, 150'000), DC_OK);
  EXPECT_TRUE(holds(cache, 7, 150'000));
  int64_t stored = 1;
  while (put(cache, 100 + stored, 150'000) == DC_OK) ++stored;
  EXPECT_EQ(static_cast<uint64_t>(stored), report_of(cache).extents_owned);
  EXPECT_EQ(report_of(cache).extents_free, 0u) << "the dead client's piece is in use again";
}

TEST_F(HugePages, TooFewForTheCapacityIsAnErrorThatSaysWhatToDo) {
  Actor actor;
  ASSERT_EQ(actor.ask(in_directory()), "0");
  const std::string refused = actor.ask(std::string("open ") + name_->c_str() + " 1000 1073741824 0 16 0 0");
  EXPECT_TRUE(begins(refused, DC_ERROR_NO_SPACE)) << refused;
  for (const char *part : {"huge pages of 2 MiB", "nr_hugepages", "needs 102"}) {
    EXPECT_NE(refused.find(part), std::string::npos) << part << " is not in: " << refused;
  }
}

TEST_F(HugePages, AreTakenByAPartialCacheUntilNoneIsLeft) {
  Actor actor;
  ASSERT_EQ(actor.ask(in_directory()), "0");
  ASSERT_EQ(actor.ask(std::string("open ") + name_->c_str() + " 1000 1073741824 0 16 1 0"), "0");
  int64_t stored = 0;
  std::string status;
  while ((status = actor.ask("put " + std::to_string(stored) + " 100000")) == "0") ++stored;
  EXPECT_EQ(status, std::to_string(DC_FULL)) << "not a SIGBUS";
  EXPECT_GE(stored, static_cast<int64_t>(kPages * kHuge * 3 / 4 / 100'000)) << "most of them are used";
  for (int64_t i = 0; i < stored; i += 13) EXPECT_EQ(actor.ask("get " + std::to_string(i) + " 100000"), "1");
  EXPECT_EQ(actor.ask("close"), "0");
}

TEST_F(HugePages, TakenByAnotherProgramStopGrowthAndNothingElse) {
  Actor actor;
  ASSERT_EQ(actor.ask(in_directory()), "0");
  ASSERT_EQ(actor.ask(std::string("open ") + name_->c_str() + " 1000 50000000 0 16 0 0"), "0");
  int64_t stored = 0;
  ASSERT_NO_FATAL_FAILURE(fill_beside_a_hog(&actor, &stored));
  EXPECT_LT(stored, 100) << "only what was reserved before";
  expect_growth_without_the_hog(&actor);
}

TEST_F(HugePages, AreHalfTakenWhereNoCapacityIsAsked) {
  const Handle cache = open_cache(*name_, options_for(100, 0));
  const uint64_t capacity = info_of(cache).capacity_bytes;
  EXPECT_GE(capacity, kPages * kHuge / 4);
  EXPECT_LE(capacity, kPages * kHuge / 2);
}

TEST_F(HugePages, OfALimitedMountAreItsOwn) {
  Mount limited;
  ASSERT_TRUE(limited.mount("hugetlbfs", "pagesize=2M,size=16M"));
  const CacheName name(limited.path().c_str());
  const dc_cache_options options = options_for(100, 32 * kMiB);
  dc_cache *cache = nullptr;
  dc_error error = {};
  EXPECT_EQ(dc_cache_open(name.c_str(), name.directory(), "x", &options, &cache, &error), DC_ERROR_NO_SPACE);
  EXPECT_NE(std::string(error.message).find("the file system has 16 MiB free"), std::string::npos) << error.message;
  const Handle smaller = open_cache(name, options_for(100, 10 * kMiB, 0, kMiB));
  int64_t stored = 0;
  while (put(smaller, stored, 500'000) == DC_OK) ++stored;
  EXPECT_GE(stored, 15);
}

TEST_F(HugePages, KeepACacheUntilItIsUnlinked) {
  dc_cache_options options = options_for(100, 8 * kMiB);
  options.keep = 1;
  Handle cache = open_cache(*name_, options);
  ASSERT_EQ(put(cache, 3, 1000), DC_OK);
  EXPECT_EQ(cache.close(), DC_OK);
  int32_t removed = 0;
  EXPECT_EQ(dc_cache_gc(name_->directory(), &removed, nullptr), DC_OK);
  EXPECT_EQ(removed, 0);
  uint8_t names[1000];
  uint64_t bytes = 0;
  EXPECT_EQ(dc_cache_list(name_->directory(), names, sizeof names, &bytes, nullptr), DC_OK);
  EXPECT_EQ(std::string(names, names + bytes), std::string(name_->c_str()) + "\n");
  cache = open_cache(*name_, options);
  EXPECT_EQ(info_of(cache).adopted, 1u);
  EXPECT_TRUE(holds(cache, 3, 1000));
  cache.close();
  EXPECT_EQ(dc_cache_unlink(name_->c_str(), name_->directory(), nullptr), DC_OK);
  EXPECT_FALSE(name_->exists());
}

// On a tmpfs that gives them to whoever writes, and on one that does not.
TEST(TransparentHugePages, AreObtainedWhereTheFileSystemHasThemAndInfoSaysSo) {
  for (const bool has : {true, false}) {
    Mount mount;
    if (!mount.mount("tmpfs", has ? "size=64m,huge=always" : "size=64m,huge=never")) {
      GTEST_SKIP() << "mounting a tmpfs with or without huge pages is not permitted here";
    }
    const CacheName name(mount.path().c_str());
    dc_cache_options options = options_for(100, 24 * kMiB, 300'000);
    options.huge_pages = 1;
    dc_cache *opened = nullptr;
    dc_error error = {};
    ASSERT_EQ(dc_cache_open(name.c_str(), mount.path().c_str(), "test", &options, &opened, &error), DC_OK)
        << error.message;
    const Handle cache(opened);
    for (int64_t index = 0; index < 60; ++index) ASSERT_EQ(put(cache, index, 300'000), DC_OK);
    for (int64_t index = 0; index < 60; ++index) ASSERT_TRUE(holds(cache, index, 300'000));
    EXPECT_EQ(info_of(cache).page_bytes, has ? kHuge : 4096u);
    dc_cache *looking = nullptr;
    ASSERT_EQ(dc_cache_attach_read_only(name.c_str(), mount.path().c_str(), kSecond, &looking, nullptr), DC_OK);
    const Handle own(looking);
    for (int64_t index = 0; index < 60; ++index) ASSERT_TRUE(holds(own, index, 300'000));
    EXPECT_EQ(info_of(own).page_bytes, has ? kHuge : 4096u) << "attached";
  }
}

}  // namespace
}  // namespace ddpcache::test
