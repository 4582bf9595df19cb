#include "actors.hpp"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "player.hpp"

namespace ddpcache::test {
namespace {

constexpr int kAnswerMilliseconds = 90'000;

// As fork(), which it is where any number will do.
pid_t fork_as(pid_t pid) {
  if (pid == 0) return fork();
  clone_args arguments = {};
  arguments.exit_signal = SIGCHLD;
  arguments.set_tid = reinterpret_cast<uint64_t>(&pid);
  arguments.set_tid_size = 1;
  return static_cast<pid_t>(syscall(SYS_clone3, &arguments, sizeof arguments));
}

bool mount_private() { return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0; }

// Sets the scene that the stage asks for; in the new program, so that the tests' own process stays as it is.
int set_scene(int shm_megabytes, bool pid_namespace) {
  if (shm_megabytes > 0) {
    const std::string size = "size=" + std::to_string(shm_megabytes) + "m";
    if (unshare(CLONE_NEWNS) != 0 || !mount_private() ||
        mount("none", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, size.c_str()) != 0) {
      return 3;
    }
  }
  if (!pid_namespace) return play();
  if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0 || !mount_private()) return 3;
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (mount("none", "/proc", "proc", 0, nullptr) != 0) _exit(3);
    _exit(play());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}

}  // namespace

Actor::Actor(const Stage &stage) {
  int commands[2], answers[2];
  EXPECT_EQ(pipe2(commands, O_CLOEXEC), 0);
  EXPECT_EQ(pipe2(answers, O_CLOEXEC), 0);
  const std::string megabytes = std::to_string(stage.shm_megabytes);
  pid_ = fork_as(stage.pid);
  EXPECT_GE(pid_, 0) << std::strerror(errno);
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(commands[0], 0);
    dup2(answers[1], 1);
    if (!stage.fault.empty()) setenv("DDPCACHE_FAULT", stage.fault.c_str(), 1);
    execl("/proc/self/exe", "actor", "--actor", megabytes.c_str(), stage.pid_namespace ? "1" : "0",
          static_cast<char *>(nullptr));
    _exit(127);
  }
  ::close(commands[0]);
  ::close(answers[1]);
  commands_ = commands[1];
  answers_ = answers[0];
}

Actor::~Actor() {
  if (pid_ > 0) kill_and_reap();
  ::close(commands_);
  ::close(answers_);
}

void Actor::tell(const std::string &command) {
  const std::string line = command + "\n";
  // A dead actor is no error here: some commands are what kills it.
  EXPECT_TRUE(::write(commands_, line.data(), line.size()) > 0 || errno == EPIPE);
}

std::string Actor::hear() {
  while (heard_.find('\n') == std::string::npos) {
    pollfd waiting = {answers_, POLLIN, 0};
    if (poll(&waiting, 1, kAnswerMilliseconds) != 1) {
      ADD_FAILURE() << "the actor does not answer";
      return "";
    }
    char text[2000];
    const ssize_t got = read(answers_, text, sizeof text);
    if (got <= 0) return "";
    heard_.append(text, static_cast<size_t>(got));
  }
  const size_t end = heard_.find('\n');
  const std::string line = heard_.substr(0, end);
  heard_.erase(0, end + 1);
  return line;
}

std::string Actor::ask(const std::string &command) {
  tell(command);
  return hear();
}

void Actor::signal(int number) const { EXPECT_EQ(::kill(pid_, number), 0); }

int Actor::reap() {
  int status = 0;
  EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
  pid_ = -1;
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

void Actor::kill_and_reap() {
  ::kill(pid_, SIGKILL);
  reap();
}

void Actor::await_stop() {
  int status = 0;
  EXPECT_EQ(waitpid(pid_, &status, WUNTRACED), pid_);
  EXPECT_TRUE(WIFSTOPPED(status));
}

void Actor::await_zombie() {
  siginfo_t information = {};
  EXPECT_EQ(waitid(P_PID, static_cast<id_t>(pid_), &information, WEXITED | WNOWAIT), 0);
}

void fill_beside_a_hog(Actor *actor, int64_t *stored) {
  for (int64_t i = 0; i < 20; ++i) ASSERT_EQ(actor->ask("put " + std::to_string(i) + " 100000"), "0");
  ASSERT_EQ(actor->ask("hog"), "0");
  *stored = 20;
  std::string status;
  while ((status = actor->ask("put " + std::to_string(*stored) + " 100000")) == "0") ++*stored;
  EXPECT_EQ(status, std::to_string(DC_FULL));
  for (int64_t i = 0; i < *stored; ++i) EXPECT_EQ(actor->ask("get " + std::to_string(i) + " 100000"), "1");
}

void expect_growth_without_the_hog(Actor *actor) {
  ASSERT_EQ(actor->ask("unhog"), "0");
  usleep(1'200'000);
  EXPECT_EQ(actor->ask("put 901 100000"), "0");
}

bool may_unshare() {
  const pid_t child = fork();
  if (child == 0) {
    const bool may = unshare(CLONE_NEWNS | CLONE_NEWPID) == 0 && mount_private() &&
                     mount("none", "/dev/shm", "tmpfs", 0, "size=1m") == 0;
    _exit(may ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool may_choose_pids() {
  const pid_t unused = fork();
  if (unused == 0) _exit(0);
  waitpid(unused, nullptr, 0);
  const pid_t child = fork_as(unused);
  if (child == 0) _exit(0);
  return child == unused && waitpid(child, nullptr, 0) == child;
}

}  // namespace ddpcache::test

int main(int count, char **arguments) {
  if (count == 4 && std::string(arguments[1]) == "--actor") {
    return ddpcache::test::set_scene(std::atoi(arguments[2]), arguments[3][0] == '1');
  }
  signal(SIGPIPE, SIG_IGN);
  ddpcache::test::ends_are_checked = true;
  testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
