// A value that const calls of several threads may ask for first.
#pragma once

#include <memory>

#include "atomic.hpp"

namespace ddpcache {

// No lock: the first callers may each build the value, and all but one throw theirs away. A lock could be held by
// another thread at a fork, and the child would wait for it for ever.
template <typename T>
class Lazy {
 public:
  Lazy() = default;
  Lazy(const Lazy &) = delete;
  Lazy &operator=(const Lazy &) = delete;
  ~Lazy() { reset(); }

  // Needs the object to itself, as the non-const calls of a sampler do.
  void reset() { delete value_.exchange(nullptr, std::memory_order_relaxed); }

  template <typename Build>
  const T &get(Build &&build) const {
    // EDGE value: acquire here and in the exchange below pairs with its release: the built value is visible.
    if (const T *value = value_.load(std::memory_order_acquire)) return *value;
    auto built = std::make_unique<const T>(build());
    const T *expected = nullptr;
    if (value_.compare_exchange_strong(expected, built.get(), std::memory_order_release, std::memory_order_acquire)) {
      return *built.release();
    }
    return *expected;
  }

 private:
  mutable Atomic<const T *> value_{nullptr};
};

}  // namespace ddpcache
