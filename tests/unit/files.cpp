// What may stand where a cache's file should be: only a regular file of this user is ever opened, and nothing else is
// deleted.
#include "files.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>

#include "../support/caches.hpp"
#include "locks.hpp"

namespace ddpcache {
namespace {

namespace fs = std::filesystem;
using test::CacheName;
using test::kSecond;
using test::options_for;

TEST(Name, IsOneToTwoHundredOfTheAllowedCharacters) {
  for (const std::string good : {"a", "A.b_c-9", ".", "..", "-"}) EXPECT_TRUE(check_name(good.c_str()).ok()) << good;
  EXPECT_TRUE(check_name(std::string(200, 'x').c_str()).ok());
  for (const std::string bad : {"", "a/b", "a b", "a\n", "\xC3\xA4", "a*", "/"}) {
    EXPECT_EQ(check_name(bad.c_str()).code(), DC_ERROR_NAME) << bad;
  }
  EXPECT_EQ(check_name(std::string(201, 'x').c_str()).code(), DC_ERROR_NAME);
  EXPECT_EQ(check_name(nullptr).code(), DC_ERROR_ARGUMENT);
}

// Something else under a cache's name: every call that would follow, open or delete it refuses.
class Intruder : public ::testing::Test {
 protected:
  ~Intruder() override {
    fs::remove_all(name_.path());
    fs::remove_all(other_);
  }

  void expect_refused(int32_t code = DC_ERROR_PERMISSION) {
    dc_cache *cache = nullptr;
    dc_error error = {};
    const dc_cache_options options = options_for(10, 1 << 20);
    EXPECT_EQ(dc_cache_open(name_.c_str(), nullptr, "x", &options, &cache, &error), code) << error.message;
    EXPECT_EQ(cache, nullptr);
    EXPECT_NE(std::string(error.message).find(name_.c_str()), std::string::npos) << "the text names the file";
    EXPECT_EQ(dc_cache_attach(name_.c_str(), nullptr, kSecond, &cache, &error), code) << error.message;
    EXPECT_EQ(dc_cache_attach_read_only(name_.c_str(), nullptr, kSecond, &cache, &error), code) << error.message;
    int32_t removed = 0;
    EXPECT_EQ(dc_cache_gc(nullptr, &removed, nullptr), DC_OK);
    EXPECT_TRUE(fs::symlink_status(name_.path()).type() != fs::file_type::not_found) << "deleted";
  }
  void expect_not_unlinked() {
    EXPECT_EQ(dc_cache_unlink(name_.c_str(), nullptr, nullptr), DC_ERROR_PERMISSION);
    EXPECT_TRUE(fs::symlink_status(name_.path()).type() != fs::file_type::not_found) << "deleted";
  }

  const CacheName name_;
  const std::string other_ = name_.path() + ".other";
};

TEST_F(Intruder, ThatIsASymbolicLinkIsNotFollowed) {
  std::ofstream(other_) << "precious";
  fs::create_symlink(other_, name_.path());
  expect_refused();
  expect_not_unlinked();
  EXPECT_EQ(fs::file_size(other_), 8u);
}

TEST_F(Intruder, ThatIsADanglingLinkCreatesNothing) {
  fs::create_symlink(other_, name_.path());
  expect_refused();
  EXPECT_FALSE(fs::exists(other_));
}

TEST_F(Intruder, ThatIsAFifoBlocksNobody) {
  ASSERT_EQ(mkfifo(name_.path().c_str(), 0600), 0);
  expect_refused();
  expect_not_unlinked();
}

TEST_F(Intruder, ThatIsADirectoryIsRefused) {
  fs::create_directory(name_.path());
  expect_refused();
  expect_not_unlinked();
}

TEST_F(Intruder, WithASecondLinkIsRefused) {
  const test::Handle cache = test::open_cache(name_, options_for(10, 1 << 20));
  fs::create_hard_link(name_.path(), other_);
  expect_refused();
  expect_not_unlinked();
}

TEST_F(Intruder, OfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "giving a file away takes root";
  std::ofstream(name_.path()) << "theirs";
  ASSERT_EQ(chown(name_.path().c_str(), 12345, 12345), 0);
  expect_refused();
  expect_not_unlinked();
}

TEST_F(Intruder, ThatIsNoCacheIsAnErrorButMayBeUnlinked) {
  for (const size_t bytes : {size_t{0}, size_t{100}, size_t{1} << 20}) {
    std::ofstream(name_.path()) << std::string(bytes, 'x');
    expect_refused(DC_ERROR_DAMAGED);
  }
  EXPECT_EQ(dc_cache_unlink(name_.c_str(), nullptr, nullptr), DC_OK);
}

// The same where the user's lock file should be, in a directory of the test's own.
TEST(LockFile, ThatIsSomethingElseIsRefusedAndLeftAlone) {
  char directory[] = "/dev/shm/ddpcache-test-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  const std::string path = directory + std::string("/ddpcache.") + std::to_string(geteuid()), other = path + ".other";
  std::ofstream(other) << "precious";
  const std::pair<const char *, std::function<void()>> kinds[] = {
      {"a symbolic link", [&] { fs::create_symlink(other, path); }},
      {"a dangling link", [&] { fs::create_symlink(path + ".none", path); }},
      {"a FIFO", [&] { ASSERT_EQ(mkfifo(path.c_str(), 0600), 0); }},
      {"a directory", [&] { fs::create_directory(path); }},
      {"a hard link", [&] { fs::create_hard_link(other, path); }},
  };
  for (const auto &[kind, make] : kinds) {
    make();
    const fs::file_type type = fs::symlink_status(path).type();
    dc_cache *cache = nullptr;
    dc_error error = {};
    const dc_cache_options options = options_for(10, 1 << 20);
    EXPECT_LT(dc_cache_open("x", directory, "x", &options, &cache, &error), 0) << kind;
    EXPECT_EQ(dc_cache_close(cache), DC_OK);
    EXPECT_NE(std::string(error.message).find(path), std::string::npos) << kind << ": " << error.message;
    EXPECT_TRUE(fs::symlink_status(path).type() == type) << kind;
    EXPECT_FALSE(fs::exists(path + ".none")) << kind;
    EXPECT_EQ(fs::file_size(other), 8u) << kind;
    fs::remove(path);
  }
  fs::remove_all(directory);
}

TEST(Files, AreMadeForTheirUserAloneWhateverTheUmask) {
  const mode_t before = umask(0);
  {
    const CacheName name;
    const test::Handle cache = test::open_cache(name, options_for(10, 1 << 20));
    EXPECT_EQ(fs::status(name.path()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  }
  umask(0777);
  {
    const CacheName name;
    const test::Handle cache = test::open_cache(name, options_for(10, 1 << 20));
    EXPECT_EQ(fs::status(name.path()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  }
  umask(before);
}

TEST(Directories, ThatAreNoTmpfsOrNotThereAreRefused) {
  dc_cache *cache = nullptr;
  const dc_cache_options options = options_for(10, 1 << 20);
  EXPECT_EQ(dc_cache_open("x", "/proc", nullptr, &options, &cache, nullptr), DC_ERROR_UNSUPPORTED);
  EXPECT_EQ(dc_cache_open("x", "/no/such/place", nullptr, &options, &cache, nullptr), DC_ERROR_SYSTEM);
  EXPECT_EQ(dc_cache_open("x", "", nullptr, &options, &cache, nullptr), DC_ERROR_SYSTEM);
  EXPECT_EQ(cache, nullptr);
}

TEST(Descriptors, AreKnownByTheirFileAndNotByTheirNumber) {
  const int first = open("/dev/null", O_RDONLY | O_CLOEXEC);
  struct stat properties;
  ASSERT_EQ(fstat(first, &properties), 0);
  const FileIdentity identity = {properties.st_dev, properties.st_ino};
  EXPECT_TRUE(refers_to(first, identity));
  close(first);
  EXPECT_FALSE(refers_to(first, identity));
  const int again = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(again, first);
  EXPECT_FALSE(refers_to(again, identity));
  EXPECT_FALSE(refers_to(-1, identity));
  close(again);
}

TEST(ByteLocks, AreSeenByOthersAndNotByTheirOwner) {
  const int first = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  ASSERT_GE(first, 0);
  const int second = open(("/proc/self/fd/" + std::to_string(first)).c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(second, 0);
  EXPECT_EQ(probe(second, client_byte(7)), ProbeResult::free);
  EXPECT_EQ(lock_exclusive(first, client_byte(7)), LockResult::taken);
  EXPECT_EQ(probe(second, client_byte(7)), ProbeResult::held);
  EXPECT_EQ(probe(second, client_byte(8)), ProbeResult::free);
  EXPECT_EQ(probe(first, client_byte(7)), ProbeResult::free);
  EXPECT_EQ(lock_exclusive(second, client_byte(7)), LockResult::held_by_other);
  unlock(first, client_byte(7));
  EXPECT_EQ(lock_shared(second, kAttachByte), LockResult::taken);
  EXPECT_EQ(lock_shared(first, kAttachByte), LockResult::taken);
  EXPECT_EQ(probe(second, kAttachByte), ProbeResult::held);
  close(first);
  EXPECT_EQ(probe(second, kAttachByte), ProbeResult::free);
  close(second);
  EXPECT_EQ(probe(second, kAttachByte), ProbeResult::failed);
  EXPECT_EQ(lock_shared(second, kAttachByte), LockResult::failed);
}

}  // namespace
}  // namespace ddpcache
