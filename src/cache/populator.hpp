// A thread that maps a cache's pages in the background, so that the first pass over a filled cache meets few faults.
//
// It only reads words and maps pages: it has no registration, names nothing and counts nothing, so at any moment it may
// be stopped, or be missing in a forked child.
#pragma once

#include <cstdint>

#include "atomic.hpp"
#include "fork.hpp"
#include "segment.hpp"
#include "threads.hpp"

namespace ddpcache {

class Populator {
 public:
  explicit Populator(const Segment &segment) : segment_(segment), generation_(fork_generation()) {}
  // Waits for the thread, which looks at each chunk whether it is to end. Only in the process that made it: a forked
  // child has no such thread, and leaves the object as it is.
  ~Populator();
  Populator(const Populator &) = delete;
  Populator &operator=(const Populator &) = delete;

  bool is_here() const { return generation_ == fork_generation(); }
  // Lets the thread run over all steps that are reserved, unless it is at it. By any thread. DC_ERROR_SYSTEM where no
  // thread is to be had.
  Status start();

 private:
  void run();

  const Segment &segment_;
  const uint32_t generation_;
  Atomic<bool> running_{false};
  Atomic<bool> stop_{false};
  Mutex mutex_;  // of who starts the thread; a child, where it may be locked for ever, makes a Populator of its own
  Thread thread_;
};

}  // namespace ddpcache
