// A filler that stands still for long: for some seconds, and for a minute in a soak.
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "../support/soak.hpp"
#include "theatre.hpp"

namespace ddpcache::test {
namespace {

using std::chrono::duration_cast, std::chrono::milliseconds;

TEST_F(Theatre, AFillerThatIsStoppedForLongKeepsItsEntryWhileWaitersAreBusyAtTheirDeadlines) {
  const milliseconds stopped = std::chrono::seconds(soaked(4, 60));
  Actor filler, patient, waiters[2];
  ASSERT_EQ(filler.ask(attach_to(name_)), "0");
  ASSERT_EQ(filler.ask("begin 7 0"), "0");
  ASSERT_EQ(filler.ask("allocate 20000"), "0");
  ASSERT_EQ(filler.ask("write 0 10000"), "0");
  for (Actor *actor : {&patient, &waiters[0], &waiters[1]}) ASSERT_EQ(actor->ask(attach_to(name_)), "0");
  filler.signal(SIGSTOP);
  filler.await_stop();
  const auto begin = Clock::now();
  const auto elapsed = [begin] { return duration_cast<milliseconds>(Clock::now() - begin); };
  // What anybody may do meanwhile: ask for the entry, come and go, check, collect garbage.
  const auto disturb_until = [&](milliseconds until) {
    while (elapsed() < until) {
      EXPECT_EQ(put(cache_, kIndex, kBytes), DC_BUSY);
      { const Handle newcomer = attach_cache(name_.c_str()); }
      EXPECT_EQ(report_of(cache_).entries_writing, 1u);
      EXPECT_EQ(dc_cache_gc(nullptr, nullptr, nullptr), DC_OK);
      usleep(100'000);
    }
  };
  patient.tell(load_it(2 * stopped.count()));
  for (int i = 0; i < 2; ++i) waiters[i].tell(load_it((i + 1) * stopped.count() / 3));
  for (int i = 0; i < 2; ++i) {
    const milliseconds deadline = (i + 1) * stopped / 3;
    disturb_until(deadline - milliseconds(200));
    EXPECT_EQ(waiters[i].hear(), std::to_string(DC_BUSY) + " 0");
    EXPECT_GE(elapsed(), deadline);
    EXPECT_LT(elapsed(), deadline + kPatience);
  }
  disturb_until(stopped);
  EXPECT_EQ(stats_of(cache_).takeovers, 0u);
  filler.signal(SIGCONT);
  EXPECT_EQ(filler.ask("write 10000 20000"), "0");
  EXPECT_EQ(filler.ask("commit"), "0");
  EXPECT_EQ(patient.hear(), "0 0");
  for (Actor *actor : {&filler, &patient, &waiters[0], &waiters[1]}) actor->kill_and_reap();
  expect_nothing_lost();
}

}  // namespace
}  // namespace ddpcache::test
