// What is believed of a cache on a disk after a reboot. The reboots are real to the cache: the boot that the file names
// is changed; power cuts are real to the file system: it is stopped at once, and mounted again with what the device
// has. Whatever is found there, a reader gets the right bytes or none, and what is missing can be filled.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../support/segment_file.hpp"
#include "actors.hpp"
#include "mounts.hpp"
#include "record.hpp"

namespace ddpcache::test {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr int64_t kLength = 200;
constexpr uint64_t kBytes = 20'000;

uint64_t chosen_seed() {
  const char *wish = std::getenv("DDPCACHE_TEST_SEED");
  return wish ? std::strtoull(wish, nullptr, 0) : std::random_device()();
}

class OnDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!mount_.format_and_mount("ext4", 64, &why)) GTEST_SKIP() << why;
    name_.emplace(mount_.path().c_str());
  }
  void TearDown() override { name_.reset(); }

  static dc_cache_options options(bool droppable = false) {
    dc_cache_options options = options_for(kLength, 12 * kMiB);
    options.keep = 1;
    options.droppable = droppable;
    return options;
  }
  Handle open_it(bool droppable = false) const { return open_cache(*name_, options(droppable)); }

  // An actor that has the cache open, made as options() says.
  std::unique_ptr<Actor> actor(bool droppable = false, const std::string &fault = "") const {
    auto made = std::make_unique<Actor>(Stage{fault});
    EXPECT_EQ(made->ask("in " + mount_.path()), "0");
    EXPECT_EQ(made->ask(open_line(droppable)), "0");
    return made;
  }
  std::string open_line(bool droppable = false) const {
    return std::string("open ") + name_->c_str() + " 200 12582912 0 64 0 " + (droppable ? "1" : "0") + " 1";
  }
  // A cache that nobody closed: its only client was killed with a fill open and `stored` samples in it.
  void leave_unclosed(int64_t stored, bool droppable = false) const {
    const auto client = actor(droppable);
    for (int64_t i = 0; i < stored; ++i) ASSERT_EQ(client->ask(order("put", i)), "0");
    ASSERT_EQ(client->ask("begin 150 0"), "0");
    ASSERT_EQ(client->ask("allocate 20000"), "0");
    client->kill_and_reap();
  }
  static std::string order(const char *verb, int64_t index) {
    return std::string(verb) + " " + std::to_string(index) + " " + std::to_string(kBytes);
  }
  // No boot has this hash.
  void reboot() const { SegmentFile(*name_)->control().boot.store(12345); }

  // Every sample is right or missing, what is missing can be filled, and then all is sound.
  void expect_right_or_refillable(dc_cache *cache) const {
    for (int64_t i = 0; i < kLength; ++i) {
      dc_view view = {};
      if (dc_cache_view(cache, i, &view) == DC_OK) {
        EXPECT_TRUE(view.bytes <= kBytes && has_pattern(view.data, view.bytes, i)) << "sample " << i;
        dc_cache_view_release(&view);
        continue;
      }
      Errand errand;
      errand.bytes = kBytes;
      ASSERT_EQ(dc_cache_load(cache, i, load_pattern, &errand, kSecond, &view), DC_OK) << "sample " << i;
      EXPECT_EQ(errand.runs, 1);
      EXPECT_TRUE(has_pattern(view.data, view.bytes, i)) << "sample " << i;
      dc_cache_view_release(&view);
    }
    const dc_cache_report report = report_of(cache);
    EXPECT_EQ(report.entries_ready, static_cast<uint64_t>(kLength));
    EXPECT_EQ(report.entries_unverified, 0u);
    EXPECT_EQ(report.extents_owned, static_cast<uint64_t>(kLength)) << "no piece is lost";
    EXPECT_EQ(stats_of(cache).resident, static_cast<uint64_t>(kLength));
  }

  Mount mount_;
  std::optional<CacheName> name_;
};

TEST_F(OnDisk, WithinOneBootAllIsTrustedWhoeverWasKilled) {
  leave_unclosed(100);
  const Handle cache = open_it();
  EXPECT_EQ(info_of(cache).adopted, 1u);
  EXPECT_EQ(report_of(cache).entries_unverified, 0u);
  EXPECT_EQ(report_of(cache).entries_ready, 100u);
  expect_right_or_refillable(cache);
}

TEST_F(OnDisk, AfterACleanCloseAnotherBootTrustsAll) {
  {
    const Handle cache = open_it();
    for (int64_t i = 0; i < 100; ++i) ASSERT_EQ(put(cache, i, kBytes), DC_OK);
    // One more client, whose record is in use when it is killed.
    const auto victim = actor();
    ASSERT_EQ(victim->ask("begin 150 0"), "0");
    ASSERT_EQ(victim->ask("allocate 20000"), "0");
    victim->kill_and_reap();
  }
  reboot();
  const Handle cache = open_it();
  const dc_cache_report report = report_of(cache);
  EXPECT_EQ(report.entries_unverified, 0u);
  EXPECT_EQ(report.entries_ready, 100u);
  EXPECT_EQ(report.entries_orphaned, 0u) << "the fill of a client of another boot is given back";
  EXPECT_EQ(report.clients, 1u);
  EXPECT_EQ(stats_of(cache).resident, 100u);
  expect_right_or_refillable(cache);
}

TEST_F(OnDisk, AfterAnUncleanOneEachSampleIsVerifiedAtItsFirstUse) {
  leave_unclosed(100);
  reboot();
  const Handle cache = open_it();
  dc_cache_report report = report_of(cache);
  EXPECT_EQ(report.entries_ready, 100u);
  EXPECT_EQ(report.entries_unverified, 100u);
  EXPECT_EQ(report.entries_orphaned + report.entries_writing, 0u);
  EXPECT_EQ(stats_of(cache).resident, 100u);
  for (int64_t i = 0; i < 40; ++i) EXPECT_TRUE(holds(cache, i, kBytes));
  uint8_t buffer[kBytes];
  EXPECT_EQ(dc_cache_read(cache, 40, 0, buffer, sizeof buffer, nullptr), DC_OK);
  EXPECT_TRUE(has_pattern(buffer, kBytes, 40));
  report = report_of(cache);
  EXPECT_EQ(report.entries_unverified, 59u);
  expect_right_or_refillable(cache);
}

// The file is not called closed any more as soon as somebody has it open.
TEST_F(OnDisk, ACloseIsForgottenByTheNextOpen) {
  open_it().close();
  leave_unclosed(50);
  reboot();
  const Handle cache = open_it();
  EXPECT_EQ(report_of(cache).entries_unverified, 50u);
}

TEST_F(OnDisk, DamageIsAMissThatIsFilledAgainWhetherOrNotSamplesCanBeRemoved) {
  for (const bool droppable : {false, true}) {
    leave_unclosed(100, droppable);
    {
      SegmentFile file(*name_);
      file.record_of(3)[kBytes / 2] ^= 1;                               // data
      std::memset(file.record_of(4), 0, 64);                            // a head that never reached the disk
      std::memset(file.record_of(5) + 4096, 0, 4096);                   // a page of data that did not
      std::memcpy(file.record_of(6), file.record_of(7), kBytes + 64);   // another sample's bytes, complete
      reinterpret_cast<RecordHead *>(file.record_of(8))->checksum = 0;  // never sealed
      reinterpret_cast<RecordHead *>(file.record_of(9))->record_bytes = UINT64_MAX;
    }
    reboot();
    Handle cache = open_it(droppable);
    for (int64_t i = 3; i < 10; ++i) {
      dc_view view = {};
      EXPECT_EQ(dc_cache_view(cache, i, &view), i == 7 ? DC_OK : DC_MISS) << i;
      dc_cache_view_release(&view);
    }
    EXPECT_EQ(report_of(cache).entries_bad, 0u);
    EXPECT_EQ(stats_of(cache).resident, 94u);
    expect_right_or_refillable(cache);
    cache.close();
    EXPECT_EQ(dc_cache_unlink(name_->c_str(), name_->directory(), nullptr), DC_OK);
  }
}

// What a power cut may leave of the words: pages that are older, empty or another life's.
TEST_F(OnDisk, AFillOfADamagedSampleBeginsAndOfARightOneDoesNot) {
  leave_unclosed(2);
  reboot();
  SegmentFile file(*name_);
  file.record_of(1)[5000] ^= 1;
  const Handle cache = open_it();
  EXPECT_EQ(put(cache, 0, kBytes), DC_PRESENT);
  EXPECT_EQ(put(cache, 1, kBytes), DC_OK);
  EXPECT_TRUE(holds(cache, 0, kBytes));
  EXPECT_TRUE(holds(cache, 1, kBytes));
  EXPECT_EQ(report_of(cache).entries_unverified, 0u);
}

TEST_F(OnDisk, TornWordsEndAsMissesOrRightValues) {
  using Damage = std::function<void(SegmentFile &)>;
  const std::vector<Damage> damages = {
      [](SegmentFile &f) { std::memset(static_cast<void *>(&f->entry(0)), 0, 50 * sizeof(Word)); },
      [](SegmentFile &f) { std::memset(static_cast<void *>(&f->control()), 0, kControlBytes); },
      [](SegmentFile &f) { std::memset(static_cast<void *>(&f->client(0)), 0xFF, 64 * sizeof(ClientRecord)); },
      [](SegmentFile &f) { f->step_word(f.entry(0).place().step).store(0); },
      [](SegmentFile &f) { f->step_word(f.entry(0).place().step).store(77777); },
      [](SegmentFile &f) {  // a step of another size class
        Word &step = f->step_word(f.entry(0).place().step);
        step.store(step.load() == 1 ? 2 : 1);
      },
      [](SegmentFile &f) { f->step_word(f->layout.steps - 1).store(1); },  // a step that was never reserved
      [](SegmentFile &f) { std::memset(static_cast<void *>(&f->extent_word(f.entry(5).place())), 0, 64); },
      [](SegmentFile &f) { f->extent_word(f.entry(5).place()).store(ExtentWord::owned(6, 0).bits()); },
      [](SegmentFile &f) { f->extent_word(f.entry(5).place()).store(ExtentWord::owned(kLength + 5, 0).bits()); },
      [](SegmentFile &f) { f.set_entry(7, EntryWord::ready(f.entry(7).generation(), f.entry(8).place())); },
      [](SegmentFile &f) { f.set_entry(7, f.entry(7).next_empty()); },
      [](SegmentFile &f) {
        f.set_entry(7, EntryWord::writing(3, {9, 4}));
      },
      [](SegmentFile &f) { f.set_entry(7, EntryWord(~uint64_t{0})); },
      [](SegmentFile &f) {
        f.set_entry(7, EntryWord::ready(0, {4095, 0xFFFFF}));
      },
      [](SegmentFile &f) { f->class_line(3).cursor.store(~uint64_t{0}); },
      [](SegmentFile &f) {  // two pieces that say they are sample 8's
        f->extent_word(f.entry(9).place()).store(ExtentWord::owned(8, f.entry(8).generation()).bits());
      },
  };
  for (size_t d = 0; d < damages.size(); ++d) {
    SCOPED_TRACE(::testing::Message() << "damage " << d);
    leave_unclosed(100);
    {
      SegmentFile file(*name_);
      damages[d](file);
    }
    reboot();
    Handle cache = open_it();
    expect_right_or_refillable(cache);
    cache.close();
    EXPECT_EQ(dc_cache_unlink(name_->c_str(), name_->directory(), nullptr), DC_OK);
  }
}

// Any word anywhere behind the header, in many rounds over one file; nothing is right any more but what verifies.
TEST_F(OnDisk, RandomDamageEndsAsMissesOrRightValues) {
  const uint64_t seed = chosen_seed();
  SCOPED_TRACE(::testing::Message() << "DDPCACHE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  leave_unclosed(100, true);
  for (int round = 0; round < 30; ++round) {
    {
      SegmentFile file(*name_);
      uint8_t *base = reinterpret_cast<uint8_t *>(&file->stored_header());
      for (int i = 0; i < 200; ++i) {
        // Only what is reserved: before recovery no client touches the rest, and recovery asks for it again.
        const uint64_t steps = 1 + random() % 2;
        const uint64_t until =
            random() % 2 ? file->layout.arena_offset : file->step_offset(static_cast<uint32_t>(steps));
        const uint64_t at = file->layout.control_offset + random() % (until - file->layout.control_offset - 8);
        const uint64_t bytes = random() % 4 == 0 ? std::min<uint64_t>(4096, until - at) : 1;
        random() % 2 ? std::memset(base + at, 0, bytes) : std::memset(base + at, static_cast<int>(random()), bytes);
      }
      file->control().keep.store(1);
      file->control().closure.store(0);
    }
    reboot();
    const Handle cache = open_it(true);
    ASSERT_EQ(info_of(cache).adopted, 1u);
    expect_right_or_refillable(cache);
    for (int64_t i = 0; i < kLength; i += 3) EXPECT_EQ(dc_cache_remove(cache, i), DC_OK);
  }
}

TEST_F(OnDisk, ManyReadersMayVerifyOneSampleAtOnce) {
  leave_unclosed(100);
  reboot();
  const Handle cache = open_it();
  std::vector<std::thread> readers;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    readers.emplace_back([&] {
      for (int64_t i = 0; i < 100; ++i) wrong += !holds(cache, i, kBytes);
    });
  }
  for (std::thread &reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(report_of(cache).entries_unverified, 0u);
  EXPECT_EQ(stats_of(cache).damaged, 0u);
}

TEST_F(OnDisk, AReaderThatIsKilledWhileVerifyingChangesNothing) {
  leave_unclosed(100);
  reboot();
  const auto reader = actor(false, "verifying:kill");
  EXPECT_EQ(reader->ask(order("get", 5)), "");
  EXPECT_EQ(reader->reap(), SIGKILL);
  const Handle cache = open_it();
  EXPECT_EQ(report_of(cache).entries_unverified, 100u);
  EXPECT_TRUE(holds(cache, 5, kBytes));
  expect_right_or_refillable(cache);
}

TEST_F(OnDisk, ASampleThatIsRemovedWhileItIsVerifiedIsAMiss) {
  leave_unclosed(100, true);
  reboot();
  const auto reader = actor(true, "verifying:stop");
  reader->tell(order("get", 5));
  reader->await_stop();
  const Handle cache = open_it(true);
  EXPECT_EQ(dc_cache_remove(cache, 5), DC_OK);
  // Its bytes are named by the reader, and are not written over.
  for (int64_t i = 101; i < kLength && put(cache, i, kBytes) == DC_OK; ++i) {
  }
  ASSERT_EQ(put(cache, 5, kBytes), DC_OK);
  reader->signal(SIGCONT);
  EXPECT_EQ(reader->hear(), "0") << "what it verified is no more";
  EXPECT_EQ(reader->ask(order("get", 5)), "1");
  expect_right_or_refillable(cache);
}

TEST_F(OnDisk, ADamagedSampleThatIsFilledWhileAnotherReaderStillVerifiesItIsShownWhole) {
  leave_unclosed(100);
  SegmentFile(*name_).record_of(5)[1000] ^= 1;
  reboot();
  const auto reader = actor(false, "verifying:stop");
  reader->tell(order("get", 5));
  reader->await_stop();
  const Handle cache = open_it();
  ASSERT_FALSE(holds(cache, 5, kBytes));
  ASSERT_EQ(put(cache, 5, kBytes), DC_OK);
  reader->signal(SIGCONT);
  EXPECT_EQ(reader->hear(), "0") << "what it read is damaged, and a miss";
  EXPECT_EQ(reader->ask(order("get", 5)), "1");
  expect_right_or_refillable(cache);
}

TEST_F(OnDisk, AReaderThatCannotWriteVerifiesForItselfAndLeavesRecoveryToOthers) {
  for (const bool droppable : {false, true}) {
    leave_unclosed(100, droppable);
    SegmentFile file(*name_);
    file.record_of(5)[1000] ^= 1;
    reboot();
    dc_cache *reader = nullptr;
    dc_error error = {};
    ASSERT_EQ(dc_cache_attach_read_only(name_->c_str(), name_->directory(), kSecond, &reader, &error), DC_ERROR_STATE);
    EXPECT_NE(std::string(error.message).find("not closed"), std::string::npos) << error.message;
    Handle cache = open_it(droppable);
    ASSERT_EQ(dc_cache_attach_read_only(name_->c_str(), name_->directory(), kSecond, &reader, &error), DC_OK);
    Handle read_only(reader);
    for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(static_cast<bool>(holds(read_only, i, kBytes)), i != 5) << i;
    EXPECT_EQ(report_of(cache).entries_unverified, 100u) << "it changed nothing";
    expect_right_or_refillable(cache);
    EXPECT_TRUE(holds(read_only, 5, kBytes));
    EXPECT_EQ(cache.close(), DC_OK);
    EXPECT_EQ(read_only.close(), DC_OK);
    EXPECT_EQ(dc_cache_unlink(name_->c_str(), name_->directory(), nullptr), DC_OK);
  }
}

TEST_F(OnDisk, AKillAnywhereInRecoveryIsRecoveredFrom) {
  for (const char *point : {"recovering", "entries-recovered", "recovered"}) {
    SCOPED_TRACE(point);
    leave_unclosed(100);
    reboot();
    Actor opener(Stage{std::string(point) + ":kill"});
    ASSERT_EQ(opener.ask("in " + mount_.path()), "0");
    EXPECT_EQ(opener.ask(open_line()), "");
    EXPECT_EQ(opener.reap(), SIGKILL);
    Handle cache = open_it();
    EXPECT_EQ(report_of(cache).entries_unverified, 100u);
    expect_right_or_refillable(cache);
    cache.close();
    EXPECT_EQ(dc_cache_unlink(name_->c_str(), name_->directory(), nullptr), DC_OK);
  }
}

TEST_F(OnDisk, AKillAnywhereInTheCloseOrTheNextOpenCostsTimeAtMost) {
  for (const char *point : {"closing", "synced", "closed", "reopened"}) {
    SCOPED_TRACE(point);
    {
      const auto client = actor(false, std::string(point) + ":kill");
      for (int64_t i = 0; i < 100; ++i) ASSERT_EQ(client->ask(order("put", i)), "0");
      if (std::string(point) != "reopened") {
        EXPECT_EQ(client->ask("close"), "");
        EXPECT_EQ(client->reap(), SIGKILL);
      } else {
        EXPECT_EQ(client->ask("close"), "0");
        reboot();
        EXPECT_EQ(client->ask(open_line()), "");
        EXPECT_EQ(client->reap(), SIGKILL);
      }
    }
    reboot();
    Handle cache = open_it();
    EXPECT_EQ(report_of(cache).entries_ready, 100u);
    EXPECT_EQ(report_of(cache).entries_unverified, std::string(point) == "closed" ? 0u : 100u);
    expect_right_or_refillable(cache);
    cache.close();
    EXPECT_EQ(dc_cache_unlink(name_->c_str(), name_->directory(), nullptr), DC_OK);
  }
}

// A child attaches without the name lock, while its parent says that the file is closed.
TEST_F(OnDisk, AChildThatBeginsToUseItWhileItsParentClosesTakesTheCloseBack) {
  int begin[2], done[2];
  ASSERT_EQ(pipe(begin), 0);
  ASSERT_EQ(pipe(done), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    Handle cache = open_it();
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      char go = 0;
      if (read(begin[0], &go, 1) != 1) _exit(1);
      usleep(100'000);  // well within the parent's pause
      const bool stored = put(cache, 7, kBytes) == DC_OK;
      if (write(done[1], stored ? "1" : "0", 1) != 1) _exit(1);
      pause();
      _exit(0);
    }
    setenv("DDPCACHE_FAULT", "synced:sleep", 1);
    if (write(begin[1], "x", 1) != 1) _exit(1);
    cache.close();
    pause();
    _exit(0);
  }
  char stored = 0;
  ASSERT_EQ(read(done[0], &stored, 1), 1);
  EXPECT_EQ(stored, '1');
  usleep(600'000);  // the parent's close is over
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  close(done[1]);
  ASSERT_EQ(read(done[0], &stored, 1), 0) << "its child is gone too";
  reboot();
  const Handle cache = open_it();
  EXPECT_EQ(report_of(cache).entries_unverified, 1u) << "not closed, for the child was at it";
  EXPECT_TRUE(holds(cache, 7, kBytes));
}

// The real thing. Rounds of filling, removing and filling anew, with some pages synced in between and others not; then
// the client is killed and the power is cut. In two of three rounds nobody closes the file before the next.
TEST_F(OnDisk, APowerCutLeavesRightSamplesAndNothingElse) {
  const uint64_t seed = chosen_seed();
  SCOPED_TRACE(::testing::Message() << "DDPCACHE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  int survived = 0, lost = 0;
  for (int round = 0; round < 15; ++round) {
    auto client = actor(true);
    for (int64_t i = 0; round > 0 && i < 120; ++i) {
      const std::string seen = client->ask(order("look", i));
      EXPECT_TRUE(seen == "right" || seen == "miss") << "sample " << i << " in round " << round << ": " << seen;
      ++(seen == "right" ? survived : lost);
    }
    for (int turn = 0; turn < 150; ++turn) {
      const int64_t index = static_cast<int64_t>(random() % 120);
      client->ask(random() % 3 == 0 ? "remove " + std::to_string(index) : order("put", index));
      if (random() % 30 != 0) continue;
      const SegmentFile file(*name_);
      uint8_t *base = reinterpret_cast<uint8_t *>(&file->stored_header());
      const uint64_t pages = file->step_offset(2) / 4096;
      const uint64_t from = random() % pages;
      msync(base + 4096 * from, 4096 * (1 + random() % std::min<uint64_t>(200, pages - from)), MS_SYNC);
    }
    client->kill_and_reap();
    if (round % 3 == 2) {
      const Handle cache = open_it(true);
      expect_right_or_refillable(cache);
    }
    if (!mount_.cut_power_and_mount_again()) GTEST_SKIP() << "this file system cannot be stopped at once";
    ASSERT_TRUE(name_->exists()) << "it was there before the first sample was";
    reboot();
  }
  EXPECT_GT(survived, 0);
  EXPECT_GT(lost, 0) << "nothing was ever lost: the power was not cut";
}

TEST_F(OnDisk, ACleanCloseSurvivesAPowerCutWhole) {
  {
    const Handle cache = open_it();
    for (int64_t i = 0; i < 100; ++i) ASSERT_EQ(put(cache, i, kBytes), DC_OK);
  }
  if (!mount_.cut_power_and_mount_again()) GTEST_SKIP() << "this file system cannot be stopped at once";
  reboot();
  {
    const auto client = actor();
    for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(client->ask(order("look", i)), "right");
    const SegmentFile file(*name_);
    for (int64_t i = 0; i < 100; ++i)
      EXPECT_FALSE(file.entry(i).is_unverified()) << "the disk knows that it was closed";
    client->kill_and_reap();
  }
  // Nothing was synced since, but that it is open again.
  ASSERT_TRUE(mount_.cut_power_and_mount_again());
  reboot();
  const Handle cache = open_it();
  EXPECT_EQ(report_of(cache).entries_unverified, 100u);
  expect_right_or_refillable(cache);
}

}  // namespace
}  // namespace ddpcache::test
