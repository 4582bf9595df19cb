// Saves and restores that are killed, stopped or made at once.
#include "ddpcache/saving.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "actors.hpp"
#include "mounts.hpp"

namespace ddpcache::test {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kBytes = 20'000;
constexpr int64_t kSamples = 300;  // more than a buffer of them

std::string test_name(const ::testing::TestParamInfo<const char *> &point) {
  std::string name = point.param;
  name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
  return name;
}

// A cache with samples, its file, and a name for another one.
class Files : public ::testing::Test {
 protected:
  Files() {
    for (int64_t i = 0; i < kSamples; ++i) EXPECT_EQ(put(cache_, i, kBytes), DC_OK);
  }

  void save() const { ASSERT_EQ(dc_cache_save(cache_, path_.c_str(), nullptr, nullptr, nullptr, nullptr), DC_OK); }
  int64_t samples_in_file() const {
    dc_saved_info info = {};
    info.struct_size = sizeof info;
    return dc_saved_info_get(path_.c_str(), &info, nullptr) == DC_OK ? info.samples : -1;
  }
  auto files() const { return std::distance(fs::directory_iterator(folder_), fs::directory_iterator()); }
  std::string attach_it() const { return std::string("attach ") + name_.c_str(); }
  std::string save_it() const { return "save " + path_; }
  std::string restore_it(int64_t timeout_ms = 60'000, bool forks = false) const {
    return "restore " + path_ + " " + other_.c_str() + " " + std::to_string(timeout_ms) + (forks ? " 1" : " 0");
  }
  // Restores here: whether this process read the file, and all is there.
  bool restored() const {
    dc_cache *restored = nullptr;
    dc_error error = {};
    EXPECT_EQ(
        dc_cache_restore(path_.c_str(), other_.c_str(), nullptr, nullptr, nullptr, nullptr, nullptr, &restored, &error),
        DC_OK)
        << error.message;
    const Handle cache(restored);
    for (int64_t i = 0; i < kSamples; ++i) EXPECT_TRUE(holds(cache, i, kBytes));
    report_of(cache);
    return info_of(cache).created;
  }

  const TemporaryDirectory directory_;
  const std::string &folder_ = directory_.path();
  const std::string path_ = folder_ + "/cache";
  const CacheName name_, other_;
  const Handle cache_ = open_cache(name_, options_for(kSamples, 16 << 20, kBytes));
};

class SavePoint : public Files, public ::testing::WithParamInterface<const char *> {};

INSTANTIATE_TEST_SUITE_P(Save, SavePoint,
                         ::testing::Values("save-begun", "save-record", "save-written", "save-synced", "save-linked",
                                           "save-renamed"),
                         test_name);

TEST_P(SavePoint, WhereItIsKilledLeavesTheOldFileOrTheNewOne) {
  save();
  ASSERT_EQ(samples_in_file(), kSamples);
  const fs::path old = folder_ + "/old";
  fs::create_hard_link(path_, old);
  Actor saver({std::string(GetParam()) + ":kill"});
  ASSERT_EQ(saver.ask(attach_it()), "0");
  EXPECT_EQ(saver.ask(save_it()), "");
  EXPECT_EQ(saver.reap(), SIGKILL);
  const std::string point = GetParam();
  EXPECT_EQ(fs::equivalent(path_, old), point != "save-renamed");
  EXPECT_EQ(samples_in_file(), kSamples);
  EXPECT_EQ(files(), point == "save-linked" ? 3 : 2);
  save();
  EXPECT_EQ(files(), 2) << "the next save removes what a dead one left";
  EXPECT_TRUE(restored());
}

TEST_P(SavePoint, WhereItIsKilledLeavesNoFileWhereThereWasNone) {
  Actor saver({std::string(GetParam()) + ":kill"});
  ASSERT_EQ(saver.ask(attach_it()), "0");
  const bool passes = std::string(GetParam()) == "save-linked";  // not where nothing has the name
  EXPECT_EQ(saver.ask(save_it()), passes ? "0 300" : "");
  const bool there = passes || std::string(GetParam()) == "save-renamed";
  EXPECT_EQ(fs::exists(path_), there);
  EXPECT_EQ(files(), there ? 1 : 0);
  EXPECT_EQ(samples_in_file(), there ? kSamples : -1);
}

// Its temporary file has a name, and is locked: nobody takes it for a dead one's.
TEST_F(Files, ASaveThatIsStoppedKeepsItsFile) {
  save();
  Actor saver({"save-linked:stop"});
  ASSERT_EQ(saver.ask(attach_it()), "0");
  saver.tell(save_it());
  saver.await_stop();
  EXPECT_EQ(files(), 2);
  save();
  EXPECT_EQ(files(), 2);
  saver.signal(SIGCONT);
  EXPECT_EQ(saver.hear(), "0 300");
  EXPECT_EQ(files(), 1);
  EXPECT_TRUE(restored());
}

class RestorePoint : public Files, public ::testing::WithParamInterface<const char *> {};

INSTANTIATE_TEST_SUITE_P(Restore, RestorePoint,
                         ::testing::Values("unnamed", "header-written", "registering", "restore-begun",
                                           "restore-record", "restore-verified", "before-link", "linked"),
                         test_name);

TEST_P(RestorePoint, WhereItIsKilledNobodySeesHalfACache) {
  save();
  Actor restorer({std::string(GetParam()) + ":kill"});
  EXPECT_EQ(restorer.ask(restore_it()), "");
  EXPECT_EQ(restorer.reap(), SIGKILL);
  const bool linked = std::string(GetParam()) == "linked";
  EXPECT_EQ(other_.exists(), linked);
  EXPECT_EQ(restored(), !linked);
}

TEST_P(RestorePoint, WhereItIsKilledItsTurnGoesToWhoWaits) {
  save();
  Actor restorer({std::string(GetParam()) + ":stop"});
  Actor waiter;
  restorer.tell(restore_it());
  restorer.await_stop();
  waiter.tell(restore_it());
  usleep(100'000);
  restorer.kill_and_reap();
  // What was linked is garbage, which a creation of a test beside this one may have removed by now.
  const std::string heard = waiter.hear();
  EXPECT_TRUE(heard == "0 1" || (std::string(GetParam()) == "linked" && heard == "0 0")) << heard;
  EXPECT_FALSE(restored()) << "the waiter has it open";
}

TEST_F(Files, WhoWaitsForARestoreThatStandsStillIsToldHowFarItIs) {
  save();
  Actor restorer({"restore-record:stop:250"});
  Actor waiter;
  restorer.tell(restore_it());
  restorer.await_stop();
  const std::string answer = waiter.ask(restore_it(300));
  EXPECT_EQ(answer.substr(0, 3), std::to_string(DC_ERROR_LOCKED)) << answer;
  EXPECT_NE(answer.find("another process is restoring"), std::string::npos) << answer;
  EXPECT_NE(answer.find("it had come to 69."), std::string::npos) << "after the first 4 MiB of 6: " << answer;
  EXPECT_FALSE(other_.exists());
  restorer.signal(SIGCONT);
  EXPECT_EQ(restorer.hear(), "0 1");
}

TEST_F(Files, OfManyThatRestoreAtOnceExactlyOneReads) {
  save();
  std::vector<std::unique_ptr<Actor>> ranks;
  for (int i = 0; i < 8; ++i) ranks.push_back(std::make_unique<Actor>());
  for (const auto &rank : ranks) rank->tell(restore_it());
  int created = 0;
  for (const auto &rank : ranks) {
    const std::string answer = rank->hear();
    EXPECT_EQ(answer.substr(0, 2), "0 ") << answer;
    created += answer == "0 1";
  }
  EXPECT_EQ(created, 1);
  for (const auto &rank : ranks) EXPECT_EQ(rank->ask("get 299 20000"), "1");
  EXPECT_FALSE(restored());
}

// A child that was forked in the middle of a restore does not hold its parent's turn.
TEST_F(Files, AChildOfARestorerThatIsKilledStopsNobody) {
  save();
  Actor restorer({"before-link:stop"});  // behind the last call of progress, which forks
  restorer.tell(restore_it(60'000, true));
  restorer.await_stop();
  restorer.kill_and_reap();
  Actor next;
  EXPECT_EQ(next.ask(restore_it(300)), "0 1");
}

// Writes over what is free of the stack of a thread.
[[gnu::noinline]] void write_over_stack() {
  volatile uint8_t bytes[512 << 10];
  for (volatile uint8_t &byte : bytes) byte = 0xA5;
}

// The threads of such a child get the stacks of those that it has not inherited, the restoring one's among them.
TEST_F(Files, AChildOfAnotherThreadGoesOnWhileThisOneRestores) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer ends a child of several threads that starts one";
#endif
  save();
  struct Meeting {
    std::atomic<bool> begun{false}, over{false};
  } meeting;
  const dc_progress meet = [](uint64_t done, uint64_t, void *user) -> int32_t {
    Meeting *with = static_cast<Meeting *>(user);
    if (done > 0) with->begun = true;
    while (done > 0 && !with->over) usleep(1000);
    return 0;
  };
  dc_cache *cache = nullptr;
  std::thread restorer([&] {
    dc_cache_restore(path_.c_str(), other_.c_str(), nullptr, nullptr, nullptr, meet, &meeting, &cache, nullptr);
  });
  while (!meeting.begun) usleep(1000);
  const CacheName name;
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) threads.emplace_back(write_over_stack);
    for (std::thread &thread : threads) thread.join();
    Handle opened = open_cache(name, options_for(1, 1 << 20, 64));
    _exit(put(opened, 0, 64) == DC_OK && opened.close() == DC_OK ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  meeting.over = true;
  restorer.join();
  EXPECT_NE(static_cast<dc_cache *>(Handle(cache)), nullptr);
}

// What a progress that forks in the middle, and returns in both, makes of a call: the child's status, 0 in the parent.
struct Forking {
  pid_t child = -1;
  static int32_t once(uint64_t done, uint64_t, void *user) {
    Forking *own = static_cast<Forking *>(user);
    if (done > 0 && own->child == -1) own->child = fork();
    return 0;
  }
  // In the child, where it ends; in the parent, what the child said.
  int32_t status_in_child(int32_t here) const {
    if (child == 0) _exit(-here);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << status;
    return -WEXITSTATUS(status);
  }
};

TEST_F(Files, AChildThatComesBackFromProgressHasNoPartInTheSave) {
  Forking forking;
  int64_t saved = 0;
  const int32_t status = dc_cache_save(cache_, path_.c_str(), Forking::once, &forking, &saved, nullptr);
  EXPECT_EQ(forking.status_in_child(status), DC_ERROR_STATE);
  EXPECT_EQ(status, DC_OK);
  EXPECT_EQ(saved, kSamples);
  EXPECT_TRUE(restored());
}

TEST_F(Files, AChildThatComesBackFromProgressHasNoPartInTheRestore) {
  save();
  Forking forking;
  dc_cache *cache = nullptr;
  const int32_t status = dc_cache_restore(path_.c_str(), other_.c_str(), nullptr, nullptr, nullptr, Forking::once,
                                          &forking, &cache, nullptr);
  EXPECT_EQ(forking.status_in_child(status), DC_ERROR_STATE);
  EXPECT_EQ(status, DC_OK);
  const Handle opened(cache);
  for (int64_t i = 0; i < kSamples; ++i) EXPECT_TRUE(holds(opened, i, kBytes));
}

// As every creation does.
TEST_F(Files, ARestoreOverAKeptCacheRemovesWhatACrashLeft) {
  save();
  dc_cache_options options = options_for(kSamples, 16 << 20, kBytes);
  options.keep = 1;
  open_cache(other_, options).close();
  const CacheName left;
  Actor victim;
  ASSERT_EQ(victim.ask(std::string("open ") + left.c_str() + " 10 1048576 64 8 0 0"), "0");
  victim.kill_and_reap();
  ASSERT_TRUE(left.exists());
  EXPECT_TRUE(restored());
  EXPECT_FALSE(left.exists());
}

// Others fill and leave while the cache is saved.
TEST_F(Files, AClientThatIsKilledWhileItFillsSpoilsNoFile) {
  const CacheName name;
  const Handle cache = open_cache(name, options_for(1000, 32 << 20, kBytes));
  Actor filler({"before-publish:kill:200"});
  ASSERT_EQ(filler.ask(std::string("attach ") + name.c_str()), "0");
  std::vector<std::string> answers;
  for (int64_t i = 0; i < 200; ++i) filler.tell("put " + std::to_string(i) + " 20000");
  int64_t saved = 0;
  for (int round = 0; round < 5; ++round) {
    ASSERT_EQ(dc_cache_save(cache, path_.c_str(), nullptr, nullptr, &saved, nullptr), DC_OK);
    EXPECT_EQ(samples_in_file(), saved);
  }
  EXPECT_EQ(filler.reap(), SIGKILL);
  ASSERT_EQ(dc_cache_save(cache, path_.c_str(), nullptr, nullptr, &saved, nullptr), DC_OK);
  EXPECT_EQ(saved, 199);
}

class SmallDisk : public Files {
 protected:
  void SetUp() override {
    if (!may_unshare()) GTEST_SKIP() << "no mount namespaces for this user";
  }
};

// A /dev/shm of 16 MiB holds the cache, and a file that must be written beside it.
TEST_F(SmallDisk, AFileThatDoesNotFitIsAnErrorWithWhatIsNeededAndNothingIsLeft) {
  Actor saver({.fault = "", .pid_namespace = false, .shm_megabytes = 16});
  ASSERT_EQ(saver.ask("open it 400 8388608 20000 8 0 0"), "0");
  for (int i = 0; i < 350; ++i) ASSERT_EQ(saver.ask("put " + std::to_string(i) + " 20000"), "0");
  ASSERT_EQ(saver.ask("save /dev/shm/first"), "0 350");
  const std::string files = saver.ask("files /dev/shm");
  const std::string answer = saver.ask("save /dev/shm/second");
  EXPECT_EQ(answer.substr(0, 3), std::to_string(DC_ERROR_NO_SPACE)) << answer;
  EXPECT_NE(answer.find("needs 6.7"), std::string::npos) << answer;
  EXPECT_NE(answer.find("free"), std::string::npos) << answer;
  EXPECT_EQ(saver.ask("files /dev/shm"), files);
  // Nor is there room for a second cache, and that is known before the file is read.
  const std::string restored = saver.ask("restore /dev/shm/first another 1000 0");
  EXPECT_EQ(restored.substr(0, 3), std::to_string(DC_ERROR_NO_SPACE)) << restored;
  EXPECT_EQ(saver.ask("files /dev/shm"), files);
}

// It fits when the save begins, and another takes the space meanwhile.
TEST_F(SmallDisk, SpaceThatEndsInTheMiddleLeavesTheOldFile) {
  Actor saver({.fault = "save-record:stop:10", .pid_namespace = false, .shm_megabytes = 24});
  ASSERT_EQ(saver.ask("open it 400 8388608 20000 8 0 0"), "0");
  for (int i = 0; i < 350; ++i) ASSERT_EQ(saver.ask("put " + std::to_string(i) + " 20000"), "0");
  saver.tell("save /dev/shm/first");
  saver.await_stop();
  const std::string hog = "/proc/" + std::to_string(saver.pid()) + "/root/dev/shm/hog";
  const int fd = open(hog.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  for (off_t at = 0; fallocate(fd, 0, at, 4096) == 0;) at += 4096;
  close(fd);
  saver.signal(SIGCONT);
  const std::string answer = saver.hear();
  EXPECT_EQ(answer.substr(0, 3), std::to_string(DC_ERROR_NO_SPACE)) << answer;
  EXPECT_EQ(saver.ask("unhog"), "0");
  EXPECT_EQ(saver.ask("files /dev/shm"), "2") << "the cache and the lock file";
  EXPECT_EQ(saver.ask("save /dev/shm/first"), "0 350");
}

// A step is at least a page, and each size class that is in use takes one.
TEST_F(Files, AFileOfManySizesFitsWherePagesAreHuge) {
  const HugePagePool pool(60);
  Mount mount;
  if (pool.pages() < 60) GTEST_SKIP() << "there are no 60 huge pages of 2 MiB to be had";
  if (!mount.mount("hugetlbfs", "pagesize=2M")) GTEST_SKIP() << "mounting a hugetlbfs is not permitted here";
  const CacheName name, restored(mount.path().c_str());
  const Handle cache = open_cache(name, options_for(100, 8 << 20, 0, 40'000));
  for (int64_t i = 0; i < 100; ++i) ASSERT_EQ(put(cache, i, static_cast<uint64_t>(400 * i)), DC_OK);
  ASSERT_EQ(dc_cache_save(cache, path_.c_str(), nullptr, nullptr, nullptr, nullptr), DC_OK);
  dc_cache *opened = nullptr;
  dc_error error = {};
  EXPECT_EQ(dc_cache_restore(path_.c_str(), restored.c_str(), restored.directory(), nullptr, nullptr, nullptr, nullptr,
                             &opened, &error),
            DC_OK)
      << error.message;
  const Handle there(opened);
  for (int64_t i = 0; opened && i < 100; ++i) EXPECT_TRUE(holds(there, i, static_cast<uint64_t>(400 * i)));
}

TEST_F(Files, ALimitOnTheSizeOfFilesIsAnErrorAndNoSignal) {
  Actor saver;
  ASSERT_EQ(saver.ask(attach_it()), "0");
  ASSERT_EQ(saver.ask("limit-file-size 5000000"), "0");
  const std::string answer = saver.ask(save_it());
  EXPECT_EQ(answer.substr(0, 3), std::to_string(DC_ERROR_NO_SPACE)) << answer;
  EXPECT_NE(answer.find("ulimit -f"), std::string::npos) << answer;
  EXPECT_EQ(files(), 0);
}

}  // namespace
}  // namespace ddpcache::test
