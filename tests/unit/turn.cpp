// The right to restore a cache, of which one process at a time has one.
#include "turn.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>

namespace ddpcache::test {
namespace {

class Turns : public ::testing::Test {
 protected:
  Turns() { EXPECT_TRUE(Directory::open(nullptr, &directory_).ok()); }

  bool take(Turn *turn) const {
    bool taken = false;
    uint32_t at = 0;
    EXPECT_TRUE(turn->try_take(directory_, name_, &taken, &at).ok());
    return taken;
  }
  // How far the holder says that it is.
  uint32_t heard() const {
    Turn turn;
    bool taken = true;
    uint32_t at = 0;
    EXPECT_TRUE(turn.try_take(directory_, name_, &taken, &at).ok());
    EXPECT_FALSE(taken);
    return at;
  }

  Directory directory_;
  const std::string name_ = "turn-test-" + std::to_string(getpid());
  std::unique_ptr<Turn> turn_ = std::make_unique<Turn>();
};

// A child that was forked past the handlers, as by a program that makes its processes by system calls.
template <typename Work>
pid_t raw_child(Work &&work) {
  const pid_t child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (child != 0) return child;
  work();
  _exit(0);
}

TEST_F(Turns, OneAtATimeHasIt) {
  Turn other;
  ASSERT_TRUE(take(turn_.get()));
  EXPECT_FALSE(take(&other));
  turn_->say(12'345);
  EXPECT_EQ(heard(), 12'345u);
  turn_->give_up();
  EXPECT_TRUE(take(&other));
}

TEST_F(Turns, WhoGivesItUpLeavesItToOthersThoughAChildHasItsDescriptor) {
  ASSERT_TRUE(take(turn_.get()));
  const pid_t child = raw_child([] {
    alarm(60);
    pause();
  });
  ASSERT_GT(child, 0);
  turn_->give_up();
  Turn other;
  EXPECT_TRUE(take(&other));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(Turns, AChildThatGivesItUpLeavesItToItsParent) {
  ASSERT_TRUE(take(turn_.get()));
  const pid_t child = raw_child([this] { turn_->give_up(); });
  ASSERT_GT(child, 0);
  waitpid(child, nullptr, 0);
  Turn other;
  EXPECT_FALSE(take(&other));
}

// The program has closed the descriptor, and has another file under its number.
TEST_F(Turns, AForkClosesNothingThatIsNotItsOwn) {
  const int taken = dup(STDERR_FILENO);  // the lowest number that is free
  close(taken);
  ASSERT_TRUE(take(turn_.get()));
  ASSERT_TRUE(
      std::filesystem::equivalent("/proc/self/fd/" + std::to_string(taken), "/dev/shm/" + Directory::lock_file()));
  ASSERT_EQ(dup2(STDERR_FILENO, taken), taken);
  const pid_t child = fork();
  if (child == 0) _exit(fcntl(taken, F_GETFD) >= 0 ? 0 : 1);
  ASSERT_GT(child, 0);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  turn_->give_up();
  EXPECT_GE(fcntl(taken, F_GETFD), 0);
  close(taken);
}

}  // namespace
}  // namespace ddpcache::test
