// What a fork does to this library's state in a process.
//
// Pages made by `wiped_on_fork` read as zero in every child, however it was forked: that is how a child knows that it
// is one, also where the fork handlers did not run. The handlers themselves only make the common case prompt.
#pragma once

#include <cstddef>
#include <cstdint>

#include "threads.hpp"

namespace ddpcache {

// Zeroed memory that is zero again in a child. nullptr where there is no memory. Released by
// release_wiped.
void *wiped_on_fork(size_t bytes);
void release_wiped(void *page, size_t bytes);

// Guards name locks and registration; the fork handler takes it, so that no child inherits a lock file held or half a
// registration. It may be held for as long as an open may wait.
Mutex &process_mutex();

// An object whose descriptors a child must replace.
class ForkAware {
 public:
  // In the child, with both mutexes held, before fork() returns: async-signal-safe calls only.
  virtual void after_fork_in_child() noexcept = 0;
  // Another object has just been given a descriptor of this number.
  virtual void descriptor_given_to_another(int fd) noexcept = 0;

 protected:
  ~ForkAware() = default;

 private:
  friend class Registry;
  ForkAware *next_ = nullptr;
  ForkAware *previous_ = nullptr;
};

// The registry has a mutex of its own, never held for long, which the fork handler takes too.
void register_fork_aware(ForkAware *object, int fd);
void unregister_fork_aware(ForkAware *object);
// What the fork handler does for one object, where the fork bypassed it.
void renew_after_fork(ForkAware *object);
// Tells all other objects that `object` has a descriptor of this number. In a fork handler.
void announce_descriptor(const ForkAware *object, int fd) noexcept;

// A number that differs between a process and its forked children; never 0.
uint32_t fork_generation();

}  // namespace ddpcache
