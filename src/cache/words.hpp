// The shared words, bit by bit. Everything else in the cache follows from them.
//
// Entry (one an index, the only truth):
//
//      63                    32 31                     3    2     1  0
//     +------------------------+------------------------+-------+------+
//     | WRITING: epoch client  |       generation       |WAITERS| state|
//     | READY:   slot  step    |                        |       |      |
//     +------------------------+------------------------+-------+------+
//              high half             low half, also the futex word
//
//   state: 0 EMPTY, 1 WRITING, 2 READY, 3 BAD
//
//   from        to              who                  by                                           edge
//   EMPTY g     WRITING g me    a filler             CAS (claim), after listing the fill          claim
//   WRITING g   + WAITERS       a waiter             CAS                                          -
//   WRITING g   READY g place   its filler           CAS from its own word (publish), then wake   publish
//   WRITING g   EMPTY g+1       its filler (abort),  CAS, then wake                               release
//                               anyone, once the owner's record is not LIVE at its epoch
//   READY g     BAD g           who finds its record unsound                 CAS
//   READY, BAD  EMPTY g+1       who removes it, in droppable caches only     CAS                          name
//
// On a disk, after the machine has stopped and the file was not closed (trust.hpp), the bit of WAITERS, which means
// nothing in a READY word, says that the record was not looked at since: READY, unverified. Nobody has a view of it.
//
//   from        to              who                                          by
//   any         READY g U       recovery: the words fit together             store; nobody is attached
//   any         EMPTY g+1       recovery: they do not                        store; nobody is attached
//   READY g U   READY g         a reader that found the checksum right       CAS
//   READY g U   EMPTY g+1       a reader that found it wrong, also where     CAS
//                               nothing drops: nobody has seen the bytes;
//                               or who removes it
//
// Any number of readers may verify one record at once; each has its own result, and one CAS wins. One that finds the
// CAS failed looks at the word again: verified by another, it is a hit; else it is a miss, and what this reader read
// may have been rewritten meanwhile, but is shown to nobody. A reader that dies while verifying has changed nothing. A
// remover who comes in between makes the CAS fail; in a droppable cache the reader's name keeps the bytes from being
// rewritten. No edge is needed: the bytes were written in another boot.
//
// Extent (one a piece of the arena): 0, never owned; else 1 | index | generation: it belongs to entry `index` while
// that entry is at `generation` and not EMPTY, and is free for the taking otherwise. Taking is one CAS from the word
// that was seen. So nothing is freed, nothing is undone after a crash, and nothing can be freed twice.
//
//      63 62                          29 28                     0
//     +-+-------------------------------+------------------------+
//     |1|             index             |       generation       |
//     +-+-------------------------------+------------------------+
//
// Step: 0, not reserved; else 1 + its size class. Client: state (FREE, LIVE, DEAD) and epoch; see clients.hpp.
//
// moves.hpp has all of these transitions as data, which the model of the protocol uses, and to which test builds hold
// each change of a word.
//
// Progress: a hit is one load. A claim, a publication and an abort are each one CAS, repeated only because a waiter set
// WAITERS in between, which happens at most once a word.
#pragma once

#include <cstdint>

#include "atomic.hpp"
#include "ddpcache/cache.h"

namespace ddpcache {

using Word = Atomic<uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8, "a word is shared between processes");

inline constexpr uint32_t kGenerationBits = 29;
inline constexpr uint32_t kGenerationMask = (uint32_t{1} << kGenerationBits) - 1;
inline constexpr uint32_t kClientBits = 12;
inline constexpr uint32_t kEpochBits = 20;
inline constexpr uint32_t kEpochMask = (uint32_t{1} << kEpochBits) - 1;
inline constexpr uint32_t kStepBits = 12;
inline constexpr uint32_t kSlotBits = 20;
static_assert(kClientBits + kEpochBits == 32 && kStepBits + kSlotBits == 32 && kGenerationBits + 3 == 32);
static_assert(DC_CLIENTS_MAX < (1 << kClientBits));

// Raises a high-water mark. Bounded: every failed CAS is somebody's raise. EDGE full, for who reads a mark that says
// that there is no more; where a name comes after it, the fence of EDGE name orders it, also one that another raised.
template <typename T>
void raise_to(Atomic<T> &mark, T value) {
  T seen = mark.load(std::memory_order_relaxed);
  while (seen < value &&
         !mark.compare_exchange_weak(seen, value, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

enum class State : uint32_t { empty = 0, writing = 1, ready = 2, bad = 3 };

// Which life of which client record.
struct ClientLife {
  uint32_t client = 0;
  uint32_t epoch = 0;
  friend bool operator==(const ClientLife &, const ClientLife &) = default;
};

// Where an extent lies: its slot within its step.
struct Place {
  uint32_t step = 0;
  uint32_t slot = 0;
  friend bool operator==(const Place &, const Place &) = default;
};

class EntryWord {
 public:
  static constexpr uint32_t kWaiters = 4;

  constexpr EntryWord() = default;
  explicit constexpr EntryWord(uint64_t bits) : bits_(bits) {}

  static constexpr EntryWord empty(uint32_t generation) { return make(0, generation, State::empty); }
  static constexpr EntryWord writing(uint32_t generation, ClientLife owner) {
    return make(owner.client | owner.epoch << kClientBits, generation, State::writing);
  }
  static constexpr EntryWord ready(uint32_t generation, Place place) {
    return make(place.step | place.slot << kStepBits, generation, State::ready);
  }

  constexpr uint64_t bits() const { return bits_; }
  constexpr uint32_t low() const { return static_cast<uint32_t>(bits_); }
  constexpr State state() const { return static_cast<State>(bits_ & 3); }
  constexpr bool has_waiters() const { return bits_ & kWaiters; }
  constexpr uint32_t generation() const { return low() >> 3; }
  constexpr ClientLife owner() const { return {high() & ((1u << kClientBits) - 1), high() >> kClientBits}; }
  constexpr Place place() const { return {high() & ((1u << kStepBits) - 1), high() >> kStepBits}; }

  constexpr EntryWord with_waiters() const { return EntryWord(bits_ | kWaiters); }
  constexpr EntryWord without_waiters() const { return EntryWord(bits_ & ~uint64_t{kWaiters}); }
  constexpr bool is_unverified() const { return (bits_ & 7) == (kWaiters | static_cast<uint32_t>(State::ready)); }
  constexpr EntryWord as_unverified() const { return with_waiters(); }
  constexpr EntryWord as_verified() const { return without_waiters(); }
  constexpr EntryWord next_empty() const { return empty((generation() + 1) & kGenerationMask); }
  constexpr EntryWord as_bad() const { return EntryWord(bits_ | 3); }

  friend bool operator==(const EntryWord &, const EntryWord &) = default;

 private:
  constexpr uint32_t high() const { return static_cast<uint32_t>(bits_ >> 32); }
  static constexpr EntryWord make(uint32_t high, uint32_t generation, State state) {
    return EntryWord(uint64_t{high} << 32 | generation << 3 | static_cast<uint32_t>(state));
  }

  uint64_t bits_ = 0;
};
static_assert(EntryWord().state() == State::empty, "a fresh file of zeros is all EMPTY");

class ExtentWord {
 public:
  constexpr ExtentWord() = default;
  explicit constexpr ExtentWord(uint64_t bits) : bits_(bits) {}
  static constexpr ExtentWord owned(int64_t index, uint32_t generation) {
    return ExtentWord(uint64_t{1} << 63 | static_cast<uint64_t>(index) << kGenerationBits | generation);
  }

  constexpr uint64_t bits() const { return bits_; }
  constexpr bool never_owned() const { return bits_ == 0; }
  constexpr int64_t index() const { return static_cast<int64_t>((bits_ << 1) >> (kGenerationBits + 1)); }
  constexpr uint32_t generation() const { return static_cast<uint32_t>(bits_) & kGenerationMask; }

  friend bool operator==(const ExtentWord &, const ExtentWord &) = default;

 private:
  uint64_t bits_ = 0;
};
static_assert(ExtentWord::owned(DC_LENGTH_MAX, kGenerationMask).index() == DC_LENGTH_MAX);

// Whether an extent belongs to the entry that its word names, as that entry is now; else it is free for the taking.
constexpr bool is_in_use(ExtentWord extent, EntryWord entry) {
  return entry.generation() == extent.generation() && entry.state() != State::empty;
}

// What a client names before it touches an extent: 0 is nothing. The upper 31 bits follow from the lower 33, so that
// dc_cache_check knows a name from anything else.
constexpr uint64_t name_of(Place place) {
  const uint64_t name = uint64_t{1} << 32 | uint64_t{place.slot} << kStepBits | place.step;
  return (name * 0x9E3779B97F4A7C15 >> 33) << 33 | name;
}

constexpr Place place_of(uint64_t name) {
  return {static_cast<uint32_t>(name) & ((1u << kStepBits) - 1), static_cast<uint32_t>(name) >> kStepBits};
}
static_assert(place_of(name_of({4095, 77})) == Place{4095, 77});
constexpr bool is_name(uint64_t word) { return word == name_of(place_of(word)); }

enum class Life : uint64_t { free = 0, live = 1, dead = 2 };

class ClientWord {
 public:
  constexpr ClientWord() = default;
  explicit constexpr ClientWord(uint64_t bits) : bits_(bits) {}
  constexpr ClientWord(Life life, uint32_t epoch) : bits_(static_cast<uint64_t>(life) | uint64_t{epoch} << 2) {}

  constexpr uint64_t bits() const { return bits_; }
  constexpr Life life() const { return static_cast<Life>(bits_ & 3); }
  constexpr uint32_t epoch() const { return static_cast<uint32_t>(bits_ >> 2) & kEpochMask; }
  constexpr uint32_t next_epoch() const { return (epoch() + 1) & kEpochMask; }

  friend bool operator==(const ClientWord &, const ClientWord &) = default;

 private:
  uint64_t bits_ = 0;
};

}  // namespace ddpcache
