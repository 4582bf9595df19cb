// Explores what the C++20 memory model allows a few threads to do: every operation of the library's atomic types comes
// here, and each execution makes other choices of
//   - which thread goes on (at operations on words that several threads use; a bounded number of times per execution
//     against the will of the one that runs),
//   - which of the stores that coherence and happens-before allow a load reads, where a store comes in a word's
//     modification order (a bounded number of choices per execution that are not the latest).
// The model is that of [atomics.order] and [intro.races] without loads that read what is stored later, so values out
// of thin air, and load buffering, do not come up (as in RC11). One total order S of all seq_cst operations is the
// order in which they are explored. Plain memory is checked for data races where a scenario watches it.
//
// Threads are fibers of one thread of the system. Not thread-safe itself. Words are known by address; a file that is
// mapped several times is one by `alias`.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <string>
#include <vector>

namespace weak {

inline constexpr int kThreadsMax = 4;

struct Cell {
  void *address;
  size_t bytes;
};

enum class Update { exchange, add, subtract, bit_or, bit_and };

// The order of a compare_exchange that fails, where only one is given.
constexpr std::memory_order of_failure(std::memory_order order) {
  if (order == std::memory_order_acq_rel) return std::memory_order_acquire;
  return order == std::memory_order_release ? std::memory_order_relaxed : order;
}

// An operation in the sources.
struct Site {
  std::string file, function;
  uint32_t line = 0, column = 0;
  std::string operation;
  std::memory_order order{};
  bool failure = false;  // the order of a compare_exchange that fails
};

// One order that is weakened; for a fence, to relaxed, which is none.
struct Mutation {
  int site = -1;
  std::memory_order order{};
};

struct Bounds {
  int preemptions = 2;
  int stale = 2;  // choices that are not the latest
  int64_t executions = 3'000'000;
  bool slices = false;       // a wait ends by itself where nobody else can go on
  bool watch_all = false;    // all plain memory but the stacks of the threads
  bool exits = false;        // threads end, and their thread_local objects with them
  bool trace = false;        // prints the execution that is a violation
  uint64_t random_seed = 0;  // not 0: random choices without the two bounds, `executions` times
};

struct Outcome {
  int64_t executions = 0;
  bool complete = false;  // all that the bounds allow was explored; all random executions were run
  std::string violation;
};

struct Program {
  std::vector<std::function<void()>> threads;
  std::function<void()> before, after;  // alone; may be empty
};

class Explorer {
 public:
  // Explores until a violation or the end.
  Outcome explore(const Program &program, const Bounds &bounds, Mutation mutation = {});

  // Of the scenario: what must hold; plain memory that is touched; two mappings of one file.
  void require(bool holds, const char *what);
  void read(const void *address);
  void write(const void *address);
  void alias(const void *begin, size_t bytes, void *first_mapping);
  // Eight bytes that copies meet while they are rewritten, by stores of a word of the substituted type.
  void track(const void *address);
  // Plain memory in which each access of the library is checked for races.
  void watch(const void *begin, size_t bytes);
  // A range of a file, at `offset`, whose words may be used only after it was reserved.
  void clear_guards();
  void guard(uint64_t offset, const void *begin, size_t bytes);
  // How much of the file the running thread knows to be reserved, of guarded ranges in order and what is before them;
  // 0 where none are guarded.
  uint64_t known_bytes() const;
  // Ends all that alias, track, watch, guard and prepare_thread said.
  void clear_memory();
  // Gives thread `number` the thread_local objects that it has after `use`, which runs at once.
  // Those go with `clear_memory`, as at the end of a thread.
  void prepare_thread(int number, const std::function<void()> &use);
  int running() const;  // which thread; -1: none

  // All operations with an order that the explored threads have come by so far.
  const std::vector<Site> &sites() const;
  // Those of the last exploration.
  std::vector<int> visits() const;

  // Of the substituted types.
  uint64_t load(Cell cell, std::memory_order order, const std::source_location &where);
  void store(Cell cell, uint64_t value, std::memory_order order, const std::source_location &where);
  uint64_t update(Cell cell, Update kind, uint64_t operand, std::memory_order order, const std::source_location &where);
  bool compare_exchange(Cell cell, uint64_t *expected, uint64_t desired, std::memory_order success,
                        std::memory_order failure, const std::source_location &where);
  void fence(std::memory_order order, const std::source_location &where);
  void copy(void *to, const void *from, size_t bytes);
  const uint8_t *find_nonzero(const uint8_t *begin, const uint8_t *end);
  void forget(const void *address);
  bool wait(const uint32_t *word, uint32_t expected);
  void wake(const uint32_t *word);
  // What the kernel orders: before a lock is touched; one that is given up; one that is had, or seen to be free.
  void arrive(uint64_t lock);
  void leave_kernel(uint64_t lock);
  void enter_kernel(uint64_t lock);
  void lock(const void *mutex);
  void unlock(const void *mutex);
  void reserved(uint64_t offset);
  void allocated(const void *begin, size_t bytes);
  void touch(const void *address, size_t bytes, bool writes);
  void add_thread_exit(void (*run)(void *), void *object);

  struct State;

 private:
  friend Explorer &explorer();
  Explorer();

  State *state_;  // for as long as the program lives
};

Explorer &explorer();
extern bool watches_all;  // the present exploration does; known before the explorer is

}  // namespace weak
