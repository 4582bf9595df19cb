// Where damage is done (damage.hpp): samples, clients, keys and steps of a cache that its words lead to.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "segment.hpp"

namespace ddpcache::test {

// Two numbers of the caller's: where, which is taken modulo what there is, and what is put there.
struct DamageChoice {
  uint32_t where = 0;
  uint64_t value = 0;
};

struct DamageKind {
  const char *name;
  // Done to a cache that was sound and at rest, it breaks an invariant which can be seen from the file itself. The rest
  // is hints, counters, legal states, and bytes of which only a checksum could tell.
  bool breaks_invariant;
  // False, and nothing is changed, where the cache has nothing of the kind.
  bool (*apply)(const Segment &segment, DamageChoice choice);
};

namespace damage {

inline int64_t any_index(const Segment &segment, uint32_t where) { return where % segment.header.geometry.length; }

// A stored sample, with its word and extent.
struct Stored {
  int64_t index;
  EntryWord word;
  Extent extent;
};

inline bool find_stored(const Segment &segment, uint32_t where, Stored *stored) {
  const int64_t length = segment.header.geometry.length;
  for (int64_t i = 0; i < length; ++i) {
    const int64_t index = (any_index(segment, where) + i) % length;
    const EntryWord word(segment.entry(index).load());
    Extent extent;
    if (word.state() != State::ready || !segment.find_extent(word.place(), &extent)) continue;
    *stored = {index, word, extent};
    return true;
  }
  return false;
}

// Two of them.
inline bool find_pair(const Segment &segment, uint32_t where, Stored *one, Stored *other) {
  return find_stored(segment, where, one) && find_stored(segment, static_cast<uint32_t>(one->index) + 1, other) &&
         one->index != other->index;
}

inline bool find_client(const Segment &segment, uint32_t where, uint32_t *number) {
  const uint32_t clients = segment.header.geometry.clients_max;
  for (uint32_t i = 0; i < clients; ++i) {
    *number = (where + i) % clients;
    if (ClientWord(segment.client(*number).word.load()).life() == Life::live) return true;
  }
  return false;
}

inline bool find_key(const Segment &segment, uint32_t where, int64_t *index) {
  const int64_t length = segment.keyed() ? segment.header.geometry.length : 0;
  for (int64_t i = 0; i < length; ++i) {
    *index = (any_index(segment, where) + i) % length;
    if (segment.key_slot(*index).rest.load() != 0) return true;
  }
  return false;
}

inline uint32_t any_step(const Segment &segment, uint32_t where) { return where % segment.layout.steps; }

// Something that is not 0.
inline uint64_t some(uint64_t value) { return value ? value : 1; }

template <typename T>
bool flip(std::atomic<T> &word, uint64_t value) {
  word.fetch_xor(static_cast<T>(value) ? static_cast<T>(value) : T{1});
  return true;
}

inline void put_entry(const Segment &segment, int64_t index, EntryWord word) {
  segment.entry(index).store(word.bits());
}

// Some of the record of a stored sample becomes `value`.
template <typename T>
bool put_in_record(const Segment &segment, uint32_t where, uint64_t offset, T value) {
  Stored stored;
  if (!find_stored(segment, where, &stored)) return false;
  std::memcpy(segment.writable(stored.extent) + offset, &value, sizeof value);
  return true;
}

inline bool flip_byte(uint8_t *byte, uint64_t value) {
  *byte ^= static_cast<uint8_t>(some(value & 0xFF));
  return true;
}

}  // namespace damage

}  // namespace ddpcache::test
