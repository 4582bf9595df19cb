// One exploration: the threads as fibers, the choices made so far, and what each word has held in this execution.
#pragma once

#include <ucontext.h>

#include <map>
#include <memory>
#include <random>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "explorer.hpp"
#include "history.hpp"

namespace weak {

// The program's own thread_local objects, which each fiber has for itself. Those of the libraries that it uses stay
// those of the one real thread.
struct ThreadLocals {
  uint8_t *begin = nullptr;
  std::vector<uint8_t> fresh;

  ThreadLocals();
  std::vector<uint8_t> copied() const { return {begin, begin + fresh.size()}; }
  void replace(const std::vector<uint8_t> &by) const;
};

struct Fiber {
  ucontext_t context;
  void *stack = nullptr;
  std::vector<uint8_t> locals, first_locals;
  std::vector<std::pair<void (*)(void *), void *>> exits, first_exits;
  View view;
  View released;    // the view as of its last release fence
  View unacquired;  // what an acquire fence would make it learn
  uintptr_t waits_for = 0;
  bool woken = false, done = false;

  bool can_run() const { return !done && (waits_for == 0 || woken); }
};

struct Mapping {
  uintptr_t begin, end, first;
};

struct Guard {
  uint64_t offset;
  uintptr_t begin, end;
  std::vector<std::pair<int, uint32_t>> reserved;  // by which operations of which threads

  bool is_known(const Clock &clock) const {
    for (const auto &[thread, time] : reserved) {
      if (time <= clock[thread]) return true;
    }
    return false;
  }
};

struct Choice {
  int taken, of;
};

struct Explorer::State {
  ThreadLocals locals;
  std::array<Fiber, kThreadsMax> fibers;
  ucontext_t main;
  std::vector<uint8_t> main_locals;
  int current = -1;  // the running fiber; -1: none
  Fiber *prepared = nullptr;
  int threads = 0;
  const Program *program = nullptr;
  Bounds bounds;
  Mutation mutation;

  std::vector<Choice> choices;
  size_t next_choice = 0;
  std::mt19937_64 random;
  int preemptions = 0, stale = 0, operations = 0;
  unsigned patience = 1, freshness = 1;  // of random executions: how rarely threads change, and old stores are read
  bool executing = false, just_chosen = false, found_contended = false;
  std::string violation;
  bool tracing = false;

  std::vector<Mapping> mappings;
  std::vector<Cell> racing;
  std::vector<Mapping> watched;
  std::vector<Guard> guards;
  std::unordered_map<uintptr_t, std::unique_ptr<History>> words;
  std::unordered_map<uintptr_t, Plain> plain;
  std::unordered_map<uint64_t, View> kernel;
  std::map<uintptr_t, size_t> widths;               // of all words that were ever used
  std::unordered_set<uintptr_t> contended;          // what several threads use, and one at least changes
  std::unordered_set<uintptr_t> locked;             // mutexes
  std::unordered_map<uintptr_t, uint32_t> arrived;  // threads, as bits, at what is the kernel's
  std::vector<std::pair<Cell, uint64_t>> changed;   // outside of threads, with what was there before
  Clock sc_fences = {};
  uint32_t sc_now = 0;

  std::unordered_map<const char *, uint64_t> file_numbers;
  std::map<std::string, uint64_t> files;
  std::unordered_map<uint64_t, int> site_numbers;
  std::vector<Site> sites;
  std::vector<uint8_t> visited;

  // Where the first mapping of a file has it: an address that can be written, and what a word is known by.
  uintptr_t key(const void *address) const;

  int choose(int of);
  int choose_store(int of);  // the first being the latest
  bool advance();

  void end_prepared(Fiber *fiber);
  void switch_to(int thread);
  [[noreturn]] void end_with(const std::string &what);
  void pass_on();
  void schedule(uintptr_t word);
  void run_fibers();
  void run_once();

  void check_reserved(uintptr_t word);
  History &history(Cell cell);
  History &access(Cell cell, bool stores);
  Fiber &running() { return fibers[current]; }
  void tick() { ++running().view.clock[current]; }
  uint64_t read_from(Store &store, std::memory_order order);
  Store made(uint64_t value, std::memory_order order);
  void set_raw(Cell cell, uint64_t value);
  // An atomic read-modify-write of the store at `at`; gives what was there.
  template <typename Change>
  uint64_t replace(History &word, size_t at, Change &&change, std::memory_order order) {
    const uint64_t old = read_from(word.stores[at], order);
    Store store = made(change(old), order);
    store.message.join(word.stores[at].message);  // of the release sequence that it goes on with
    store.is_update = true;
    word.stores.insert(word.stores.begin() + static_cast<ptrdiff_t>(at) + 1, store);
    return old;
  }

  void trace(const char *operation, Cell cell, uint64_t value, std::memory_order order,
             const std::source_location &where) const;
  int site(const char *operation, std::memory_order order, const std::source_location &where, bool failure = false);
  std::memory_order weakened(const char *operation, std::memory_order order, const std::source_location &where,
                             bool failure = false);
};

uint64_t raw(Cell cell);

}  // namespace weak
