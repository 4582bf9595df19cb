// The atomic types of the shared words. tests/model/weak puts a header of the same name before this one, whose types
// explore what the C++ memory model allows; so the library's own sources are what is explored.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>

namespace ddpcache {

template <typename T>
using Atomic = std::atomic<T>;

inline void atomic_fence(std::memory_order order) noexcept { std::atomic_thread_fence(order); }

// Copies bytes that another process may be writing. Nothing may follow from them until it is known that none was.
inline void copy_racing(void *to, const void *from, size_t bytes) noexcept { std::memcpy(to, from, bytes); }

}  // namespace ddpcache
