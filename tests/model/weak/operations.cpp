// The operations of the substituted types, by the memory model.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "state.hpp"

namespace weak {
namespace {

using std::memory_order;

bool acquires(memory_order order) {
  return order == memory_order::acquire || order == memory_order::acq_rel || order == memory_order::seq_cst;
}

bool releases(memory_order order) {
  return order == memory_order::release || order == memory_order::acq_rel || order == memory_order::seq_cst;
}

const char *name_of(Update kind) {
  switch (kind) {
    case Update::exchange: return "exchange";
    case Update::add: return "fetch_add";
    case Update::subtract: return "fetch_sub";
    case Update::bit_or: return "fetch_or";
    case Update::bit_and: return "fetch_and";
  }
  return "";
}

uint64_t updated(Update kind, uint64_t old, uint64_t operand, size_t bytes) {
  uint64_t value = operand;
  if (kind == Update::add) value = old + operand;
  if (kind == Update::subtract) value = old - operand;
  if (kind == Update::bit_or) value = old | operand;
  if (kind == Update::bit_and) value = old & operand;
  return bytes == sizeof value ? value : value & ((uint64_t{1} << 8 * bytes) - 1);
}

}  // namespace

uint64_t raw(Cell cell) {
  uint64_t value = 0;
  std::memcpy(&value, cell.address, cell.bytes);
  return value;
}

void Explorer::State::set_raw(Cell cell, uint64_t value) {
  if (executing) changed.emplace_back(cell, raw(cell));
  std::memcpy(cell.address, &value, cell.bytes);
}

History &Explorer::State::history(Cell cell) {
  const uintptr_t at = key(cell.address);
  auto &found = words[at];
  cell.address = reinterpret_cast<void *>(at);
  if (!found) {
    found = std::make_unique<History>(cell, raw(cell));
    widths.emplace(at, cell.bytes);
  }
  return *found;
}

void Explorer::State::check_reserved(uintptr_t word) {
  for (const Guard &range : guards) {
    if (word < range.begin || word >= range.end) continue;
    if (!range.is_known(running().view.clock)) end_with("a word is used that is not known to be reserved");
  }
}

History &Explorer::State::access(Cell cell, bool stores) {
  const uintptr_t at = key(cell.address);
  schedule(at);
  check_reserved(at);
  History &word = history(cell);
  word.accessed |= 1u << current;
  if (stores) word.stored |= 1u << current;
  const bool shared = word.stored != 0 && (word.accessed & (word.accessed - 1)) != 0;
  if (shared && contended.insert(at).second) found_contended = true;
  tick();
  return word;
}

uint64_t Explorer::State::read_from(Store &store, memory_order order) {
  View &view = running().view;
  store.read_by[current] = std::min(store.read_by[current], view.clock[current]);
  if (order == memory_order::seq_cst) store.sc_time = std::min(store.sc_time, ++sc_now);
  running().unacquired.join(store.message);
  if (acquires(order)) view.join(store.message);
  return store.value;
}

Store Explorer::State::made(uint64_t value, memory_order order) {
  const Fiber &fiber = running();
  Store store(value, releases(order) ? fiber.view : fiber.released, current, fiber.view.clock[current]);
  if (order == memory_order::seq_cst) store.sc_time = ++sc_now;
  return store;
}

int Explorer::State::site(const char *operation, memory_order order, const std::source_location &where, bool failure) {
  auto [file, is_new] = file_numbers.try_emplace(where.file_name(), 0);
  if (is_new) file->second = files.try_emplace(where.file_name(), files.size()).first->second;
  const uint64_t known_by = file->second << 48 | uint64_t{where.line()} << 16 | where.column() << 1 | failure;
  const auto [number, is_first] = site_numbers.try_emplace(known_by, static_cast<int>(sites.size()));
  if (is_first) {
    sites.push_back(
        {where.file_name(), where.function_name(), where.line(), where.column(), operation, order, failure});
  }
  return number->second;
}

memory_order Explorer::State::weakened(const char *operation, memory_order order, const std::source_location &where,
                                       bool failure) {
  if (order == memory_order::relaxed) return order;
  const int number = site(operation, order, where, failure);
  visited.resize(sites.size());
  visited[static_cast<size_t>(number)] = 1;
  return mutation.site == number ? mutation.order : order;
}

void Explorer::State::trace(const char *operation, Cell cell, uint64_t value, memory_order order,
                            const std::source_location &where) const {
  if (!tracing) return;
  const char *file = std::strrchr(where.file_name(), '/');
  std::fprintf(stderr, "  thread %d  %-16s %012lx %lx  order %d  %s:%u\n", current, operation, key(cell.address), value,
               static_cast<int>(order), file ? file + 1 : where.file_name(), where.line());
}

uint64_t Explorer::load(Cell cell, memory_order order, const std::source_location &where) {
  if (running() < 0) return raw(cell);
  State &state = *state_;
  order = state.weakened("load", order, where);
  History &word = state.access(cell, false);
  const size_t floor = word.floor(state.running().view, order == memory_order::seq_cst, state.sc_fences);
  const size_t last = word.stores.size() - 1;
  const int back = state.choose_store(static_cast<int>(last - floor) + 1);
  const uint64_t value = state.read_from(word.stores[last - static_cast<size_t>(back)], order);
  state.trace(back == 0 ? "load" : "load of old", cell, value, order, where);
  return value;
}

void Explorer::store(Cell cell, uint64_t value, memory_order order, const std::source_location &where) {
  State &state = *state_;
  if (running() < 0) return state.set_raw(cell, value);
  order = state.weakened("store", order, where);
  History &word = state.access(cell, true);
  const size_t floor = word.floor(state.running().view, order == memory_order::seq_cst, state.sc_fences);
  std::vector<size_t> behind;
  for (size_t at = word.stores.size(); at-- > floor;) {
    if (word.may_come_after(at)) behind.push_back(at);
  }
  const size_t at = behind[static_cast<size_t>(state.choose_store(static_cast<int>(behind.size())))];
  word.stores.insert(word.stores.begin() + static_cast<ptrdiff_t>(at) + 1, state.made(value, order));
  state.trace("store", cell, value, order, where);
}

uint64_t Explorer::update(Cell cell, Update kind, uint64_t operand, memory_order order,
                          const std::source_location &where) {
  State &state = *state_;
  if (running() < 0) {
    const uint64_t old = raw(cell);
    state.set_raw(cell, updated(kind, old, operand, cell.bytes));
    return old;
  }
  order = state.weakened(name_of(kind), order, where);
  History &word = state.access(cell, true);
  const size_t floor = word.floor(state.running().view, order == memory_order::seq_cst, state.sc_fences);
  std::vector<size_t> behind;
  for (size_t at = word.stores.size(); at-- > floor;) {
    if (word.may_come_after(at)) behind.push_back(at);
  }
  const size_t at = behind[static_cast<size_t>(state.choose_store(static_cast<int>(behind.size())))];
  return state.replace(
      word, at, [&](uint64_t old) { return updated(kind, old, operand, cell.bytes); }, order);
}

bool Explorer::compare_exchange(Cell cell, uint64_t *expected, uint64_t desired, memory_order success,
                                memory_order failure, const std::source_location &where) {
  State &state = *state_;
  if (running() < 0) {
    const uint64_t old = raw(cell);
    if (old == *expected) state.set_raw(cell, desired);
    return std::exchange(*expected, old) == old;
  }
  success = state.weakened("compare_exchange", success, where);
  failure = state.weakened("compare_exchange", failure, where, true);
  History &word = state.access(cell, true);
  // Where only one of the two is seq_cst the other may see less: the floor is that of the outcome.
  const View &view = state.running().view;
  const size_t floor_done = word.floor(view, success == memory_order::seq_cst, state.sc_fences);
  const size_t floor_failed = word.floor(view, failure == memory_order::seq_cst, state.sc_fences);
  std::vector<size_t> seen;
  for (size_t at = word.stores.size(); at-- > std::min(floor_done, floor_failed);) {
    const bool same = word.stores[at].value == *expected;
    if (same ? at >= floor_done && word.may_come_after(at) : at >= floor_failed) seen.push_back(at);
  }
  const size_t at = seen[static_cast<size_t>(state.choose_store(static_cast<int>(seen.size())))];
  if (word.stores[at].value == *expected) {
    state.replace(
        word, at, [&](uint64_t) { return desired; }, success);
    state.trace("exchanged", cell, desired, success, where);
    return true;
  }
  *expected = state.read_from(word.stores[at], failure);
  state.trace("not exchanged", cell, *expected, failure, where);
  return false;
}

void Explorer::fence(memory_order order, const std::source_location &where) {
  if (running() < 0) return;
  State &state = *state_;
  order = state.weakened("fence", order, where);
  Fiber &fiber = state.running();
  state.tick();
  if (acquires(order)) fiber.view.join(fiber.unacquired);
  if (order == memory_order::seq_cst) {
    fiber.view.sc_seen = state.sc_now;
    join(&fiber.view.fenced, state.sc_fences);
    join(&state.sc_fences, fiber.view.clock);
  }
  if (releases(order)) fiber.released = fiber.view;
}

// Of the bytes, those that the scenario tracks are loaded as words, relaxed; the others never change meanwhile.
void Explorer::copy(void *to, const void *from, size_t bytes) {
  std::memcpy(to, from, bytes);
  if (running() < 0) return;
  const uintptr_t begin = state_->key(from);
  for (const Cell &cell : state_->racing) {
    const auto at = reinterpret_cast<uintptr_t>(cell.address);
    if (at < begin || at + cell.bytes > begin + bytes) continue;
    const uint64_t value = load(cell, memory_order::relaxed, std::source_location::current());
    std::memcpy(static_cast<uint8_t *>(to) + (at - begin), &value, sizeof value);
  }
}

// Words that several threads use are loaded, relaxed; the others are as they are.
const uint8_t *Explorer::find_nonzero(const uint8_t *begin, const uint8_t *end) {
  std::vector<uint8_t> bytes(begin, end);
  const uintptr_t first = state_->key(begin);
  if (running() >= 0) {
    const auto last = state_->widths.lower_bound(first + bytes.size());
    for (auto word = state_->widths.lower_bound(first); word != last; ++word) {
      const auto &[at, width] = *word;
      if (state_->contended.count(at) == 0 && state_->words.count(at) == 0) continue;
      const Cell cell = {reinterpret_cast<void *>(at), width};
      const uint64_t value = load(cell, memory_order::relaxed, std::source_location::current());
      std::memcpy(bytes.data() + (at - first), &value, width);
    }
  }
  return begin + (std::find_if(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte != 0; }) - bytes.begin());
}

void Explorer::forget(const void *address) {
  if (running() >= 0) state_->words.erase(state_->key(address));
}

void Explorer::lock(const void *mutex) {
  if (running() < 0) return;
  State &state = *state_;
  const uintptr_t at = state.key(mutex);
  arrive(at);
  while (state.locked.count(at)) {
    state.running().waits_for = at;
    state.running().woken = false;
    state.pass_on();
    state.running().waits_for = 0;
  }
  state.locked.insert(at);
  enter_kernel(at);
}

void Explorer::unlock(const void *mutex) {
  if (running() < 0) return;
  const uintptr_t at = state_->key(mutex);
  leave_kernel(at);
  state_->locked.erase(at);
  for (Fiber &fiber : state_->fibers) fiber.woken |= fiber.waits_for == at;
}

void Explorer::reserved(uint64_t offset) {
  if (running() < 0) return;
  state_->tick();
  const int thread = state_->current;
  for (Guard &range : state_->guards) {
    if (range.offset == offset) range.reserved.emplace_back(thread, state_->running().view.clock[thread]);
  }
}

void Explorer::arrive(uint64_t lock) {
  if (running() < 0) return;
  State &state = *state_;
  state.schedule(lock);
  uint32_t &threads = state.arrived[lock];
  threads |= 1u << state.current;
  if ((threads & (threads - 1)) != 0 && state.contended.insert(lock).second) state.found_contended = true;
}

void Explorer::enter_kernel(uint64_t lock) {
  if (running() >= 0) state_->running().view.join(state_->kernel[lock]);
}

void Explorer::leave_kernel(uint64_t lock) {
  if (running() < 0) return;
  state_->tick();
  state_->kernel[lock].join(state_->running().view);
}

// The kernel compares under a lock of the word's queue, which a wake takes too.
bool Explorer::wait(const uint32_t *word, uint32_t expected) {
  if (running() < 0) return false;
  State &state = *state_;
  Fiber &fiber = state.running();
  const uintptr_t queue = state.key(word);
  state.schedule(queue);
  enter_kernel(queue);
  state.tick();
  History &held = state.history({const_cast<uint32_t *>(word), sizeof(uint64_t)});
  const size_t last = held.stores.size() - 1;
  const size_t floor = held.floor(fiber.view, false, state.sc_fences);
  const int back = state.choose_store(static_cast<int>(last - floor) + 1);
  const uint64_t value = state.read_from(held.stores[last - static_cast<size_t>(back)], memory_order::relaxed);
  leave_kernel(queue);
  if (static_cast<uint32_t>(value) != expected) return true;
  fiber.waits_for = queue;
  fiber.woken = false;
  state.pass_on();
  fiber.waits_for = 0;
  enter_kernel(queue);
  return fiber.woken;
}

void Explorer::wake(const uint32_t *word) {
  if (running() < 0) return;
  const uintptr_t queue = state_->key(word);
  state_->schedule(queue);
  enter_kernel(queue);
  for (Fiber &fiber : state_->fibers) fiber.woken |= fiber.waits_for == queue;
  leave_kernel(queue);
}

}  // namespace weak
