// Entries that change hands: at the filler's death, which somebody has to notice and say, or behind its back.
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "../support/segment_file.hpp"
#include "clients.hpp"
#include "theatre.hpp"

namespace ddpcache::test {
namespace {

constexpr auto kWaitSlice = std::chrono::milliseconds(50);

// Who waits already is told by nobody, and looks again by itself.
TEST_F(Theatre, AFillerKilledBetweenItsCommitAndTheWakeCostsItsWaitersOneLook) {
  Actor filler({"published:kill"}), waiters[3];
  ASSERT_EQ(filler.ask(attach_to(name_)), "0");
  ASSERT_EQ(filler.ask("begin 7 0"), "0");
  ASSERT_EQ(filler.ask("allocate 20000"), "0");
  ASSERT_EQ(filler.ask("write 0 20000"), "0");
  for (Actor &waiter : waiters) {
    ASSERT_EQ(waiter.ask(attach_to(name_)), "0");
    waiter.tell(load_it(60'000));
  }
  while (stats_of(cache_).waits < 3) usleep(1000);
  const auto before = Clock::now();
  EXPECT_EQ(filler.ask("commit"), "");
  for (Actor &waiter : waiters) EXPECT_EQ(waiter.hear(), "0 0");
  EXPECT_LT(Clock::now() - before, 10 * kWaitSlice);
  EXPECT_EQ(filler.reap(), SIGKILL);
  EXPECT_EQ(stats_of(cache_).takeovers, 0u);
  for (Actor &waiter : waiters) waiter.kill_and_reap();
  expect_nothing_lost();
}

// A newcomer that takes the record of a dead client hands back its fills, and may die or be stopped in that.
class NewcomerPoint : public Theatre, public ::testing::WithParamInterface<const char *> {
 protected:
  // The dead one was the only client beside this process, so its record is the newcomer's first choice.
  void leave_a_dead_filler() {
    Actor filler;
    ASSERT_EQ(filler.ask(attach_to(name_)), "0");
    ASSERT_EQ(filler.ask("begin 7 0"), "0");
    ASSERT_EQ(filler.ask("allocate 20000"), "0");
  }
};

INSTANTIATE_TEST_SUITE_P(Registration, NewcomerPoint,
                         ::testing::Values("probed-free", "declared-dead", "taken-over", "registering"), point_name);

TEST_P(NewcomerPoint, WhereTheNewcomerIsKilledAThirdGoesOn) {
  ASSERT_NO_FATAL_FAILURE(leave_a_dead_filler());
  Actor newcomer({std::string(GetParam()) + ":kill"}), next;
  EXPECT_EQ(newcomer.ask(attach_to(name_)), "");
  EXPECT_EQ(newcomer.reap(), SIGKILL);
  EXPECT_EQ(next.ask(attach_to(name_)), "0");
  EXPECT_EQ(info_of(cache_).clients_attached, 2u);
  EXPECT_EQ(next.ask(put_it()), "0");
  next.kill_and_reap();
  expect_nothing_lost();
}

TEST_P(NewcomerPoint, WhereTheNewcomerIsStoppedAThirdGoesOn) {
  ASSERT_NO_FATAL_FAILURE(leave_a_dead_filler());
  Actor newcomer({std::string(GetParam()) + ":stop"});
  newcomer.tell(attach_to(name_));
  newcomer.await_stop();
  const auto before = Clock::now();
  EXPECT_EQ(put(cache_, kIndex, kBytes, 60 * kSecond), DC_OK);
  EXPECT_LT(Clock::now() - before, kPatience);
  newcomer.signal(SIGCONT);
  EXPECT_EQ(newcomer.hear(), "0");
  EXPECT_EQ(stats_of(cache_).takeovers, 1u);
  EXPECT_EQ(newcomer.ask("get 7 20000"), "1");
  EXPECT_EQ(newcomer.ask("put 8 20000"), "0");
  newcomer.kill_and_reap();
  expect_nothing_lost();
}

// The test takes the entry, as another client does that finds no lock; the filler lives and knows nothing of it.
class TakenPoint : public Theatre, public ::testing::WithParamInterface<const char *> {};

INSTANTIATE_TEST_SUITE_P(Fill, TakenPoint,
                         ::testing::Values("claimed", "cursor-moved", "step-reserved", "step-taken", "extent-taken",
                                           "extent-named", "allocated", "before-publish"),
                         point_name);

TEST_P(TakenPoint, WhereAnEntryIsTakenFromItsFillerTheCommitSaysSoAndTheNewValueStays) {
  constexpr uint64_t kNewBytes = 12'000;
  Actor filler({std::string(GetParam()) + ":stop"});
  ASSERT_EQ(filler.ask(attach_to(name_)), "0");
  filler.tell(put_it());
  filler.await_stop();
  SegmentFile file(name_);
  ASSERT_EQ(file.entry(kIndex).state(), State::writing);
  ASSERT_TRUE(take_over(*file.operator->(), kIndex, file.entry(kIndex)));
  EXPECT_EQ(put(cache_, kIndex, kNewBytes), DC_OK);
  filler.signal(SIGCONT);
  EXPECT_EQ(filler.hear(), std::to_string(DC_ERROR_LOST));
  EXPECT_TRUE(holds(cache_, kIndex, kNewBytes));
  EXPECT_EQ(filler.ask("put 8 20000"), "0") << "its lock is its own still";
  filler.kill_and_reap();
  expect_nothing_lost(kNewBytes);
}

// Not only another start time: a process that has the number, and is of the dead one's namespace and user.
TEST_F(Theatre, ADeadClientIsDeadAlsoWhereAnotherProgramHasItsPid) {
  if (!may_choose_pids()) GTEST_SKIP() << "choosing the number of a process takes CAP_CHECKPOINT_RESTORE";
  Actor filler;
  ASSERT_EQ(filler.ask(attach_to(name_)), "0");
  ASSERT_EQ(filler.ask("begin 7 0"), "0");
  ASSERT_EQ(filler.ask("allocate 20000"), "0");
  const pid_t pid = filler.pid();
  filler.kill_and_reap();
  usleep(50'000);  // start times are in units of 10 ms
  Stage as_another;
  as_another.pid = pid;
  Actor another(as_another);
  ASSERT_EQ(another.pid(), pid);
  ASSERT_EQ(another.ask("in /dev/shm"), "0") << "it runs";
  EXPECT_EQ(put(cache_, kIndex, kBytes, 60 * kSecond), DC_OK);
  ASSERT_NO_FATAL_FAILURE(expect_every_piece_usable());
  // It may be a client too, and of the same record.
  ASSERT_EQ(another.ask(attach_to(name_)), "0");
  EXPECT_EQ(another.ask("get 7 20000"), "1");
  EXPECT_EQ(info_of(cache_).clients_attached, 2u);
  another.kill_and_reap();
  expect_nothing_lost();
}

}  // namespace
}  // namespace ddpcache::test
