// Processes without their descriptors: closed by the program, used again for other files, or not to be had.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "actors.hpp"
#include "moves.hpp"

namespace ddpcache::test {
namespace {

constexpr uint64_t kBytes = 20'000;

class WithoutDescriptors : public ::testing::Test {
 protected:
  WithoutDescriptors() { EXPECT_EQ(actor_.ask(std::string("attach ") + name_.c_str()), "0"); }

  // Fills until there is no room, trying a little longer than the first refusal.
  void fill_up(int64_t from) {
    for (int refused = 0; refused < 5; ++from) refused += put(cache_, from, kBytes) == DC_FULL;
  }
  void await_takeover(int64_t index) { ASSERT_EQ(put(cache_, index, kBytes, 60 * kSecond), DC_OK); }

  const CacheName name_;
  Handle cache_ = open_cache(name_, options_for(1000, 2 << 20, kBytes));
  Actor actor_;
};

TEST_F(WithoutDescriptors, AProcessLosesItsFillButNeverItsBytes) {
  ASSERT_EQ(actor_.ask("begin 7 0"), "0");
  ASSERT_EQ(actor_.ask("allocate 20000"), "0");
  ASSERT_EQ(actor_.ask("write 0 8000"), "0");
  ASSERT_EQ(actor_.ask("close-descriptors"), "0");
  await_takeover(7);
  fill_up(100);
  dc_cache_report report = report_of(cache_);
  EXPECT_EQ(report.extents_named, 1u) << "it may still be writing there";
  EXPECT_EQ(report.extents_free, 0u);
  ASSERT_EQ(actor_.ask("write 8000 20000"), "0");
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_TRUE(dc_cache_contains(cache_, i) == DC_MISS || holds(cache_, i, kBytes));
  }
  EXPECT_EQ(actor_.ask("commit"), std::to_string(DC_ERROR_LOST));
  EXPECT_TRUE(holds(cache_, 7, kBytes));
  EXPECT_EQ(actor_.ask("put 8 20000"), std::to_string(DC_ERROR_UNREGISTERED));
  EXPECT_EQ(actor_.ask("get 7 20000"), "1") << "it goes on reading";
  EXPECT_EQ(put(cache_, 900, kBytes), DC_OK) << "the piece is free again, for others";
  EXPECT_EQ(actor_.ask("close"), "0");
  report_of(cache_);
}

// It is stopped between taking its piece of memory and naming it, and loses both to others: it must not write there.
TEST_F(WithoutDescriptors, AProcessThatComesTooLateFindsThatItsBytesAreOthers) {
  Actor late({"extent-taken:stop"});
  ASSERT_EQ(late.ask(std::string("attach ") + name_.c_str()), "0");
  ASSERT_EQ(put(cache_, 1, kBytes), DC_OK);
  ASSERT_EQ(late.ask("begin 7 0"), "0");
  ASSERT_EQ(late.ask("close-descriptors"), "0");
  late.tell("allocate 20000");
  late.await_stop();
  await_takeover(7);
  fill_up(100);
  EXPECT_EQ(report_of(cache_).extents_free, 0u) << "what it took without naming it is free for the taking";
  late.signal(SIGCONT);
  EXPECT_EQ(late.hear(), std::to_string(DC_ERROR_LOST));
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_TRUE(dc_cache_contains(cache_, i) == DC_MISS || holds(cache_, i, kBytes));
  }
  EXPECT_EQ(late.ask("abort"), "0");
  report_of(cache_);
}

TEST_F(WithoutDescriptors, AProcessKeepsItsFillWhereNobodyWantedIt) {
  ASSERT_EQ(actor_.ask("begin 7 0"), "0");
  ASSERT_EQ(actor_.ask("close-descriptors"), "0");
  ASSERT_EQ(actor_.ask("allocate 20000"), std::to_string(DC_ERROR_UNREGISTERED)) << "no step can be reserved";
  ASSERT_EQ(put(cache_, 1, kBytes), DC_OK);
  ASSERT_EQ(actor_.ask("allocate 20000"), "0");
  ASSERT_EQ(actor_.ask("write 0 20000"), "0");
  EXPECT_EQ(actor_.ask("commit"), "0");
  EXPECT_TRUE(holds(cache_, 7, kBytes));
}

TEST_F(WithoutDescriptors, ADeadProcesssBytesAreUsedAgain) {
  ASSERT_EQ(actor_.ask("begin 7 0"), "0");
  ASSERT_EQ(actor_.ask("allocate 20000"), "0");
  ASSERT_EQ(actor_.ask("close-descriptors"), "0");
  await_takeover(7);
  fill_up(100);
  EXPECT_EQ(report_of(cache_).extents_named, 1u);
  actor_.kill_and_reap();
  EXPECT_EQ(put(cache_, 900, kBytes), DC_OK);
  EXPECT_EQ(report_of(cache_).extents_named, 0u);
}

TEST_F(WithoutDescriptors, AProcessThatBecomesAnotherProgramHandsItsFillOver) {
  ASSERT_EQ(actor_.ask("begin 7 0"), "0");
  ASSERT_EQ(actor_.ask("allocate 20000"), "0");
  actor_.tell("exec");
  await_takeover(7);
  ASSERT_EQ(actor_.ask(std::string("attach ") + name_.c_str()), "0");
  EXPECT_EQ(actor_.ask("get 7 20000"), "1");
  EXPECT_EQ(actor_.ask("put 8 20000"), "0");
  report_of(cache_);
}

// The numbers now belong to files that have nothing to do with the cache.
TEST_F(WithoutDescriptors, TheFilesThatTookTheirNumbersAreLeftAlone) {
  ASSERT_EQ(actor_.ask("begin 7 0"), "0");
  ASSERT_EQ(actor_.ask("close-descriptors"), "0");
  ASSERT_EQ(actor_.ask("crowd 20"), "20");
  EXPECT_EQ(actor_.ask("allocate 20000"), std::to_string(DC_ERROR_UNREGISTERED));
  EXPECT_EQ(actor_.ask("crowd-unharmed"), "1");
  EXPECT_EQ(actor_.ask("load 8 20000 100").substr(0, 3), std::to_string(DC_ERROR_UNREGISTERED));
  EXPECT_EQ(actor_.ask("in-child put 9 20000"), std::to_string(DC_ERROR_UNREGISTERED));
  EXPECT_EQ(actor_.ask("abort"), "0");
  EXPECT_EQ(actor_.ask("crowd-unharmed"), "1");
  EXPECT_EQ(actor_.ask("close"), "0");
  EXPECT_EQ(actor_.ask("crowd-unharmed"), "1");
  report_of(cache_);
}

// The remedy, in the wrong order: the old handle is closed only after the new one has its number.
TEST_F(WithoutDescriptors, ANewHandleKeepsItsLockWhenTheOldOneIsClosed) {
  ASSERT_EQ(actor_.ask("close-descriptors"), "0");
  ASSERT_EQ(actor_.ask(std::string("reopen ") + name_.c_str()), "0");
  ASSERT_EQ(actor_.ask("begin 7 0"), "0");
  EXPECT_EQ(actor_.ask("close-old"), "0");
  EXPECT_EQ(put(cache_, 7, kBytes, 200 * kMillisecond), DC_BUSY) << "the new handle's client lives";
  ASSERT_EQ(actor_.ask("allocate 20000"), "0");
  ASSERT_EQ(actor_.ask("write 0 20000"), "0");
  EXPECT_EQ(actor_.ask("commit"), "0");
  EXPECT_TRUE(holds(cache_, 7, kBytes));
}

TEST_F(WithoutDescriptors, AForkedChildStillReads) {
  ASSERT_EQ(put(cache_, 1, kBytes), DC_OK);
  ASSERT_EQ(actor_.ask("no-descriptors"), "0");
  EXPECT_EQ(actor_.ask("in-child get 1 20000"), "exit 1");
  EXPECT_EQ(actor_.ask("in-child put 2 20000"), "exit " + std::to_string(-DC_ERROR_UNREGISTERED));
  EXPECT_EQ(actor_.ask("put 3 20000"), "0") << "the parent has its own";
  EXPECT_EQ(dc_cache_contains(cache_, 2), DC_MISS);
}

TEST_F(WithoutDescriptors, AnOpenIsAnErrorWithItsReason) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the undefined-behaviour sanitizer itself needs a descriptor to look at an object's type";
#endif
  Actor poor;
  ASSERT_EQ(poor.ask("no-descriptors"), "0");
  const CacheName other;
  const std::string attach = std::string("attach ") + name_.c_str();
  for (const std::string &call : {attach, std::string("open ") + other.c_str() + " 100 1048576 1000 16 0 0"}) {
    const std::string refused = poor.ask(call);
    EXPECT_EQ(refused.rfind(std::to_string(DC_ERROR_SYSTEM), 0), 0u) << refused;
    EXPECT_NE(refused.find("Too many open files"), std::string::npos) << refused;
  }
  EXPECT_FALSE(other.exists());
  EXPECT_EQ(info_of(cache_).clients_attached, 2u);
}

// Closes what a process has open of a cache in the middle of its registration, and lets another come.
struct Closing {
  std::string path;
  Actor *newcomer;
  std::string answer;

  void close_and_let_come() {
    std::vector<int> numbers;
    for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      if (std::filesystem::read_symlink(entry.path(), gone) == path)
        numbers.push_back(std::stoi(entry.path().filename()));
    }
    EXPECT_FALSE(numbers.empty());
    for (const int number : numbers) close(number);
    answer = newcomer->ask("in-child put 5 20000");
  }
};
Closing *closing = nullptr;

TEST(Registration, HasItsRecordToItselfThoughItsDescriptorIsClosedMeanwhile) {
  const CacheName name;
  Actor owner;
  ASSERT_EQ(owner.ask(std::string("open ") + name.c_str() + " 1000 2097152 20000 2 0 1"), "0");
  Closing at_once = {name.path(), &owner, ""};
  closing = &at_once;
  move_observer.store([](Move move, uint64_t, uint64_t) {
    if (move != Move::clear) return;
    move_observer.store(nullptr);
    closing->close_and_let_come();
  });
  const Handle late = attach_cache(name.c_str());
  move_observer.store(nullptr);
  EXPECT_EQ(at_once.answer, std::to_string(DC_ERROR_CLIENTS)) << "the record is being made ready for another";
  EXPECT_EQ(put(late, 6, kBytes), DC_ERROR_UNREGISTERED) << "it has no lock any more";
  EXPECT_EQ(owner.ask("put 7 20000"), "0");
  EXPECT_TRUE(holds(late, 7, kBytes)) << "it goes on reading";
  report_of(late);
}

TEST(FileSizeLimit, IsAnErrorOfSpaceAndNoSignal) {
  const CacheName name;
  Actor actor;
  ASSERT_EQ(actor.ask("limit-file-size 1000000"), "0");
  const std::string open = std::string("open ") + name.c_str() + " 100 4194304 1000 16 0 0";
  const std::string refused = actor.ask(open);
  EXPECT_EQ(refused.rfind(std::to_string(DC_ERROR_NO_SPACE), 0), 0u) << refused;
  EXPECT_FALSE(name.exists());
  // A limit of one who attaches is no hindrance: the file has its size already.
  const Handle cache = open_cache(name, options_for(100, 4 << 20, 1000));
  EXPECT_EQ(actor.ask(std::string("attach ") + name.c_str()), "0");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(actor.ask("put " + std::to_string(i) + " 1000"), "0");
}

}  // namespace
}  // namespace ddpcache::test
