// The saved file among others, and how far a save or a restore has come.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replacement.hpp"
#include "saving_fixture.hpp"

namespace ddpcache::test {
namespace {

TEST_F(Saving, AFileIsReplacedAsAWhole) {
  Handle cache = open_cache(name_, options_for(50, 4 << 20));
  ASSERT_EQ(put(cache, 0, 1000), DC_OK);
  write_bytes(path_, "what was there before");
  ASSERT_EQ(symlink(path_.c_str(), folder_.file("link").c_str()), 0);
  const int old = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(save(cache, folder_.file("link")), 1);
  char text[30] = "";
  EXPECT_EQ(read(old, text, sizeof text), 21) << "who has the old file open still has it";
  close(old);
  EXPECT_EQ(saved_info(path_).samples, 1);
  EXPECT_TRUE(fs::is_symlink(folder_.file("link")));
  EXPECT_EQ(folder_.names().size(), 2u) << "no temporary file is left";
}

TEST_F(Saving, ItsFileHasTheModeOfAnyNewFile) {
  Handle cache = open_cache(name_, options_for(5, 1 << 20));
  for (const mode_t mask : {022, 077}) {
    const mode_t before = umask(mask);
    save(cache, path_);
    umask(before);
    EXPECT_EQ(fs::status(path_).permissions(), static_cast<fs::perms>(0666 & ~mask));
  }
}

TEST_F(Saving, WhatIsNoFileIsNotReplaced) {
  Handle cache = open_cache(name_, options_for(5, 1 << 20));
  ASSERT_EQ(symlink("nowhere", folder_.file("dangling").c_str()), 0);
  ASSERT_EQ(mkfifo(folder_.file("pipe").c_str(), 0600), 0);
  fs::create_directory(folder_.file("directory"));
  for (const char *name : {"dangling", "pipe", "directory", "directory/", ""}) {
    dc_error error = {};
    EXPECT_EQ(dc_cache_save(cache, folder_.file(name).c_str(), nullptr, nullptr, nullptr, &error), DC_ERROR_ARGUMENT)
        << name << ": " << error.message;
  }
  dc_error error = {};
  EXPECT_EQ(dc_cache_save(cache, "/dev/null", nullptr, nullptr, nullptr, &error), DC_ERROR_ARGUMENT) << error.message;
  EXPECT_EQ(dc_cache_save(cache, folder_.file("no/such").c_str(), nullptr, nullptr, nullptr, &error), DC_ERROR_SYSTEM);
  EXPECT_EQ(dc_cache_save(cache, nullptr, nullptr, nullptr, nullptr, &error), DC_ERROR_ARGUMENT);
  EXPECT_TRUE(fs::exists("/dev/null"));
  EXPECT_EQ(folder_.names().size(), 3u);
}

// What a caller hears, and where he stops it.
struct Listener {
  std::vector<std::pair<uint64_t, uint64_t>> heard;
  size_t stop_at = SIZE_MAX;
};
int32_t listen(uint64_t done, uint64_t total, void *user) {
  Listener *listener = static_cast<Listener *>(user);
  listener->heard.emplace_back(done, total);
  return listener->heard.size() > listener->stop_at ? 7 : 0;
}

TEST_F(Saving, ProgressIsHeardFromTheStartToTheEnd) {
  Handle cache = open_cache(name_, options_for(40, 260 << 20, 5 << 20));
  for (int64_t i = 0; i < 40; ++i) ASSERT_EQ(put(cache, i, 5 << 20), DC_OK);
  Listener saver, restorer;
  ASSERT_EQ(dc_cache_save(cache, path_.c_str(), listen, &saver, nullptr, nullptr), DC_OK);
  cache.close();
  dc_cache *back = nullptr;
  ASSERT_EQ(
      dc_cache_restore(path_.c_str(), other_.c_str(), nullptr, nullptr, nullptr, listen, &restorer, &back, nullptr),
      DC_OK);
  Handle closing(back);
  for (const Listener *listener : {&saver, &restorer}) {
    ASSERT_GE(listener->heard.size(), 5u);
    EXPECT_EQ(listener->heard.front().first, 0u);
    EXPECT_EQ(listener->heard.back().first, fs::file_size(path_));
    EXPECT_EQ(listener->heard.back().second, fs::file_size(path_));
    for (size_t i = 0; i < listener->heard.size(); ++i) {
      EXPECT_LE(listener->heard[i].first, listener->heard[i].second);
      EXPECT_NEAR(static_cast<double>(listener->heard[i].second), static_cast<double>(fs::file_size(path_)), 1e6);
      if (i == 0) continue;
      EXPECT_GE(listener->heard[i].first, listener->heard[i - 1].first);
      EXPECT_LE(listener->heard[i].first - listener->heard[i - 1].first, 70u << 20);
    }
  }
}

TEST_F(Saving, StoppedAtAnyMomentItLeavesWhatWasThere) {
  Handle cache = open_cache(name_, options_for(40, 260 << 20, 5 << 20));
  for (int64_t i = 0; i < 40; ++i) ASSERT_EQ(put(cache, i, 5 << 20), DC_OK);
  write_bytes(path_, "old");
  Listener all;
  for (size_t stop_at = 0;; ++stop_at) {
    Listener listener;
    listener.stop_at = stop_at;
    const int32_t status = dc_cache_save(cache, path_.c_str(), listen, &listener, nullptr, nullptr);
    if (status == DC_OK) break;
    ASSERT_EQ(status, DC_INTERRUPTED);
    ASSERT_EQ(bytes_of(path_), "old");
    ASSERT_EQ(folder_.names().size(), 1u);
  }
  for (size_t stop_at = 0;; ++stop_at) {
    Listener listener;
    listener.stop_at = stop_at;
    dc_cache *back = nullptr;
    const int32_t status =
        dc_cache_restore(path_.c_str(), other_.c_str(), nullptr, nullptr, nullptr, listen, &listener, &back, nullptr);
    Handle closing(back);
    if (status == DC_OK) break;
    ASSERT_EQ(status, DC_INTERRUPTED);
    ASSERT_FALSE(other_.exists());
  }
}

TEST_F(Saving, ItsHeaderDescribesAFile) {
  Handle cache = open_cache(name_, options_for(100, 8 << 20, 0, 40'000), "digits v1");
  for (int64_t i = 0; i < 10; ++i) ASSERT_EQ(put(cache, i, static_cast<uint64_t>(3000 * i)), DC_OK);
  save(cache, path_);
  const dc_saved_info info = saved_info(path_);
  EXPECT_EQ(info.length, 100);
  EXPECT_EQ(info.samples, 10);
  EXPECT_EQ(info.sample_bytes_max, 40'000u);
  EXPECT_EQ(info.file_bytes, fs::file_size(path_));
  EXPECT_EQ(info.largest_bytes, 27'000u + 64);
  EXPECT_EQ(info.record_bytes + 4096 + 10 * 16, info.file_bytes);
  EXPECT_STREQ(info.fingerprint, "digits v1");
  EXPECT_STREQ(info.name, name_.c_str());
  EXPECT_STREQ(info.uuid, info_of(cache).uuid);
  EXPECT_STREQ(info.library, dc_version());
  dc_error error = {};
  dc_saved_info unsized = {};
  EXPECT_EQ(dc_saved_info_get(path_.c_str(), &unsized, &error), DC_ERROR_ARGUMENT);
}

TEST_F(Saving, AFileThatIsGivenUpKeepsNoSpaceInAChildThatHasItOpen) {
  int inherited = -1;
  {
    Replacement given_up;
    ASSERT_EQ(given_up.begin(path_, Replacement::Making::unnamed_if_possible).code(), DC_OK);
    ASSERT_EQ(pwrite(given_up.fd(), "half", 4, 0), 4);
    inherited = dup(given_up.fd());
  }
  struct stat properties;
  ASSERT_EQ(fstat(inherited, &properties), 0);
  EXPECT_EQ(properties.st_size, 0);
  ::close(inherited);
}

// As on a file system without unnamed files.
TEST_F(Saving, ATemporaryFileIsInUseAsLongAsItsMakerHoldsItsLock) {
  const auto begin = [this](Replacement *file) { return file->begin(path_, Replacement::Making::named).code(); };
  {
    Replacement first, second;
    ASSERT_EQ(begin(&first), DC_OK);
    ASSERT_EQ(begin(&second), DC_OK);
    EXPECT_EQ(folder_.names().size(), 2u) << "the second leaves the first one's file alone";
    ASSERT_EQ(pwrite(first.fd(), "one", 3, 0), 3);
    ASSERT_EQ(pwrite(second.fd(), "two", 3, 0), 3);
    EXPECT_EQ(first.publish().code(), DC_OK);
    EXPECT_EQ(bytes_of(path_), "one");
    EXPECT_EQ(second.publish().code(), DC_OK);
    EXPECT_EQ(bytes_of(path_), "two");
  }
  {
    Replacement given_up;
    ASSERT_EQ(begin(&given_up), DC_OK);
  }
  EXPECT_EQ(folder_.names().size(), 1u);
  write_bytes(folder_.file(".ddpcache-saving-0123456789abcdef"), "of a maker that was killed");
  write_bytes(folder_.file("ddpcache-saving-0123456789abcdef"), "of somebody else");
  ASSERT_EQ(symlink("/dev/null", folder_.file(".ddpcache-saving-link").c_str()), 0);
  {
    Replacement next;
    ASSERT_EQ(begin(&next), DC_OK);
    EXPECT_FALSE(fs::exists(folder_.file(".ddpcache-saving-0123456789abcdef")));
    EXPECT_TRUE(fs::exists(folder_.file("ddpcache-saving-0123456789abcdef")));
    EXPECT_TRUE(fs::is_symlink(folder_.file(".ddpcache-saving-link")));
  }
}

}  // namespace
}  // namespace ddpcache::test
