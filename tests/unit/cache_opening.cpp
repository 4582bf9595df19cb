// Whose cache a name leads to: identity, keeping, adopting, replacing, removing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "../support/caches.hpp"

namespace ddpcache::test {
namespace {

dc_cache_options kept(int64_t length = 10) {
  dc_cache_options options = options_for(length, 1 << 20);
  options.keep = 1;
  return options;
}

int32_t open_status(const CacheName &name, const dc_cache_options &options, const char *fingerprint, dc_error *error) {
  dc_cache *cache = nullptr;
  const int32_t status = dc_cache_open(name.c_str(), nullptr, fingerprint, &options, &cache, error);
  EXPECT_EQ(dc_cache_close(cache), DC_OK);
  return status;
}

std::vector<std::string> listed() {
  uint64_t needed = 0;
  dc_cache_list(nullptr, nullptr, 0, &needed, nullptr);
  std::vector<uint8_t> text(needed + 4096);
  EXPECT_EQ(dc_cache_list(nullptr, text.data(), text.size(), &needed, nullptr), DC_OK);
  std::vector<std::string> names;
  std::istringstream lines(std::string(text.begin(), text.begin() + static_cast<ptrdiff_t>(needed)));
  for (std::string line; std::getline(lines, line);) names.push_back(line);
  return names;
}

TEST(Opening, CreatesOnceAndAttachesFromThenOn) {
  const CacheName name;
  const Handle first = open_cache(name, options_for(10, 1 << 20));
  const Handle second = open_cache(name, options_for(10, 1 << 20));
  const Handle third = attach_cache(name.c_str());
  EXPECT_EQ(info_of(first).created, 1u);
  EXPECT_EQ(info_of(second).created, 0u);
  EXPECT_EQ(info_of(second).adopted, 0u);
  EXPECT_STREQ(info_of(first).uuid, info_of(third).uuid);
  EXPECT_EQ(std::string(info_of(first).uuid).size(), 36u);
  EXPECT_EQ(info_of(third).clients_attached, 3u);
}

TEST(Opening, DescribesTheCache) {
  const CacheName name;
  dc_cache_options options = options_for(123, 8 << 20, 1000);
  options.job_id = 42;
  const Handle cache = open_cache(name, options, "digits v1");
  const dc_cache_info info = info_of(cache);
  EXPECT_EQ(info.length, 123);
  EXPECT_EQ(info.format_version, static_cast<uint32_t>(DC_FORMAT_VERSION));
  EXPECT_LE(info.capacity_bytes, 8u << 20);
  EXPECT_GT(info.capacity_bytes, 7u << 20);
  EXPECT_EQ(info.sample_bytes, 1000u);
  EXPECT_EQ(info.sample_bytes_max, 1000u);
  EXPECT_EQ(info.step_bytes * info.steps, info.capacity_bytes);
  EXPECT_EQ(info.file_bytes, info.control_bytes + info.capacity_bytes);
  EXPECT_EQ(info.job_id, 42u);
  EXPECT_EQ(info.creator_pid, getpid());
  EXPECT_EQ(info.clients_max, 64u);
  EXPECT_EQ(info.keep, 0u);
  EXPECT_STREQ(info.name, name.c_str());
  EXPECT_STREQ(info.fingerprint, "digits v1");
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  EXPECT_LT(std::chrono::abs(now - std::chrono::nanoseconds(info.created_unix_ns)), std::chrono::minutes(5));
  const dc_cache_stats stats = stats_of(cache);
  EXPECT_GE(stats.reserved_bytes, info.control_bytes);
  EXPECT_LT(stats.reserved_bytes, info.control_bytes + info.step_bytes) << "the arena is reserved as it is needed";
}

TEST(Opening, WithOtherOptionsOrFingerprintShowsBoth) {
  const CacheName name;
  const Handle cache = open_cache(name, options_for(10, 1 << 20, 0, 4096), "mine");
  dc_error error;
  EXPECT_EQ(open_status(name, options_for(11, 1 << 20, 0, 4096), "mine", &error), DC_ERROR_MISMATCH);
  EXPECT_NE(std::string(error.message).find("10"), std::string::npos) << error.message;
  EXPECT_NE(std::string(error.message).find("11"), std::string::npos) << error.message;
  EXPECT_EQ(open_status(name, options_for(10, 1 << 20, 64), "mine", &error), DC_ERROR_MISMATCH);
  EXPECT_EQ(open_status(name, options_for(10, 1 << 20, 0, 4097), "mine", &error), DC_ERROR_MISMATCH);
  EXPECT_NE(std::string(error.message).find("4097"), std::string::npos) << error.message;
  for (const char *fingerprint : {"yours", "", "mine and more", "min"}) {
    EXPECT_EQ(open_status(name, options_for(10, 1 << 20, 0, 4096), fingerprint, &error), DC_ERROR_FINGERPRINT);
    EXPECT_NE(std::string(error.message).find("\"mine\""), std::string::npos) << error.message;
    EXPECT_NE(std::string(error.message).find('"' + std::string(fingerprint) + '"'), std::string::npos)
        << error.message;
  }
  EXPECT_EQ(open_status(name, options_for(10, 1 << 20, 0, 4096), nullptr, &error), DC_ERROR_FINGERPRINT);
  // What is no part of identity: the creator's capacity and clients, and the default largest sample.
  EXPECT_EQ(open_status(name, options_for(10, 7 << 20), "mine", &error), DC_OK);
  EXPECT_EQ(info_of(attach_cache(name.c_str())).length, 10) << "attach takes what there is";
}

TEST(Opening, ComparesFingerprintsToTheirFullLength) {
  const CacheName name;
  std::string fingerprint(DC_FINGERPRINT_BYTES_MAX, 'f');
  const Handle cache = open_cache(name, options_for(10, 1 << 20), fingerprint.c_str());
  EXPECT_EQ(info_of(cache).fingerprint, fingerprint);
  dc_error error;
  EXPECT_EQ(open_status(name, options_for(10, 1 << 20), fingerprint.c_str(), &error), DC_OK);
  fingerprint.back() = 'g';
  EXPECT_EQ(open_status(name, options_for(10, 1 << 20), fingerprint.c_str(), &error), DC_ERROR_FINGERPRINT);
}

TEST(Opening, LeavesNoNameBehindWhenTheLastClientCloses) {
  const CacheName name;
  {
    const Handle first = open_cache(name, options_for(10, 1 << 20));
    { const Handle second = open_cache(name, options_for(10, 1 << 20)); }
    EXPECT_TRUE(name.exists()) << "one is still attached";
  }
  EXPECT_FALSE(name.exists());
}

TEST(Opening, AdoptsAKeptCacheOfTheSameIdentity) {
  const CacheName name;
  std::string uuid;
  {
    const Handle cache = open_cache(name, kept());
    ASSERT_EQ(put(cache, 1, 100), DC_OK);
    uuid = info_of(cache).uuid;
    EXPECT_EQ(info_of(cache).keep, 1u);
  }
  EXPECT_TRUE(name.exists());
  int32_t removed = 0;
  EXPECT_EQ(dc_cache_gc(nullptr, &removed, nullptr), DC_OK);
  EXPECT_TRUE(name.exists()) << "gc leaves what is kept";
  const Handle again = open_cache(name, options_for(10, 1 << 20));
  EXPECT_EQ(info_of(again).uuid, uuid);
  EXPECT_EQ(info_of(again).adopted, 1u);
  EXPECT_EQ(info_of(again).created, 0u);
  EXPECT_TRUE(holds(again, 1, 100));
  report_of(again);
}

TEST(Opening, AttachesToAKeptCacheThatNobodyUses) {
  const CacheName name;
  { const Handle cache = open_cache(name, kept()); }
  const Handle again = attach_cache(name.c_str());
  EXPECT_EQ(info_of(again).adopted, 1u);
}

TEST(Opening, ReplacesAnUnusedCacheThatDoesNotMatch) {
  const CacheName name;
  std::string uuid;
  const auto make = [&] {
    const Handle cache = open_cache(name, kept());
    uuid = info_of(cache).uuid;
  };
  make();
  {
    const Handle other = open_cache(name, kept(), "other data");
    EXPECT_NE(info_of(other).uuid, uuid);
    EXPECT_EQ(info_of(other).created, 1u);
    EXPECT_EQ(dc_cache_contains(other, 0), DC_MISS);
  }
  make();
  const Handle longer = open_cache(name, kept(11));
  EXPECT_EQ(info_of(longer).created, 1u);
}

TEST(Opening, NeverAdoptsWithoutAFingerprint) {
  const CacheName name;
  std::string uuid;
  {
    const Handle cache = open_cache(name, kept(), "");
    uuid = info_of(cache).uuid;
    const Handle second = open_cache(name, kept(), nullptr);
    EXPECT_EQ(info_of(second).uuid, uuid) << "while it is in use it is shared";
  }
  const Handle again = open_cache(name, kept(), "");
  EXPECT_NE(info_of(again).uuid, uuid);
}

TEST(Opening, KeepsACacheThatAnyClientAskedToKeep) {
  const CacheName name;
  {
    const Handle first = open_cache(name, options_for(10, 1 << 20));
    { const Handle second = open_cache(name, kept()); }
    EXPECT_EQ(info_of(first).keep, 1u);
  }
  EXPECT_TRUE(name.exists());
}

TEST(Opening, AfterUnlinkCreatesAnewWhileTheOldGoesOn) {
  const CacheName name;
  const Handle old = open_cache(name, options_for(10, 1 << 20));
  ASSERT_EQ(put(old, 1, 100), DC_OK);
  ASSERT_EQ(dc_cache_unlink(name.c_str(), nullptr, nullptr), DC_OK);
  EXPECT_FALSE(name.exists());
  dc_cache *none = nullptr;
  EXPECT_EQ(dc_cache_attach(name.c_str(), nullptr, 10 * kSecond, &none, nullptr), DC_ERROR_NOT_FOUND);
  {
    const Handle fresh = open_cache(name, options_for(10, 1 << 20));
    EXPECT_STRNE(info_of(fresh).uuid, info_of(old).uuid);
    EXPECT_TRUE(holds(old, 1, 100));
    EXPECT_EQ(put(old, 2, 100), DC_OK);
    EXPECT_EQ(dc_cache_contains(fresh, 1), DC_MISS);
  }
  EXPECT_FALSE(name.exists());
  const Handle fresh = open_cache(name, options_for(10, 1 << 20));
  report_of(old);
}

TEST(Opening, ClosingAnUnlinkedCacheLeavesItsSuccessorAlone) {
  const CacheName name;
  Handle old = open_cache(name, options_for(10, 1 << 20));
  ASSERT_EQ(dc_cache_unlink(name.c_str(), nullptr, nullptr), DC_OK);
  const Handle fresh = open_cache(name, options_for(10, 1 << 20));
  EXPECT_EQ(old.close(), DC_OK);
  EXPECT_TRUE(name.exists());
}

TEST(Opening, ListsTheUsersCachesSorted) {
  const CacheName a, b;
  const Handle first = open_cache(a, options_for(10, 1 << 20));
  const Handle second = open_cache(b, options_for(10, 1 << 20));
  const std::vector<std::string> names = listed();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const CacheName *name : {&a, &b}) {
    EXPECT_EQ(std::count(names.begin(), names.end(), std::string(name->c_str())), 1);
  }
}

TEST(Opening, NamesWhoHoldsTheLockFileAtItsDeadline) {
  // In a directory of its own, so that no other test waits for the same lock.
  char directory[] = "/dev/shm/ddpcache-test-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  dc_cache_options options = options_for(10, 1 << 20);
  options.timeout_ns = 100 * kMillisecond;
  dc_error error = {};
  dc_cache *cache = nullptr;
  ASSERT_EQ(dc_cache_open("x", directory, "", &options, &cache, &error), DC_OK) << error.message;
  EXPECT_EQ(dc_cache_close(cache), DC_OK);
  const std::string lock_file = std::string(directory) + "/ddpcache." + std::to_string(geteuid());
  const int fd = open(lock_file.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  EXPECT_EQ(dc_cache_open("x", directory, "", &options, &cache, &error), DC_ERROR_LOCKED);
  EXPECT_NE(std::string(error.message).find(std::to_string(getpid())), std::string::npos) << error.message;
  EXPECT_EQ(dc_cache_attach("x", directory, 0, &cache, nullptr), DC_ERROR_LOCKED);
  close(fd);
  EXPECT_EQ(dc_cache_open("x", directory, "", &options, &cache, &error), DC_OK) << error.message;
  EXPECT_EQ(dc_cache_close(cache), DC_OK);
  EXPECT_EQ(unlink(lock_file.c_str()), 0);
  EXPECT_EQ(rmdir(directory), 0) << "nothing but the lock file is left";
}

TEST(Opening, CountsTheClientsWhenTheTableIsFull) {
  const CacheName name;
  dc_cache_options options = options_for(10, 1 << 20);
  options.clients_max = 2;
  const Handle first = open_cache(name, options);
  Handle second = open_cache(name, options);
  dc_error error;
  EXPECT_EQ(open_status(name, options, "test", &error), DC_ERROR_CLIENTS);
  const std::string text = error.message;
  EXPECT_NE(text.find("all 2 client records"), std::string::npos) << text;
  EXPECT_NE(text.find("larger clients_max, of up to 4095"), std::string::npos) << text;
  EXPECT_EQ(second.close(), DC_OK);
  EXPECT_EQ(open_status(name, options, "test", &error), DC_OK);
}

TEST(Opening, HasOneClientOrAsManyAsThereCanBe) {
  for (const uint32_t clients : {1u, static_cast<uint32_t>(DC_CLIENTS_MAX)}) {
    const CacheName name;
    dc_cache_options options = options_for(10, 1 << 20);
    options.clients_max = clients;
    const Handle cache = open_cache(name, options);
    EXPECT_EQ(info_of(cache).clients_max, clients);
    EXPECT_EQ(put(cache, 1, 100), DC_OK);
    EXPECT_EQ(open_status(name, options, "test", nullptr), clients == 1 ? DC_ERROR_CLIENTS : DC_OK);
    EXPECT_EQ(report_of(cache).clients, 1u);
  }
}

// Every single byte of the header of a file that somebody else holds open, changed.
TEST(Opening, OfADamagedHeaderIsAnErrorAndDeletesNothing) {
  const CacheName name;
  Handle cache = open_cache(name, kept());
  const int fd = open(name.path().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  dc_error error;
  for (off_t at = 0; at < 1500; at += 7) {
    uint8_t byte = 0;
    ASSERT_EQ(pread(fd, &byte, 1, at), 1);
    const uint8_t wrong = static_cast<uint8_t>(byte ^ 0x10);
    ASSERT_EQ(pwrite(fd, &wrong, 1, at), 1);
    const int32_t status = open_status(name, kept(), "test", &error);
    // Behind the header nothing depends on it.
    EXPECT_TRUE(status == DC_ERROR_DAMAGED || status == DC_ERROR_FORMAT || (status == DC_OK && at >= 1400))
        << "byte " << at << ": " << status;
    ASSERT_EQ(pwrite(fd, &byte, 1, at), 1);
  }
  EXPECT_EQ(open_status(name, kept(), "test", &error), DC_OK);
  EXPECT_EQ(cache.close(), DC_OK);
  ASSERT_EQ(ftruncate(fd, 100), 0);
  close(fd);
  EXPECT_EQ(open_status(name, kept(), "test", &error), DC_ERROR_DAMAGED);
  EXPECT_TRUE(name.exists());
}

}  // namespace
}  // namespace ddpcache::test
