// Processes that only look: killed, forked, stopped in the middle of a copy, on a file system mounted read only.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "actors.hpp"
#include "mounts.hpp"

namespace ddpcache::test {
namespace {

dc_cache_options droppable(uint64_t sample_bytes) {
  dc_cache_options options = options_for(1000, 64 << 10, sample_bytes);
  options.droppable = 1;
  return options;
}

std::string attach_command(const CacheName &name) { return std::string("attach-read-only ") + name.c_str(); }

// Stopped between its look at the head and its copy, while another sample takes the extent.
TEST(ReadOnlyProcess, ThatCopiesAnExtentWhichChangesHandsTellsItFromItsOwn) {
  const CacheName name;
  const Handle cache = open_cache(name, droppable(8192));
  int64_t room = 0;
  while (put(cache, room, 8192) == DC_OK) ++room;
  ASSERT_GT(room, 3);
  for (const bool stored_again : {false, true}) {
    Actor reader({.fault = "head-copied:stop"});
    ASSERT_EQ(reader.ask(attach_command(name)), "0");
    reader.tell("get 1 8192");
    reader.await_stop();
    ASSERT_EQ(dc_cache_remove(cache, 1), DC_OK);
    const int64_t successor = stored_again ? 901 : 900;
    ASSERT_EQ(put(cache, successor, 8192), DC_OK) << "a reader that names nothing holds up nobody";
    if (stored_again) {
      ASSERT_EQ(dc_cache_remove(cache, 2), DC_OK);
      ASSERT_EQ(put(cache, 1, 8192), DC_OK);
    }
    reader.signal(SIGCONT);
    EXPECT_EQ(reader.hear(), stored_again ? "1" : "0");
    EXPECT_EQ(reader.ask("get " + std::to_string(successor) + " 8192"), "1");
    if (!stored_again) {
      ASSERT_EQ(dc_cache_remove(cache, 900), DC_OK);
      ASSERT_EQ(put(cache, 1, 8192), DC_OK);
    }
  }
  report_of(cache);
}

// The same, while a larger sample of the same index takes the extent: the entry leads to the same place, at another
// generation.
TEST(ReadOnlyProcess, ThatCopiesAnExtentWhichItsOwnIndexFillsAnewShowsTheNewSample) {
  const CacheName name;
  const Handle cache = open_cache(name, droppable(8192));
  ASSERT_EQ(put(cache, 1, 4096), DC_OK);
  Actor reader({.fault = "head-copied:stop"});
  ASSERT_EQ(reader.ask(attach_command(name)), "0");
  reader.tell("look 1 8192");
  reader.await_stop();
  ASSERT_EQ(dc_cache_remove(cache, 1), DC_OK);
  ASSERT_EQ(put(cache, 1, 8192), DC_OK);
  reader.signal(SIGCONT);
  EXPECT_EQ(reader.hear(), "right");
  report_of(cache);
}

TEST(ReadOnlyProcess, ThatIsKilledLeavesNothingBehind) {
  const CacheName name;
  Handle cache = open_cache(name, options_for(100, 1 << 20));
  ASSERT_EQ(put(cache, 1, 1000), DC_OK);
  Actor reader;
  ASSERT_EQ(reader.ask(attach_command(name)), "0");
  ASSERT_EQ(reader.ask("view 1"), "0");
  ASSERT_EQ(reader.ask("view-right 1000"), "1");
  reader.kill_and_reap();
  EXPECT_EQ(report_of(cache).clients, 1u);
  cache.close();
  EXPECT_FALSE(name.exists());
}

TEST(ReadOnlyProcess, ThatIsKilledAsTheLastLeavesTheFileToGc) {
  const CacheName name;
  Handle cache = open_cache(name, options_for(100, 1 << 20));
  Actor reader;
  ASSERT_EQ(reader.ask(attach_command(name)), "0");
  cache.close();
  EXPECT_TRUE(name.exists()) << "it is attached";
  int32_t removed = 0;
  ASSERT_EQ(dc_cache_gc(nullptr, &removed, nullptr), DC_OK);
  EXPECT_TRUE(name.exists());
  reader.kill_and_reap();
  ASSERT_EQ(dc_cache_gc(nullptr, &removed, nullptr), DC_OK);
  EXPECT_FALSE(name.exists());
}

TEST(ReadOnlyProcess, ReadsOnInItsChildrenWhichKeepTheCacheByThemselves) {
  for (const char *fork_command : {"fork", "raw-fork"}) {
    for (const uint32_t drops : {0u, 1u}) {
      const CacheName name;
      dc_cache_options options = options_for(100, 1 << 20);
      options.droppable = drops;
      Handle cache = open_cache(name, options);
      ASSERT_EQ(put(cache, 1, 1000), DC_OK);
      Actor reader;
      ASSERT_EQ(reader.ask(attach_command(name)), "0");
      ASSERT_EQ(reader.ask("view 1"), "0");
      EXPECT_EQ(reader.ask("in-child get 1 1000"), "1");
      EXPECT_EQ(reader.ask("in-child view-right 1000"), "1");
      EXPECT_EQ(reader.ask("in-child put 2 1000"), std::to_string(DC_ERROR_UNSUPPORTED));
      EXPECT_EQ(reader.ask("in-child close"), "0") << "its own, not its parent's";
      const pid_t child = std::stoi(reader.ask(fork_command));
      EXPECT_EQ(reader.ask("get 1 1000"), "1");
      reader.signal(SIGKILL);  // the parent; the child answers
      reader.await_zombie();
      cache.close();
      EXPECT_TRUE(name.exists()) << "the child keeps it";
      EXPECT_EQ(reader.ask("get 1 1000"), "1");
      EXPECT_EQ(reader.ask("close"), "0");
      EXPECT_FALSE(name.exists());
      ::kill(child, SIGKILL);
    }
  }
}

TEST(ReadOnlyProcess, GoesOnReadingWithoutItsDescriptor) {
  const CacheName name;
  Handle cache = open_cache(name, options_for(100, 1 << 20));
  ASSERT_EQ(put(cache, 1, 1000), DC_OK);
  Actor reader;
  ASSERT_EQ(reader.ask(attach_command(name)), "0");
  ASSERT_EQ(reader.ask("close-descriptors"), "0");
  EXPECT_EQ(reader.ask("get 1 1000"), "1");
  EXPECT_EQ(reader.ask("put 2 1000"), std::to_string(DC_ERROR_UNSUPPORTED));
  EXPECT_EQ(reader.ask("close"), "0");
}

class ReadOnlyMount : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!may_unshare()) GTEST_SKIP() << "making namespaces and mounts is not permitted here";
    ASSERT_EQ(reader_.ask("bind-read-only " + place_.path()), "0");
    ASSERT_EQ(reader_.ask("in " + place_.path()), "0");
  }

  const CacheName name_;
  const TemporaryDirectory place_;
  Actor reader_;
};

TEST_F(ReadOnlyMount, IsEnoughToLookAtACacheAndKeepIt) {
  for (const uint32_t drops : {0u, 1u}) {
    dc_cache_options options = options_for(100, 1 << 20);
    options.droppable = drops;
    Handle cache = open_cache(name_, options);
    ASSERT_EQ(put(cache, 1, 1000), DC_OK);
    EXPECT_NE(reader_.ask(std::string("attach ") + name_.c_str()), "0") << "the mount is not read only";
    ASSERT_EQ(reader_.ask(attach_command(name_)), "0");
    EXPECT_EQ(reader_.ask("get 1 1000"), "1");
    EXPECT_EQ(reader_.ask("put 2 1000"), std::to_string(DC_ERROR_UNSUPPORTED));
    ASSERT_EQ(put(cache, 2, 1000), DC_OK);
    EXPECT_EQ(reader_.ask("get 2 1000"), "1");
    EXPECT_EQ(reader_.ask("in-child get 2 1000"), "1");
    cache.close();
    EXPECT_TRUE(name_.exists()) << "it is held through the other mount";
    EXPECT_EQ(reader_.ask("get 2 1000"), "1");
    EXPECT_EQ(reader_.ask("close"), "0");
    EXPECT_TRUE(name_.exists()) << "it could not be removed there";
    int32_t removed = 0;
    EXPECT_EQ(dc_cache_gc(nullptr, &removed, nullptr), DC_OK);
    EXPECT_FALSE(name_.exists());
  }
}

TEST_F(ReadOnlyMount, WaitsForTheSameLockFileAsOthers) {
  const Handle cache = open_cache(name_, options_for(100, 1 << 20));
  Actor holder;
  ASSERT_EQ(holder.ask("hold-lock /dev/shm"), "0");
  reader_.tell(attach_command(name_));
  usleep(200'000);
  holder.kill_and_reap();
  EXPECT_EQ(reader_.hear(), "0");
}

}  // namespace
}  // namespace ddpcache::test
