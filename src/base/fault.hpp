// Named crash points, in builds of the fault tests only: DDPCACHE_FAULT=POINT:ACTION[:NTH] kills, stops or delays the
// process when it comes by that point for the NTH time (default 1). And mutants: DDPCACHE_MUTANT=NAME takes a step of
// the protocol away for the life of the process, so that a test can show that the tests would see it. And times that a
// test may change: the variable DDPCACHE_<NAME> in place of the usual one.
#pragma once

#ifdef DDPCACHE_FAULTS

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#ifdef DDPCACHE_COVERAGE
extern "C" void __gcov_dump();
#endif

namespace ddpcache {

inline void reach_fault_point(const char *point) {
  const char *wish = std::getenv("DDPCACHE_FAULT");
  if (!wish) return;
  const std::string text = wish;
  const size_t first = text.find(':');
  if (first == std::string::npos || text.substr(0, first) != point) return;
  const size_t second = text.find(':', first + 1);
  const std::string action = text.substr(first + 1, second == std::string::npos ? second : second - first - 1);
  static std::atomic<int> passes{0};
  const int wanted = second == std::string::npos ? 1 : std::atoi(text.c_str() + second + 1);
  if (++passes != wanted) return;
#ifdef DDPCACHE_COVERAGE
  if (action == "kill") __gcov_dump();  // what ran before the kill counts as covered
#endif
  if (action == "kill") std::raise(SIGKILL);
  if (action == "stop") std::raise(SIGSTOP);
  if (action == "sleep") {
    const timespec pause = {0, 300'000'000};
    nanosleep(&pause, nullptr);
  }
}

inline bool is_mutant(const char *name) {
  const char *wish = std::getenv("DDPCACHE_MUTANT");
  return wish && std::strcmp(wish, name) == 0;
}

inline int64_t fault_time(const char *variable, int64_t usual) {
  const char *wish = std::getenv(variable);
  return wish ? std::atoll(wish) : usual;
}

}  // namespace ddpcache

#define DC_FAULT_POINT(name) ::ddpcache::reach_fault_point(name)
#define DC_MUTANT(name)                                        \
  ([] {                                                        \
    static const bool is_chosen = ::ddpcache::is_mutant(name); \
    return is_chosen;                                          \
  }())
#define DC_FAULT_TIME(name, usual) ::ddpcache::fault_time("DDPCACHE_" name, usual)
#else
#define DC_FAULT_POINT(name) static_cast<void>(0)
#define DC_MUTANT(name) false
#define DC_FAULT_TIME(name, usual) (usual)
#endif
