// Processes made by fork from a test that has no threads, and how long a stress test shall be.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "../support/caches.hpp"

namespace ddpcache::test {

// What this run's random numbers begin with: DDPCACHE_TEST_SEED, or one of its own, which is printed.
uint64_t stress_seed();

// `rounds`, fewer under a sanitizer, more by DDPCACHE_STRESS_FACTOR and in a soak.
int scaled(int rounds);

// After which a process of a test is taken to hang.
unsigned watchdog_seconds();

// Memory that all processes of a crew share.
void *shared_memory(size_t bytes);

template <typename T>
T *shared() {
  return new (shared_memory(sizeof(T))) T();
}

// Runs `work(member)` in `processes` processes; each that does not return true, or dies, is a failure.
void run_crew(int processes, const std::function<bool(int)> &work);

// Lets `parties` meet any number of times. Across processes where it lies in shared memory.
class Meeting {
 public:
  explicit Meeting(uint32_t parties = 0) : parties_(parties) {}
  void set_parties(uint32_t parties) { parties_ = parties; }
  void wait();

 private:
  uint32_t parties_;
  std::atomic<uint32_t> arrived_{0};
  std::atomic<uint32_t> round_{0};
};

}  // namespace ddpcache::test
