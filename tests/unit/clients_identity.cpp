// When a process counts as dead: only where that is certain.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "process.hpp"

namespace ddpcache {
namespace {

ProcessIdentity identity_of_child(pid_t child, int answers) {
  ProcessIdentity identity;
  EXPECT_EQ(read(answers, &identity, sizeof identity), static_cast<ssize_t>(sizeof identity));
  EXPECT_EQ(identity.pid, child);
  return identity;
}

// A child that says who it is and then does `then`.
class Child {
 public:
  explicit Child(void (*then)()) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      alarm(60);
      const ProcessIdentity self = this_process();
      if (write(ends[1], &self, sizeof self) < 0) _exit(1);
      close(ends[1]);
      then();
      _exit(0);
    }
    close(ends[1]);
    identity_ = identity_of_child(pid_, ends[0]);
    close(ends[0]);
  }
  ~Child() {
    if (pid_ > 0) kill_and_reap();
  }
  void kill_and_reap() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  void await_zombie() const {
    siginfo_t information;
    EXPECT_EQ(waitid(P_PID, static_cast<id_t>(pid_), &information, WEXITED | WNOWAIT), 0);
  }
  pid_t pid() const { return pid_; }
  const ProcessIdentity &identity() const { return identity_; }

 private:
  pid_t pid_ = -1;
  ProcessIdentity identity_;
};

void sleep_on() {
  while (true) pause();
}

TEST(Identity, OfThisProcessIsComplete) {
  const ProcessIdentity self = this_process();
  EXPECT_EQ(self.pid, getpid());
  EXPECT_GT(self.start_time, 0u);
  EXPECT_GT(self.pid_namespace, 0u);
  EXPECT_EQ(boot_id().size(), 36u);
}

TEST(Death, IsNotProvedOfTheLiving) {
  EXPECT_FALSE(death_proved(this_process()));
  const Child child(sleep_on);
  EXPECT_FALSE(death_proved(child.identity()));
  kill(child.pid(), SIGSTOP);
  EXPECT_FALSE(death_proved(child.identity())) << "stopped";
}

TEST(Death, IsProvedOfTheReapedAndOfZombies) {
  Child child([] {});
  child.await_zombie();
  EXPECT_TRUE(death_proved(child.identity())) << "a zombie";
  child.kill_and_reap();
  EXPECT_TRUE(death_proved(child.identity())) << "reaped";
}

TEST(Death, IsProvedWhereThePidBelongsToAnotherProcess) {
  ProcessIdentity predecessor = this_process();
  predecessor.start_time -= 1;
  EXPECT_TRUE(death_proved(predecessor));
}

TEST(Death, IsNotProvedFromAnotherNamespaceOrAnUnknownOne) {
  ProcessIdentity elsewhere = this_process();
  elsewhere.pid = 999'999'999;
  EXPECT_TRUE(death_proved(elsewhere));
  elsewhere.pid_namespace += 1;
  EXPECT_FALSE(death_proved(elsewhere));
  elsewhere.pid_namespace = 0;
  EXPECT_FALSE(death_proved(elsewhere));
}

// The leader has ended and is a zombie, but another thread runs on and may write.
TEST(Death, IsNotProvedWhileAnyThreadRuns) {
  const Child child([] {
    pthread_t thread;
    pthread_create(
        &thread, nullptr,
        [](void *) -> void * {
          sleep_on();
          return nullptr;
        },
        nullptr);
    syscall(SYS_exit, 0);  // the leader alone; pthread_exit would unwind the test
  });
  // The leader's end cannot be waited for: let it come.
  usleep(200'000);
  EXPECT_FALSE(death_proved(child.identity()));
}

}  // namespace
}  // namespace ddpcache
