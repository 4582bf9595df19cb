// A filler whose entry was taken from it while it was stopped, since it had lost its lock, writes nothing and publishes
// nothing any more. (What is torn by chance is hunted by tests/stress/torn_reads.cpp.)
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "actors.hpp"

namespace ddpcache::test {
namespace {

constexpr uint64_t kBytes = 20'000;

class TakenOver : public ::testing::Test {
 protected:
  // `sample_bytes` 0: of any size. With an extent to spare, since a filler without descriptors reserves none.
  void begin(Actor &filler, uint64_t sample_bytes) {
    dc_cache_options options = options_for(1000, 2 << 20, sample_bytes, kBytes);
    options.droppable = 1;
    cache_ = open_cache(name_, options);
    ASSERT_EQ(put(cache_, 1, kBytes), DC_OK);
    ASSERT_EQ(filler.ask(std::string("attach ") + name_.c_str()), "0");
    ASSERT_EQ(filler.ask("begin 7 0"), "0");
  }

  const CacheName name_;
  Handle cache_;
};

// It is stopped before it names its extent, which then goes to another sample: the check after the naming is all that
// tells it.
TEST_F(TakenOver, BeforeItNamedItsExtentAFillerWritesNothingThere) {
  Actor filler({"extent-taken:stop"});
  begin(filler, kBytes);
  ASSERT_EQ(filler.ask("close-descriptors"), "0");
  filler.tell("allocate 20000");
  filler.await_stop();
  ASSERT_EQ(put(cache_, 7, kBytes), DC_OK);
  int64_t index = 100;
  for (int refused = 0; refused < 5; ++index) refused += put(cache_, index, kBytes) != DC_OK;
  filler.signal(SIGCONT);
  EXPECT_EQ(filler.hear(), std::to_string(DC_ERROR_LOST));
  filler.ask("write 0 20000");
  for (int64_t i = 0; i < index; ++i) EXPECT_TRUE(dc_cache_contains(cache_, i) == DC_MISS || holds(cache_, i, kBytes));
  report_of(cache_);
}

TEST_F(TakenOver, BeforeItsCommitAFillerIsToldAndTheNewSampleStays) {
  Actor filler;
  begin(filler, 0);
  ASSERT_EQ(filler.ask("allocate 104"), "0");
  ASSERT_EQ(filler.ask("write 0 104"), "0");
  ASSERT_EQ(filler.ask("close-descriptors"), "0");
  ASSERT_EQ(put(cache_, 7, kBytes), DC_OK);
  EXPECT_EQ(filler.ask("commit"), std::to_string(DC_ERROR_LOST));
  EXPECT_TRUE(holds(cache_, 7, kBytes));
  report_of(cache_);
}

}  // namespace
}  // namespace ddpcache::test
