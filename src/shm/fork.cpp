#include "fork.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include "atomic.hpp"

namespace ddpcache {
// Neither is ever destroyed: threads may use caches while static objects go.
Mutex &process_mutex() {
  static Mutex *const mutex = new Mutex;
  return *mutex;
}

class Registry {
 public:
  static Registry &get() {
    static Registry *const registry = new Registry;
    return *registry;
  }

  void add(ForkAware *object, int fd) {
    const std::lock_guard lock(mutex_);
    announce(object, fd);
    object->previous_ = nullptr;
    object->next_ = first_;
    if (first_) first_->previous_ = object;
    first_ = object;
  }

  void announce(const ForkAware *owner, int fd) noexcept {
    for (ForkAware *object = first_; object; object = object->next_) {
      if (object != owner) object->descriptor_given_to_another(fd);
    }
  }

  void renew(ForkAware *object) {
    const std::lock_guard lock(mutex_);
    object->after_fork_in_child();
  }

  void remove(ForkAware *object) {
    const std::lock_guard lock(mutex_);
    (object->previous_ ? object->previous_->next_ : first_) = object->next_;
    if (object->next_) object->next_->previous_ = object->previous_;
  }

 private:
  // It fails for want of memory only, and then wiped pages still tell a child what it is.
  Registry() { static_cast<void>(pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child)); }

  static void before_fork() {
    process_mutex().lock();
    get().mutex_.lock();
  }
  static void after_fork_in_parent() {
    get().mutex_.unlock();
    process_mutex().unlock();
  }
  static void after_fork_in_child() {
    for (ForkAware *object = get().first_; object; object = object->next_) object->after_fork_in_child();
    after_fork_in_parent();
  }

  Mutex mutex_;
  ForkAware *first_ = nullptr;
};

void register_fork_aware(ForkAware *object, int fd) { Registry::get().add(object, fd); }
void renew_after_fork(ForkAware *object) { Registry::get().renew(object); }
void announce_descriptor(const ForkAware *object, int fd) noexcept { Registry::get().announce(object, fd); }
void unregister_fork_aware(ForkAware *object) { Registry::get().remove(object); }

namespace {

// Survives a fork, so that a child numbers itself after its parent.
Atomic<uint32_t> last_generation{0};

Atomic<uint32_t> *generation_page() {
  static Atomic<uint32_t> *const page = static_cast<Atomic<uint32_t> *>(wiped_on_fork(4096));
  return page;
}

}  // namespace

void *wiped_on_fork(size_t bytes) {
  void *page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  if (madvise(page, bytes, MADV_WIPEONFORK) == 0) return page;
  munmap(page, bytes);
  return nullptr;
}

void release_wiped(void *page, size_t bytes) {
  if (page) munmap(page, bytes);
}

uint32_t fork_generation() {
  Atomic<uint32_t> *page = generation_page();
  if (!page) return 1;  // without the page no cache can be opened either
  uint32_t generation = page->load(std::memory_order_relaxed);
  if (generation != 0) return generation;
  const uint32_t next = last_generation.fetch_add(1, std::memory_order_relaxed) + 1;
  return page->compare_exchange_strong(generation, next, std::memory_order_relaxed) ? next : generation;
}

}  // namespace ddpcache
