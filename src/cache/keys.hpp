// The key table: which index a key has. A table of `length` slots, open addressing with linear probing; the number of a
// key's slot is its index.
//
// A slot holds the whole 128-bit hash of a key, in two words, each of which is set once and never changes again:
//
//      tag (low half of the hash)     rest (high half)
//     +------------------------------+------------------------------+
//     |      0: free                 |      0: not yet set          |
//     +------------------------------+------------------------------+
//
//   from        to           who                                              by
//   0, 0        tag, 0       who interns a key and finds the slot free        CAS of the tag
//   tag, 0      tag, rest    anyone whose key has this tag                    CAS of the rest
//   tag, rest   -            nobody: keys stay for the life of the file
//
// A half that is 0 is taken as 1. An index is given out only after both halves have been seen to be the key's own.
//
// No key has two indices. A key is looked for in the slots from its home on, in turn. A slot is passed only once it is
// seen to be another key's for ever: its tag is another non-zero one, or the tag is the same and the rest is another
// non-zero one. If a key had slots i and j, i first, then whoever was given j has passed i, which therefore never held
// the key. (Nothing is ever deleted: with that, the argument would fail.) tests/model/test_key_table.py searches the
// protocol exhaustively.
// No two keys have one index: a slot's two words are one hash for ever, and different keys differ in it. Of 10^9 keys,
// any two have the same 128 bits with a chance of 2 in 10^21; so a hit compares nothing. XXH3 is no defence against
// somebody who makes keys collide on purpose.
//
// A process that dies between the two CASes leaves a tag without rest. It blocks nobody: the next key with this tag,
// its own or another, sets the rest. Until then the slot is passed by all keys with other tags.
//
// Progress: wait-free. Each slot is tried once, at most `length` of them, with two CASes a slot at most, none repeated.
// With a share a of the slots in use, a key that is there takes (1 + 1/(1-a))/2 slots, a new one (1 + 1/(1-a)^2)/2: 2.7
// and 10 at a = 1/1.3, and four of them are one cache line. In a full table a key that is not there takes all of them.
//
// Memory order: nothing is read through a slot but its own two words, so that a stale look can only see a word that is
// still 0, which the CAS, or a miss, makes up for. The one edge is for the checker.
//   EDGE key: who sees a rest sees the tag that was there before it.
#pragma once

#include <span>

#include "words.hpp"

namespace ddpcache {

// The hash by which a key is known.
struct KeyHash {
  uint64_t tag;
  uint64_t rest;

  static KeyHash of(const uint8_t *key, uint64_t key_bytes);
  // Of halves that may be 0.
  static constexpr KeyHash of_halves(uint64_t low, uint64_t high) { return {low ? low : 1, high ? high : 1}; }

  friend bool operator==(const KeyHash &, const KeyHash &) = default;
};

struct alignas(2 * sizeof(Word)) KeySlot {
  Word tag;
  Word rest;
};
static_assert(sizeof(KeySlot) == 16, "docs/format.md says so");

// Works on the slots where they lie; a lookup never writes to them.
class KeyTable {
 public:
  // At least one slot, at most DC_LENGTH_MAX.
  explicit KeyTable(std::span<KeySlot> slots) : slots_(slots) {}

  // The key's index, given to it now if it had none. DC_FULL where every slot is passed. `fresh`: it had none.
  int32_t intern(KeyHash key, int64_t *index, bool *fresh) const;
  // DC_MISS where the key has no index.
  int32_t lookup(KeyHash key, int64_t *index) const;

  // Sets a slot, as it was in another table of this length. For a table that nobody else sees yet.
  void place(int64_t index, KeyHash words) const;

  // Where the search for a key begins.
  int64_t home(KeyHash key) const;

 private:
  // Tries the slots in turn until `visit` says what the search has come to; `exhausted` where it never does.
  template <typename Visit>
  int32_t probe(KeyHash key, int32_t exhausted, int64_t *index, Visit &&visit) const;

  std::span<KeySlot> slots_;
};

}  // namespace ddpcache
