// What a word has held, and which of it a thread may still see.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "explorer.hpp"

namespace weak {

inline constexpr uint32_t kNever = UINT32_MAX;
using Clock = std::array<uint32_t, kThreadsMax>;

inline void join(Clock *into, const Clock &from) {
  for (int t = 0; t < kThreadsMax; ++t) (*into)[t] = std::max((*into)[t], from[t]);
}

// What has happened before, from a thread's place or from a store's.
struct View {
  Clock clock = {};      // operations of each thread that happen before
  Clock fenced = {};     // and those that happen before a seq_cst fence which S has before a fence that happens before
  uint32_t sc_seen = 0;  // seq_cst operations that S has before such a fence

  void join(const View &other) {
    weak::join(&clock, other.clock);
    weak::join(&fenced, other.fenced);
    sc_seen = std::max(sc_seen, other.sc_seen);
  }
};

struct Store {
  uint64_t value;
  View message;  // what an acquire operation that reads it learns
  int thread;    // who stored it, and as which of its operations
  uint32_t time;
  Store(uint64_t stored, const View &told, int by, uint32_t at) : value(stored), message(told), thread(by), time(at) {}

  bool is_update = false;  // an atomic read-modify-write: nothing comes between it and what it read
  Clock read_by = {kNever, kNever, kNever, kNever};  // the first operation of each thread that read it
  uint32_t sc_time = kNever;                         // the first seq_cst operation, in S, that stored or read it

  bool is_within(const Clock &clock) const {
    if (time <= clock[thread]) return true;
    for (int t = 0; t < kThreadsMax; ++t) {
      if (read_by[t] <= clock[t]) return true;
    }
    return false;
  }
};

// An atomic object in one execution.
struct History {
  Cell cell;
  std::vector<Store> stores;          // in modification order
  uint32_t accessed = 0, stored = 0;  // threads, as bits

  History(Cell at, uint64_t value) : cell(at) { stores.emplace_back(value, View{}, 0, 0); }

  // The first store, in modification order, that an operation may read, or may come behind: all that it knows of, by
  // coherence and by the rules of S, are not behind it. `fences`: what happens before the seq_cst fences so far.
  size_t floor(const View &view, bool seq_cst, const Clock &fences) const {
    size_t at = stores.size() - 1;
    for (; at > 0; --at) {
      const Store &store = stores[at];
      if (store.is_within(view.clock) || store.is_within(view.fenced) || store.sc_time <= view.sc_seen) break;
      if (seq_cst && (store.sc_time != kNever || store.is_within(fences))) break;
    }
    return at;
  }

  bool may_come_after(size_t at) const { return at + 1 == stores.size() || !stores[at + 1].is_update; }
};

// Plain memory: who touched it last.
struct Plain {
  int writer = 0;
  uint32_t written = 0;
  Clock read = {};
};

}  // namespace weak
