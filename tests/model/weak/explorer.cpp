#include "explorer.hpp"

#include <link.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "state.hpp"

namespace weak {
namespace {

constexpr size_t kStackBytes = 256 << 10;
constexpr int kOperationsMax = 20'000;  // of one execution; more is a loop that does not end

Explorer::State *beginning = nullptr;  // makecontext passes ints only

void begin_fiber() {
  Explorer::State &state = *beginning;
  Fiber &fiber = state.running();
  state.program->threads[static_cast<size_t>(state.current)]();
  while (state.bounds.exits && !fiber.exits.empty()) {
    const auto [run, object] = fiber.exits.back();
    fiber.exits.pop_back();
    run(object);
  }
  fiber.done = true;
  state.pass_on();
}

}  // namespace

ThreadLocals::ThreadLocals() {
  const auto look = [](dl_phdr_info *info, size_t, void *result) {
    ThreadLocals &own = *static_cast<ThreadLocals *>(result);
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto &segment = info->dlpi_phdr[i];
      if (segment.p_type != PT_TLS) continue;
      own.begin = static_cast<uint8_t *>(info->dlpi_tls_data);
      own.fresh.assign(segment.p_memsz, 0);
      std::memcpy(own.fresh.data(), reinterpret_cast<const void *>(info->dlpi_addr + segment.p_vaddr),
                  segment.p_filesz);
    }
    return 1;  // the first object is the program
  };
  dl_iterate_phdr(look, this);
}

void ThreadLocals::replace(const std::vector<uint8_t> &by) const {
  if (begin) std::memcpy(begin, by.data(), by.size());
}

uintptr_t Explorer::State::key(const void *address) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (const Mapping &mapping : mappings) {
    if (at >= mapping.begin && at < mapping.end) return mapping.first + (at - mapping.begin);
  }
  return at;
}

int Explorer::State::choose(int of) {
  if (of == 1) return 0;
  if (bounds.random_seed != 0) return static_cast<int>(random() % static_cast<unsigned>(of));
  if (next_choice == choices.size()) choices.push_back({0, of});
  const Choice &choice = choices[next_choice++];
  if (choice.of != of) {
    std::fprintf(stderr, "weak: an execution cannot be repeated: of %d choices there are %d now\n", choice.of, of);
    std::abort();
  }
  return choice.taken;
}

int Explorer::State::choose_store(int of) {
  if (bounds.random_seed == 0 && stale >= bounds.stale) return 0;
  if (bounds.random_seed != 0 && random() % freshness != 0) return 0;
  const int taken = choose(of);
  stale += taken != 0;
  return taken;
}

// To the next execution: the last choice that has another way to go takes it.
bool Explorer::State::advance() {
  while (!choices.empty() && choices.back().taken + 1 == choices.back().of) choices.pop_back();
  if (choices.empty()) return false;
  ++choices.back().taken;
  return true;
}

void Explorer::State::switch_to(int thread) {
  const int from = current;
  if (from == thread) return;
  (from < 0 ? main_locals : fibers[from].locals) = locals.copied();
  locals.replace(thread < 0 ? main_locals : fibers[thread].locals);
  current = thread;
  swapcontext(from < 0 ? &main : &fibers[from].context, thread < 0 ? &main : &fibers[thread].context);
}

void Explorer::State::end_with(const std::string &what) {
  if (violation.empty()) violation = what;
  switch_to(-1);  // for good: what the fibers hold is lost
  std::abort();
}

// To somebody who can run, since the running one cannot go on; back to `explore` where all have ended.
void Explorer::State::pass_on() {
  std::array<int, kThreadsMax> able;
  int count = 0, waiting = 0;
  for (int t = 0; t < threads; ++t) {
    if (fibers[t].can_run()) able[count++] = t;
    waiting += !fibers[t].done && !fibers[t].can_run();
  }
  if (count == 0 && bounds.slices) {
    for (int t = 0; t < threads; ++t) {
      if (!fibers[t].done) able[count++] = t;
    }
  }
  just_chosen = true;
  if (count > 0) return switch_to(able[choose(count)]);
  if (waiting > 0) end_with("a thread waits, and nobody is left to wake it");
  switch_to(-1);
}

// Before an operation on what others use too: one of them may go first.
void Explorer::State::schedule(uintptr_t word) {
  if (++operations > kOperationsMax) end_with("a loop does not end");
  if (contended.count(word) == 0) return;
  if (std::exchange(just_chosen, false)) return;
  if (bounds.random_seed == 0 && preemptions >= bounds.preemptions) return;
  if (bounds.random_seed != 0 && random() % patience != 0) return;
  std::array<int, kThreadsMax> able = {current};
  int count = 1;
  for (int t = 0; t < threads; ++t) {
    if (t != current && fibers[t].can_run()) able[count++] = t;
  }
  const int taken = choose(count);
  if (taken == 0) return;
  ++preemptions;
  just_chosen = true;
  switch_to(able[taken]);
  just_chosen = false;
}

void Explorer::State::run_fibers() {
  for (int t = 0; t < threads; ++t) {
    Fiber &fiber = fibers[t];
    if (!fiber.stack) {
      fiber.stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (fiber.stack == MAP_FAILED) std::abort();
    }
    fiber.view = fiber.released = fiber.unacquired = {};
    fiber.waits_for = 0;
    fiber.woken = fiber.done = false;
    fiber.exits.clear();
    fiber.locals = fiber.first_locals.empty() ? locals.fresh : fiber.first_locals;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack;
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, begin_fiber, 0);
  }
  beginning = this;
  pass_on();
}

// Memory is as before afterwards, so that the next execution begins where this one did.
void Explorer::State::run_once() {
  next_choice = 0;
  preemptions = stale = operations = 0;
  patience = 1u << (random() % 10);
  freshness = 1u << (random() % 6);
  sc_now = 0;
  sc_fences = {};
  words.clear();
  plain.clear();
  kernel.clear();
  arrived.clear();
  locked.clear();
  changed.clear();
  for (Guard &guarded : guards) guarded.reserved.clear();
  executing = true;
  if (program->before) program->before();
  run_fibers();
  for (const auto &[at, word] : words) set_raw(word->cell, word->stores.back().value);
  if (program->after) program->after();
  for (auto change = changed.rbegin(); change != changed.rend(); ++change) {
    std::memcpy(change->first.address, &change->second, change->first.bytes);
  }
  executing = false;
}

Explorer::Explorer() : state_(new State) {}

bool watches_all = false;

Explorer &explorer() {
  static Explorer *const instance = new Explorer;  // static objects use it while they go
  return *instance;
}

Outcome Explorer::explore(const Program &program, const Bounds &bounds, Mutation mutation) {
  State &state = *state_;
  state.program = &program;
  state.threads = static_cast<int>(program.threads.size());
  state.bounds = bounds;
  state.mutation = mutation;
  watches_all = bounds.watch_all;
  state.choices.clear();
  state.violation.clear();
  state.contended.clear();
  state.visited.assign(state.sites.size(), 0);
  state.random.seed(bounds.random_seed);
  Outcome outcome;
  while (outcome.executions < bounds.executions) {
    state.found_contended = false;
    ++outcome.executions;
    state.run_once();
    if (!state.violation.empty()) break;
    if (bounds.random_seed != 0) continue;
    // What proves to be shared makes more places where threads take turns: all begins anew.
    if (state.found_contended) {
      state.choices.clear();
    } else if (!state.advance()) {
      outcome.complete = true;
      break;
    }
  }
  if (bounds.random_seed != 0) outcome.complete = outcome.executions == bounds.executions;
  outcome.violation = state.violation;
  if (bounds.trace && bounds.random_seed == 0 && !state.violation.empty()) {
    state.tracing = true;
    state.run_once();
    state.tracing = false;
  }
  return outcome;
}

void Explorer::require(bool holds, const char *what) {
  if (holds) return;
  if (running() >= 0) state_->end_with(what);
  if (state_->violation.empty()) state_->violation = what;
}

void Explorer::read(const void *address) {
  if (running() < 0) return;
  State &state = *state_;
  state.tick();
  Plain &plain = state.plain[state.key(address)];
  const Clock &clock = state.running().view.clock;
  require(plain.written <= clock[plain.writer], "data race: a read of what may still be written");
  plain.read[state.current] = clock[state.current];
}

void Explorer::write(const void *address) {
  if (running() < 0) return;
  State &state = *state_;
  state.tick();
  Plain &plain = state.plain[state.key(address)];
  const Clock &clock = state.running().view.clock;
  require(plain.written <= clock[plain.writer], "data race: two writes at once");
  for (int t = 0; t < kThreadsMax; ++t) {
    require(plain.read[t] <= clock[t], "data race: a write of what may still be read");
  }
  plain = {state.current, clock[state.current], {}};
}

void Explorer::alias(const void *begin, size_t bytes, void *first_mapping) {
  const auto at = reinterpret_cast<uintptr_t>(begin);
  state_->mappings.push_back({at, at + bytes, reinterpret_cast<uintptr_t>(first_mapping)});
}

void Explorer::track(const void *address) {
  state_->racing.push_back({reinterpret_cast<void *>(state_->key(address)), sizeof(uint64_t)});
}

void Explorer::watch(const void *begin, size_t bytes) {
  const uintptr_t at = state_->key(begin);
  state_->watched.push_back({at, at + bytes, at});
}

void Explorer::guard(uint64_t offset, const void *begin, size_t bytes) {
  const uintptr_t at = state_->key(begin);
  state_->guards.push_back({offset, at, at + bytes, {}});
}

uint64_t Explorer::known_bytes() const {
  if (running() < 0 || state_->guards.empty()) return 0;
  uint64_t bytes = state_->guards.front().offset;
  for (const Guard &range : state_->guards) {
    if (range.is_known(state_->running().view.clock)) bytes += range.end - range.begin;
  }
  return bytes;
}

void Explorer::clear_guards() { state_->guards.clear(); }

void Explorer::touch(const void *address, size_t bytes, bool writes) {
  if (running() < 0) return;
  State &state = *state_;
  const uintptr_t at = state.key(address);
  bool watched = state.bounds.watch_all;
  for (const Fiber &fiber : state.fibers) {
    watched &=
        at < reinterpret_cast<uintptr_t>(fiber.stack) || at >= reinterpret_cast<uintptr_t>(fiber.stack) + kStackBytes;
  }
  for (const Mapping &range : state.watched) watched |= at >= range.begin && at < range.end;
  if (!watched) return;
  for (uintptr_t granule = at & ~uintptr_t{7}; granule < at + bytes; granule += 8) {
    writes ? write(reinterpret_cast<void *>(granule)) : read(reinterpret_cast<void *>(granule));
  }
}

void Explorer::allocated(const void *begin, size_t bytes) {
  if (running() < 0) return;
  const auto at = reinterpret_cast<uintptr_t>(begin);
  for (uintptr_t granule = at & ~uintptr_t{7}; granule < at + bytes; granule += 8) state_->plain.erase(granule);
}

void Explorer::clear_memory() {
  state_->mappings.clear();
  state_->racing.clear();
  state_->watched.clear();
  state_->guards.clear();
  for (Fiber &fiber : state_->fibers) state_->end_prepared(&fiber);
}

// As at the end of a thread: what it has for itself is others' next.
void Explorer::State::end_prepared(Fiber *fiber) {
  if (fiber->first_locals.empty()) return;
  const std::vector<uint8_t> own = locals.copied();
  locals.replace(fiber->first_locals);
  for (const auto &[run, object] : fiber->first_exits) run(object);
  locals.replace(own);
  fiber->first_exits.clear();
  fiber->first_locals.clear();
}

void Explorer::prepare_thread(int number, const std::function<void()> &use) {
  State &state = *state_;
  state.end_prepared(&state.fibers[number]);
  const std::vector<uint8_t> own = state.locals.copied();
  state.locals.replace(state.locals.fresh);
  state.prepared = &state.fibers[number];
  use();
  state.prepared = nullptr;
  state.fibers[number].first_locals = state.locals.copied();
  state.locals.replace(own);
}

int Explorer::running() const { return state_->current; }
const std::vector<Site> &Explorer::sites() const { return state_->sites; }

std::vector<int> Explorer::visits() const {
  std::vector<int> visits;
  for (size_t site = 0; site < state_->visited.size(); ++site) {
    if (state_->visited[site]) visits.push_back(static_cast<int>(site));
  }
  return visits;
}

void Explorer::add_thread_exit(void (*run)(void *), void *object) {
  if (running() >= 0) state_->running().exits.emplace_back(run, object);
  if (running() < 0 && state_->prepared) state_->prepared->first_exits.emplace_back(run, object);
}

}  // namespace weak

// How destructors of thread_local objects are registered: the end of a fiber is not the end of the thread.
extern "C" int __cxa_thread_atexit(void (*run)(void *), void *object, void *) noexcept {
  weak::explorer().add_thread_exit(run, object);
  return 0;
}
