// Waiting for a shared 32-bit word to change.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <ctime>

namespace ddpcache {

enum class WaitResult { woken, timed_out, interrupted };

// Blocks while *word == expected, for at most `timeout_ns`. Shared, not private: the word lies in several processes.
inline WaitResult futex_wait(const uint32_t *word, uint32_t expected, int64_t timeout_ns) {
  const timespec timeout = {timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  if (syscall(SYS_futex, word, FUTEX_WAIT, expected, &timeout, nullptr, 0) == 0) return WaitResult::woken;
  if (errno == ETIMEDOUT) return WaitResult::timed_out;
  return errno == EINTR ? WaitResult::interrupted : WaitResult::woken;
}

inline void futex_wake_all(const uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace ddpcache
