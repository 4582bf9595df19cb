// Stands before src/base/atomic.hpp in the programs of this folder: the library's atomic types as the explorer's, of
// the same size and place. Where no exploration runs they are plain memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>

#include "explorer.hpp"

namespace ddpcache {

template <typename T>
class Atomic {
 public:
  using Where = std::source_location;
  using Order = std::memory_order;
  static constexpr bool is_always_lock_free = true;

  constexpr Atomic() noexcept : value_() {}
  constexpr Atomic(T value) noexcept : value_(value) {}
  ~Atomic() { weak::explorer().forget(&value_); }
  Atomic(const Atomic &) = delete;
  Atomic &operator=(const Atomic &) = delete;

  T load(Order order = Order::seq_cst, Where where = Where::current()) const {
    return value(weak::explorer().load(cell(), order, where));
  }
  void store(T desired, Order order = Order::seq_cst, Where where = Where::current()) {
    weak::explorer().store(cell(), bits(desired), order, where);
  }
  T exchange(T desired, Order order = Order::seq_cst, Where where = Where::current()) {
    return value(weak::explorer().update(cell(), weak::Update::exchange, bits(desired), order, where));
  }
  T fetch_add(T amount, Order order = Order::seq_cst, Where where = Where::current()) {
    return value(weak::explorer().update(cell(), weak::Update::add, bits(amount), order, where));
  }
  T fetch_sub(T amount, Order order = Order::seq_cst, Where where = Where::current()) {
    return value(weak::explorer().update(cell(), weak::Update::subtract, bits(amount), order, where));
  }
  T fetch_or(T mask, Order order = Order::seq_cst, Where where = Where::current()) {
    return value(weak::explorer().update(cell(), weak::Update::bit_or, bits(mask), order, where));
  }
  T fetch_and(T mask, Order order = Order::seq_cst, Where where = Where::current()) {
    return value(weak::explorer().update(cell(), weak::Update::bit_and, bits(mask), order, where));
  }
  bool compare_exchange_strong(T &expected, T desired, Order success, Order failure, Where where = Where::current()) {
    uint64_t seen = bits(expected);
    const bool done = weak::explorer().compare_exchange(cell(), &seen, bits(desired), success, failure, where);
    if (!done) expected = value(seen);
    return done;
  }
  bool compare_exchange_strong(T &expected, T desired, Order order = Order::seq_cst, Where where = Where::current()) {
    return compare_exchange_strong(expected, desired, order, weak::of_failure(order), where);
  }
  // Without failures for no reason: those only go round a loop once more.
  bool compare_exchange_weak(T &expected, T desired, Order success, Order failure, Where where = Where::current()) {
    return compare_exchange_strong(expected, desired, success, failure, where);
  }
  bool compare_exchange_weak(T &expected, T desired, Order order = Order::seq_cst, Where where = Where::current()) {
    return compare_exchange_strong(expected, desired, order, where);
  }

 private:
  static uint64_t bits(T from) {
    uint64_t to = 0;
    std::memcpy(&to, &from, sizeof from);
    return to;
  }
  static T value(uint64_t from) {
    T to;
    std::memcpy(&to, &from, sizeof to);
    return to;
  }
  weak::Cell cell() const { return {const_cast<T *>(&value_), sizeof(T)}; }

  T value_;
};

inline constexpr std::memory_order kRelaxedBeforeFence = std::memory_order_relaxed;
inline constexpr std::memory_order kRelaxedAfterFence = std::memory_order_relaxed;

inline void atomic_fence(std::memory_order order, std::source_location where = std::source_location::current()) {
  weak::explorer().fence(order, where);
}

inline const uint8_t *find_nonzero_racing(const uint8_t *begin, const uint8_t *end) {
  return weak::explorer().find_nonzero(begin, end);
}

inline void copy_racing(void *to, const void *from, size_t bytes) { weak::explorer().copy(to, from, bytes); }

}  // namespace ddpcache
