#include "keys.hpp"

#include "cache.hpp"
#include "fault.hpp"
#include "hash.hpp"

namespace ddpcache {
namespace {

__extension__ typedef unsigned __int128 uint128;

constexpr int32_t kGoOn = -1;

}  // namespace

KeyHash KeyHash::of(const uint8_t *key, uint64_t key_bytes) {
  const Hash128 hash = hash128(key, key_bytes);
  return of_halves(hash.low, hash.high);
}

int64_t KeyTable::home(KeyHash key) const { return static_cast<int64_t>(uint128{key.rest} * slots_.size() >> 64); }

template <typename Visit>
int32_t KeyTable::probe(KeyHash key, int32_t exhausted, int64_t *index, Visit &&visit) const {
  size_t at = static_cast<size_t>(home(key));
  // Bounded by the slots there are.
  for (size_t left = slots_.size(); left > 0; --left) {
    if (const int32_t outcome = visit(slots_[at]); outcome != kGoOn) {
      if (outcome == DC_OK) *index = static_cast<int64_t>(at);
      return outcome;
    }
    at = at + 1 == slots_.size() ? 0 : at + 1;
  }
  return exhausted;
}

int32_t KeyTable::intern(KeyHash key, int64_t *index, bool *fresh) const {
  *fresh = false;
  return probe(key, DC_FULL, index, [&](KeySlot &slot) -> int32_t {
    // Relaxed: a word that is not 0 is final, and one that is 0 is tried by the CAS.
    uint64_t tag = slot.tag.load(std::memory_order_relaxed);
    if (tag == 0) {
      DC_FAULT_POINT("key-slot-free");
      if (slot.tag.compare_exchange_strong(tag, key.tag, std::memory_order_relaxed)) tag = key.tag;
      DC_FAULT_POINT("key-tagged");
    }
    if (tag != key.tag) return kGoOn;
    uint64_t rest = slot.rest.load(std::memory_order_relaxed);
    if (rest == 0) {
      DC_FAULT_POINT("key-rest-free");
      // EDGE key: the tag, this caller's own or one that it has read, is visible before the rest.
      *fresh = slot.rest.compare_exchange_strong(rest, key.rest, std::memory_order_release, std::memory_order_relaxed);
      if (*fresh) rest = key.rest;
      DC_FAULT_POINT("key-set");
    }
    return rest == key.rest ? DC_OK : kGoOn;
  });
}

int32_t KeyTable::lookup(KeyHash key, int64_t *index) const {
  return probe(key, DC_MISS, index, [&](const KeySlot &slot) -> int32_t {
    // Relaxed: a word that is still 0 says that the key had no index a moment ago, which is all that a miss says. The
    // key can be in no later slot, since it would have taken this one.
    const uint64_t tag = slot.tag.load(std::memory_order_relaxed);
    if (tag == 0) return DC_MISS;
    if (tag != key.tag) return kGoOn;
    const uint64_t rest = slot.rest.load(std::memory_order_relaxed);
    if (rest == 0) return DC_MISS;
    return rest == key.rest ? DC_OK : kGoOn;
  });
}

void KeyTable::place(int64_t index, KeyHash words) const {
  KeySlot &slot = slots_[static_cast<size_t>(index)];
  slot.tag.store(words.tag, std::memory_order_relaxed);
  slot.rest.store(words.rest, std::memory_order_relaxed);  // nobody else sees the table yet
}

Status Cache::check_keyed() const {
  if (segment_.keyed()) return {};
  return failure(DC_ERROR_UNSUPPORTED, "the cache was not made keyed: its samples have numbers, and no names");
}

Status Cache::intern(const uint8_t *key, uint64_t key_bytes, int64_t *index) {
  if (Status status = check_keyed(); !status.ok()) return status;
  if (segment_.read_only()) {
    const Status status = lookup(key, key_bytes, index);
    return status.code() == DC_MISS ? Status(DC_FULL) : status;
  }
  bool fresh = false;
  const int32_t code = segment_.keys().intern(KeyHash::of(key, key_bytes), index, &fresh);
  // A kill before it costs one. EDGE key: who sees the count sees the key, so no more are counted than are there.
  if (fresh) segment_.control().keys.fetch_add(1, std::memory_order_release);
  return code;
}

Status Cache::lookup(const uint8_t *key, uint64_t key_bytes, int64_t *index) const {
  if (Status status = check_keyed(); !status.ok()) return status;
  return segment_.keys().lookup(KeyHash::of(key, key_bytes), index);
}

Status Cache::view_key(const uint8_t *key, uint64_t key_bytes, dc_view *view) {
  view->owner = nullptr;
  int64_t index = 0;
  Status status = lookup(key, key_bytes, &index);
  if (status.ok()) return this->view(index, view);
  if (status.code() == DC_MISS) tally(Counter::misses);
  return status;
}

}  // namespace ddpcache
