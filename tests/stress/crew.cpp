#include "crew.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "../support/soak.hpp"
#include "futex.hpp"

namespace ddpcache::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kSlowness = 5;
#else
constexpr int kSlowness = 1;
#endif

}  // namespace

uint64_t stress_seed() {
  const char *wish = std::getenv("DDPCACHE_TEST_SEED");
  const uint64_t seed = wish ? std::strtoull(wish, nullptr, 0) : std::random_device()();
  std::printf("DDPCACHE_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  return seed;
}

int scaled(int rounds) {
  const char *wish = std::getenv("DDPCACHE_STRESS_FACTOR");
  return std::max(1, static_cast<int>(rounds * (wish ? std::atof(wish) : soaked(1.0, 10.0)) / kSlowness));
}

unsigned watchdog_seconds() { return soaked(110u, 900u); }

void *shared_memory(size_t bytes) {
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  return memory;
}

void run_crew(int processes, const std::function<bool(int)> &work) {
  std::vector<pid_t> members;
  for (int i = 0; i < processes; ++i) {
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      alarm(watchdog_seconds());
      const bool fine = work(i) && !::testing::Test::HasFailure();
      std::fflush(nullptr);  // of what failed
      _exit(fine ? 0 : 1);
    }
    ASSERT_GT(pid, 0);
    members.push_back(pid);
  }
  for (const pid_t pid : members) {
    int status = -1;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0) << "process " << pid;
  }
}

void Meeting::wait() {
  const uint32_t round = round_.load();
  if (arrived_.fetch_add(1) + 1 == parties_) {
    arrived_.store(0);
    round_.store(round + 1);
    futex_wake_all(reinterpret_cast<const uint32_t *>(&round_));
    return;
  }
  while (round_.load() == round) futex_wait(reinterpret_cast<const uint32_t *>(&round_), round, kSecond);
}

}  // namespace ddpcache::test
