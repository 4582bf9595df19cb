// The library's plain loads and stores, which the compiler reports as it would to ThreadSanitizer: those in watched
// memory are checked for data races.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "explorer.hpp"

// Memory that is had anew was touched by nobody.
void *operator new(size_t bytes) {
  void *memory = std::malloc(bytes);
  if (!memory) throw std::bad_alloc();
  if (weak::watches_all) weak::explorer().allocated(memory, bytes);
  return memory;
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }

#define REPORTS(bytes)                                                                      \
  void __tsan_read##bytes(void *at) { weak::explorer().touch(at, bytes, false); }           \
  void __tsan_write##bytes(void *at) { weak::explorer().touch(at, bytes, true); }           \
  void __tsan_unaligned_read##bytes(void *at) { weak::explorer().touch(at, bytes, false); } \
  void __tsan_unaligned_write##bytes(void *at) { weak::explorer().touch(at, bytes, true); }

extern "C" {
REPORTS(1)
REPORTS(2)
REPORTS(4)
REPORTS(8)
REPORTS(16)
void __tsan_read_range(void *at, size_t bytes) { weak::explorer().touch(at, bytes, false); }
void __tsan_write_range(void *at, size_t bytes) { weak::explorer().touch(at, bytes, true); }
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_init() {}
// Guards of static objects, and counts of the standard library's own.
uint8_t __tsan_atomic8_load(const volatile uint8_t *at, int) { return __atomic_load_n(at, __ATOMIC_SEQ_CST); }
uint32_t __tsan_atomic32_load(const volatile uint32_t *at, int) { return __atomic_load_n(at, __ATOMIC_SEQ_CST); }
uint32_t __tsan_atomic32_fetch_add(volatile uint32_t *at, uint32_t by, int) {
  return __atomic_fetch_add(at, by, __ATOMIC_SEQ_CST);
}
uint32_t __tsan_atomic32_fetch_sub(volatile uint32_t *at, uint32_t by, int) {
  return __atomic_fetch_sub(at, by, __ATOMIC_SEQ_CST);
}
int __tsan_atomic32_compare_exchange_weak(volatile uint32_t *at, uint32_t *expected, uint32_t by, int, int) {
  return __atomic_compare_exchange_n(at, expected, by, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
}
