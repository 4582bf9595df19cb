// The atomic types of the shared words. tests/model/weak puts a header of the same name before this one, whose types
// explore what the C++ memory model allows; so the library's own sources are what is explored.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ddpcache {

template <typename T>
using Atomic = std::atomic<T>;

// Of an access that is relaxed because a fence makes the order. ThreadSanitizer knows no fences, so there the access
// makes it: to its reports that is the same, since a fence says of some accesses what these say of one.
#ifdef __SANITIZE_THREAD__
inline constexpr std::memory_order kRelaxedBeforeFence = std::memory_order_acquire;  // a load
inline constexpr std::memory_order kRelaxedAfterFence = std::memory_order_release;   // a store
#else
inline constexpr std::memory_order kRelaxedBeforeFence = std::memory_order_relaxed;
inline constexpr std::memory_order kRelaxedAfterFence = std::memory_order_relaxed;
#endif

inline void atomic_fence(std::memory_order order) noexcept { std::atomic_thread_fence(order); }

// Copies bytes that another process may be writing. Nothing may follow from them until it is known that none was.
inline void copy_racing(void *to, const void *from, size_t bytes) noexcept { std::memcpy(to, from, bytes); }

// The first byte that is not 0 of those, which another process may be writing; `end` where there is none.
inline const uint8_t *find_nonzero_racing(const uint8_t *begin, const uint8_t *end) noexcept {
  const size_t bytes = static_cast<size_t>(end - begin);
  if (bytes == 0 || (*begin == 0 && std::memcmp(begin, begin + 1, bytes - 1) == 0)) return end;
  return std::find_if(begin, end, [](uint8_t byte) { return byte != 0; });
}

}  // namespace ddpcache
