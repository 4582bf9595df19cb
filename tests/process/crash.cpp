// Clients that are killed or stopped, at every step of a fill, of a birth and of a takeover.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "mounts.hpp"
#include "theatre.hpp"

namespace ddpcache::test {
namespace {

class FillPoint : public Theatre, public ::testing::WithParamInterface<const char *> {};

INSTANTIATE_TEST_SUITE_P(Fill, FillPoint,
                         ::testing::Values("noted", "claimed", "cursor-moved", "step-reserved", "step-taken",
                                           "extent-taken", "extent-named", "allocated", "before-publish", "published"),
                         point_name);

TEST_P(FillPoint, WhereAFillerIsKilledHandsItsEntryToTheNextCaller) {
  Actor filler({std::string(GetParam()) + ":kill"});
  ASSERT_EQ(filler.ask(attach_to(name_)), "0");
  EXPECT_EQ(filler.ask(put_it()), "");
  EXPECT_EQ(filler.reap(), SIGKILL);
  Errand errand{kBytes};
  dc_view view;
  const auto before = Clock::now();
  EXPECT_EQ(dc_cache_load(cache_, kIndex, load_pattern, &errand, 60 * kSecond, &view), DC_OK);
  dc_cache_view_release(&view);
  EXPECT_LT(Clock::now() - before, kPatience);
  const bool was_published = std::string(GetParam()) == "published";
  EXPECT_EQ(errand.runs, was_published ? 0 : 1);
  expect_nothing_lost();
}

TEST_P(FillPoint, WhereAFillerIsKilledHandsItsEntryToWhoWaitsForIt) {
  Actor filler({std::string(GetParam()) + ":stop"});
  Actor waiter;
  ASSERT_EQ(filler.ask(attach_to(name_)), "0");
  ASSERT_EQ(waiter.ask(attach_to(name_)), "0");
  filler.tell(put_it());
  filler.await_stop();
  waiter.tell(load_it(60'000));
  const bool claimed = std::string(GetParam()) != "noted", published = std::string(GetParam()) == "published";
  if (claimed && !published) {
    await_waiter();
    EXPECT_EQ(stats_of(cache_).takeovers, 0u) << "a stopped filler keeps its entry";
  }
  const auto before = Clock::now();
  filler.kill_and_reap();
  EXPECT_EQ(waiter.hear(), published ? "0 0" : "0 1");
  EXPECT_LT(Clock::now() - before, kPatience);
  EXPECT_EQ(stats_of(cache_).takeovers, claimed && !published ? 1u : 0u);
  waiter.kill_and_reap();
  expect_nothing_lost();
}

TEST_P(FillPoint, WhereAFillerIsStoppedKeepsItsEntryAndGoesOnAfterwards) {
  Actor filler({std::string(GetParam()) + ":stop"});
  ASSERT_EQ(filler.ask(attach_to(name_)), "0");
  filler.tell(put_it());
  filler.await_stop();
  if (std::string(GetParam()) != "noted" && std::string(GetParam()) != "published") {
    EXPECT_EQ(put(cache_, kIndex, kBytes, 300 * kMillisecond), DC_BUSY);
  }
  filler.signal(SIGCONT);
  EXPECT_EQ(filler.hear(), "0");
  EXPECT_EQ(stats_of(cache_).takeovers, 0u);
  filler.kill_and_reap();
  expect_nothing_lost();
}

TEST_F(Theatre, AFillerKilledWithHalfItsSampleWrittenIsNeverSeen) {
  Actor filler;
  ASSERT_EQ(filler.ask(attach_to(name_)), "0");
  ASSERT_EQ(filler.ask("begin 7 0"), "0");
  ASSERT_EQ(filler.ask("allocate 20000"), "0");
  ASSERT_EQ(filler.ask("write 0 10000"), "0");
  const auto expect_unseen = [this] {
    dc_view view;
    std::vector<uint8_t> buffer(kBytes);
    EXPECT_EQ(dc_cache_contains(cache_, kIndex), DC_MISS);
    EXPECT_EQ(dc_cache_view(cache_, kIndex, &view), DC_MISS);
    EXPECT_EQ(dc_cache_read(cache_, kIndex, 0, buffer.data(), kBytes, nullptr), DC_MISS);
  };
  expect_unseen();
  filler.kill_and_reap();
  expect_unseen();
  EXPECT_EQ(report_of(cache_).entries_orphaned, 1u);
  EXPECT_EQ(put(cache_, kIndex, kBytes), DC_OK);
  expect_nothing_lost();
}

// All 64 fills of one client at once, in a cache that is full otherwise.
TEST_F(Theatre, EveryPieceOfAClientWithManyFillsIsUsedAgain) {
  Actor filler;
  ASSERT_EQ(filler.ask(attach_to(name_)), "0");
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(filler.ask("begin " + std::to_string(200 + i) + " 0"), "0");
    ASSERT_EQ(filler.ask("allocate 20000"), "0");
  }
  int64_t index = 300;
  while (put(cache_, index, kBytes) == DC_OK) ++index;
  filler.kill_and_reap();
  for (int64_t i = 0; i < 40; ++i) ASSERT_EQ(put(cache_, 200 + i, kBytes), DC_OK) << i;
  EXPECT_EQ(report_of(cache_).extents_free, 0u);
  EXPECT_EQ(stats_of(cache_).takeovers, 40u);
}

// As before, but with fills that find nothing between the takeovers.
TEST_F(Theatre, EveryPieceIsUsedAgainAlsoAfterSearchesThatFailed) {
  Actor filler;
  ASSERT_EQ(filler.ask(attach_to(name_)), "0");
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(filler.ask("begin " + std::to_string(200 + i) + " 0"), "0");
    ASSERT_EQ(filler.ask("allocate 20000"), "0");
  }
  int64_t index = 300;
  while (put(cache_, index, kBytes) == DC_OK) ++index;
  filler.kill_and_reap();
  for (int64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(put(cache_, 200 + i, kBytes), DC_OK) << i;
    EXPECT_EQ(put(cache_, ++index, kBytes), DC_FULL) << "the others' pieces are not free yet";
  }
  EXPECT_EQ(report_of(cache_).extents_free, 0u);
}

// In a full cache, where searches have failed already.
TEST_F(Theatre, AFillerKilledInItsAbortLosesNoSpace) {
  Actor filler({"released:kill"});
  ASSERT_EQ(filler.ask(attach_to(name_)), "0");
  ASSERT_EQ(filler.ask("begin 7 0"), "0");
  ASSERT_EQ(filler.ask("allocate 20000"), "0");
  int64_t index = 300;
  for (int refused = 0; refused < 5; ++index) refused += put(cache_, index, kBytes) != DC_OK;
  EXPECT_EQ(filler.ask("abort"), "");
  EXPECT_EQ(filler.reap(), SIGKILL);
  EXPECT_EQ(put(cache_, kIndex, kBytes), DC_OK);
  expect_nothing_lost();
}

TEST_F(Theatre, AZombieIsDead) {
  Actor filler;
  ASSERT_EQ(filler.ask(attach_to(name_)), "0");
  ASSERT_EQ(filler.ask("begin 7 0"), "0");
  ASSERT_EQ(filler.ask("allocate 20000"), "0");
  filler.signal(SIGKILL);
  filler.await_zombie();
  EXPECT_EQ(put(cache_, kIndex, kBytes, 60 * kSecond), DC_OK);
  expect_nothing_lost();
}

TEST_F(Theatre, AWaiterKilledWhileItWaitsHoldsUpNobody) {
  Actor filler, waiter;
  ASSERT_EQ(filler.ask(attach_to(name_)), "0");
  ASSERT_EQ(waiter.ask(attach_to(name_)), "0");
  ASSERT_EQ(filler.ask("begin 7 0"), "0");
  waiter.tell(load_it(60'000));
  await_waiter();
  waiter.kill_and_reap();
  ASSERT_EQ(filler.ask("allocate 20000"), "0");
  ASSERT_EQ(filler.ask("write 0 20000"), "0");
  EXPECT_EQ(filler.ask("commit"), "0");
  filler.kill_and_reap();
  expect_nothing_lost();
}

// Who finds a client dead may die, or be stopped, in the middle of saying so.
class TakeoverPoint : public Theatre, public ::testing::WithParamInterface<const char *> {};

INSTANTIATE_TEST_SUITE_P(Takeover, TakeoverPoint, ::testing::Values("probed-free", "declared-dead", "taken-over"),
                         point_name);

TEST_P(TakeoverPoint, WhereTheTakerIsKilledAThirdGoesOn) {
  Actor filler, taker({std::string(GetParam()) + ":kill"});
  ASSERT_EQ(filler.ask(attach_to(name_)), "0");
  ASSERT_EQ(taker.ask(attach_to(name_)), "0");
  ASSERT_EQ(filler.ask("begin 7 0"), "0");
  ASSERT_EQ(filler.ask("allocate 20000"), "0");
  filler.kill_and_reap();
  EXPECT_EQ(taker.ask(put_it()), "");
  EXPECT_EQ(taker.reap(), SIGKILL);
  EXPECT_EQ(put(cache_, kIndex, kBytes, 60 * kSecond), DC_OK);
  expect_nothing_lost();
}

TEST_P(TakeoverPoint, WhereTheTakerIsStoppedAThirdGoesOn) {
  Actor filler, taker({std::string(GetParam()) + ":stop"});
  ASSERT_EQ(filler.ask(attach_to(name_)), "0");
  ASSERT_EQ(taker.ask(attach_to(name_)), "0");
  ASSERT_EQ(filler.ask("begin 7 0"), "0");
  ASSERT_EQ(filler.ask("allocate 20000"), "0");
  filler.kill_and_reap();
  taker.tell(put_it());
  taker.await_stop();
  const auto before = Clock::now();
  EXPECT_EQ(put(cache_, kIndex, kBytes, 60 * kSecond), DC_OK);
  EXPECT_LT(Clock::now() - before, kPatience);
  taker.signal(SIGCONT);
  EXPECT_EQ(taker.hear(), std::to_string(DC_PRESENT));
  taker.kill_and_reap();
  expect_nothing_lost();
}

// A creator that dies before its cache has a name leaves nothing; after that, something that the next one uses. In a
// directory of its own, where no test beside this one removes what it finds.
class BirthPoint : public ::testing::TestWithParam<const char *> {
 protected:
  void kill_creator() {
    Actor creator({std::string(GetParam()) + ":kill"});
    ASSERT_EQ(creator.ask("in " + directory_.path()), "0");
    EXPECT_EQ(creator.ask(std::string("open ") + name_.c_str() + " 100 1048576 1000 1 0 0"), "");
    EXPECT_EQ(creator.reap(), SIGKILL);
  }
  // Files there, beside the lock file.
  int files() const {
    int count = 0;
    for (const auto &entry : std::filesystem::directory_iterator(directory_.path())) {
      count += entry.path().filename() != "ddpcache." + std::to_string(geteuid());
    }
    return count;
  }

  const bool linked_ = std::string(GetParam()) == "linked";
  const TemporaryDirectory directory_{"/dev/shm"};
  const CacheName name_{directory_.path().c_str()};
};

INSTANTIATE_TEST_SUITE_P(Birth, BirthPoint,
                         ::testing::Values("unnamed", "space-reserved", "header-written", "registering", "before-link",
                                           "linked"),
                         point_name);

TEST_P(BirthPoint, WhereTheCreatorIsKilledTheNextOpenSucceeds) {
  ASSERT_NO_FATAL_FAILURE(kill_creator());
  EXPECT_EQ(files(), linked_);
  dc_cache_options options = options_for(100, 1 << 20, 1000);
  options.clients_max = 1;
  Handle cache = open_cache(name_, options);
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(info_of(cache).created, !linked_);
  EXPECT_EQ(info_of(cache).clients_attached, 1u);
  EXPECT_EQ(put(cache, 1, 1000), DC_OK);
  report_of(cache);
  EXPECT_EQ(cache.close(), DC_OK);
  EXPECT_EQ(files(), 0);
}

TEST_P(BirthPoint, WhereTheCreatorIsKilledLeavesNothingThatGcDoesNotRemove) {
  ASSERT_NO_FATAL_FAILURE(kill_creator());
  EXPECT_EQ(files(), linked_);
  int32_t removed = 0;
  EXPECT_EQ(dc_cache_gc(directory_.path().c_str(), &removed, nullptr), DC_OK);
  EXPECT_EQ(removed, linked_);
  EXPECT_EQ(files(), 0);
}

TEST(Registration, OfAClientThatDiesInItLeavesItsRecordToTheNext) {
  const CacheName name;
  dc_cache_options options = options_for(100, 1 << 20);
  options.clients_max = 2;
  const Handle cache = open_cache(name, options);
  for (int i = 0; i < 3; ++i) {
    Actor newcomer({"registering:kill"});
    EXPECT_EQ(newcomer.ask(std::string("attach ") + name.c_str()), "");
    newcomer.reap();
  }
  const Handle second = attach_cache(name.c_str());
  EXPECT_EQ(info_of(cache).clients_attached, 2u);
  report_of(cache);
}

TEST(Registration, SucceedsAgainAfterOneOfAFullTableHasDied) {
  const CacheName name;
  dc_cache_options options = options_for(100, 1 << 20);
  options.clients_max = 3;
  const Handle cache = open_cache(name, options);
  Actor first, second, third;
  EXPECT_EQ(first.ask(std::string("attach ") + name.c_str()), "0");
  EXPECT_EQ(second.ask(std::string("attach ") + name.c_str()), "0");
  const std::string refused = third.ask(std::string("attach ") + name.c_str());
  EXPECT_EQ(refused.rfind(std::to_string(DC_ERROR_CLIENTS) + " all 3 ", 0), 0u) << refused;
  EXPECT_EQ(first.ask("begin 1 0"), "0");
  first.kill_and_reap();
  EXPECT_EQ(third.ask(std::string("attach ") + name.c_str()), "0");
  EXPECT_EQ(third.ask("put 1 100"), "0") << "the dead one's entry was handed back with its record";
  EXPECT_EQ(second.ask("get 1 100"), "1");
  EXPECT_EQ(report_of(cache).clients, 3u);
}

TEST(LockFile, HeldByAStoppedProcessIsAnErrorThatNamesIt) {
  // In a directory of its own, so that no other test waits for the same lock.
  char directory[] = "/dev/shm/ddpcache-test-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  {
    Actor holder;
    ASSERT_EQ(holder.ask(std::string("hold-lock ") + directory), "0");
    holder.signal(SIGSTOP);
    holder.await_stop();
    dc_cache_options options = options_for(100, 1 << 20);
    options.timeout_ns = 200 * kMillisecond;
    dc_cache *cache = nullptr;
    dc_error error = {};
    EXPECT_EQ(dc_cache_open("x", directory, "", &options, &cache, &error), DC_ERROR_LOCKED);
    EXPECT_NE(std::string(error.message).find(std::to_string(holder.pid())), std::string::npos) << error.message;
  }
  dc_cache *cache = nullptr;
  const dc_cache_options options = options_for(100, 1 << 20);
  EXPECT_EQ(dc_cache_open("x", directory, "", &options, &cache, nullptr), DC_OK) << "its death has freed the lock";
  EXPECT_EQ(dc_cache_close(cache), DC_OK);
  EXPECT_EQ(unlink((std::string(directory) + "/ddpcache." + std::to_string(geteuid())).c_str()), 0);
  EXPECT_EQ(rmdir(directory), 0) << "nothing but the lock file was left";
}

TEST(Spawned, ProcessesAttachByNameAndSeeEachOthersSamples) {
  const CacheName name;
  const Handle cache = open_cache(name, options_for(100, 1 << 20));
  Actor first, second;
  for (Actor *actor : {&first, &second}) EXPECT_EQ(actor->ask(std::string("attach ") + name.c_str()), "0");
  EXPECT_EQ(first.ask("put 1 100"), "0");
  EXPECT_EQ(second.ask("get 1 100"), "1");
  EXPECT_EQ(second.ask("put 2 100"), "0");
  EXPECT_TRUE(holds(cache, 1, 100));
  EXPECT_TRUE(holds(cache, 2, 100));
}

}  // namespace
}  // namespace ddpcache::test
