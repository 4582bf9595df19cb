// Stands before src/shm/futex.hpp: waiting as the explorer sees it, without an end but by a wake.
#pragma once

#include <cstdint>

#include "explorer.hpp"

namespace ddpcache {

enum class WaitResult { woken, timed_out, interrupted };

inline WaitResult futex_wait(const uint32_t *word, uint32_t expected, int64_t) {
  return weak::explorer().wait(word, expected) ? WaitResult::woken : WaitResult::timed_out;
}

inline void futex_wake_all(const uint32_t *word) { weak::explorer().wake(word); }

}  // namespace ddpcache
