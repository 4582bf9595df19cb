// Monotonic time and deadlines, in nanoseconds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <limits>

namespace ddpcache {

// CLOCK_BOOTTIME: the same for every process of a time namespace, and it goes on while the machine sleeps.
inline int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_BOOTTIME, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// How long ago a moment was that another process wrote. Of another time namespace or of a damaged word it may be any:
// one that is still to come is 0 ago.
inline int64_t age_ns(int64_t now, int64_t moment) {
  int64_t age = 0;
  if (moment >= now) return 0;
  return __builtin_sub_overflow(now, moment, &age) ? std::numeric_limits<int64_t>::max() : age;
}

// The moment `timeout_ns` from now; a sum that would overflow is the end of time.
inline int64_t deadline_after(int64_t timeout_ns) {
  const int64_t now = now_ns();
  return timeout_ns > std::numeric_limits<int64_t>::max() - now ? std::numeric_limits<int64_t>::max()
                                                                : now + timeout_ns;
}

}  // namespace ddpcache
