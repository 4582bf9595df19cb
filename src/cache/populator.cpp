#include "populator.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "cache.hpp"
#include "pages.hpp"
#include "signals.hpp"

namespace ddpcache {
namespace {

// The kernel holds the lock of the address space for one chunk, and an allocation of the program's may wait for it.
constexpr uint64_t kChunkBytes = 1 << 20;
// Behind whoever has work to do on its core, but not so far that the lock is kept for long where there is no idle one.
constexpr int kNiceness = 5;

}  // namespace

Populator::~Populator() {
  stop_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

Status Populator::start() {
  const std::lock_guard lock(mutex_);
  if (running_.load(std::memory_order_relaxed)) return {};  // the mutex, and the join, order what there is to order
  if (thread_.joinable()) thread_.join();                   // it has ended, or is about to
  running_.store(true, std::memory_order_relaxed);
  const SignalsBlocked blocked;
  try {
    thread_ = Thread([this] {
      run();
      running_.store(false, std::memory_order_relaxed);
    });
    return {};
  } catch (const std::system_error &error) {
    running_.store(false, std::memory_order_relaxed);
    return system_failure("pthread_create", "the populating thread", error.code().value());
  }
}

void Populator::run() {
  pthread_setname_np(pthread_self(), "ddpcache-pages");
  const id_t self = static_cast<id_t>(gettid());
  setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + kNiceness);  // NOLINT: no matter if it fails
  const bool resident_only = segment_.medium == Medium::disk;
  const auto map_all = [&](const uint8_t *begin, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes && !stop_.load(std::memory_order_relaxed); at += kChunkBytes) {
      map_pages(begin + at, std::min(kChunkBytes, bytes - at), resident_only);
    }
  };
  map_all(segment_.words(), segment_.words_bytes());
  for (uint32_t step = 0; step < segment_.layout.steps; ++step) {
    // EDGE step: it is reserved. A damaged word promises nothing.
    Extent first;
    if (!segment_.find_extent({step, 0}, &first)) continue;
    map_all(segment_.readable_step(step), segment_.layout.step_bytes);
  }
}

Status Cache::populate() {
  Populator *populator = populator_.load(std::memory_order_acquire);
  if (!populator || !populator->is_here()) {
    std::unique_ptr<Populator> made = std::make_unique<Populator>(segment_);
    // One that a parent left behind cannot be ended here. Where another thread was quicker, its own is as good.
    if (populator_.compare_exchange_strong(populator, made.get(), std::memory_order_release,
                                           std::memory_order_acquire)) {
      populator = made.release();
    }
  }
  return populator->start();
}

void Cache::stop_populating() {
  // Relaxed: whoever closes the cache has waited for all other calls.
  Populator *populator = populator_.exchange(nullptr, std::memory_order_relaxed);
  if (populator && populator->is_here()) delete populator;
}

}  // namespace ddpcache
