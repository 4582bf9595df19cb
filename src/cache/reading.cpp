// Looking at samples in place.
#include <cstring>

#include "cache.hpp"
#include "fault.hpp"
#include "moves.hpp"

namespace ddpcache {

Status Cache::check_index(int64_t index) const {
  if (segment_.valid_index(index)) return {};
  return failure(DC_ERROR_RANGE, "index %lld is not in 0..%lld", static_cast<long long>(index),
                 static_cast<long long>(segment_.header.geometry.length - 1));
}

Status Cache::glance(int64_t index, EntryWord word, RecordGlance *glance) {
  if (word.is_unverified()) [[unlikely]]
    return verify(index, word, glance);
  Extent extent;
  if (segment_.find_extent(word.place(), &extent)) {
    const uint8_t *record = segment_.readable(extent);
    __builtin_prefetch(record + kLineBytes);  // the data, while the head is on its way
    const bool sound = glance_at_record(record, segment_.extent_bytes(extent), glance);
    if (sound && (!segment_.checks_each_hit() || record_is_intact(record, segment_.extent_bytes(extent), index)))
      return {};
  }
  if (segment_.read_only()) return DC_MISS;
  // Nothing that a correct client does leads here. Relaxed: it tells nothing else, and where it fails another reader
  // found the same.
  uint64_t seen = word.bits();
  if (segment_.entry(index).compare_exchange_strong(seen, word.as_bad().bits(), std::memory_order_relaxed)) {
    DC_MOVE(spoil, seen, word.as_bad().bits());
    tally(Counter::bad);
  }
  return DC_MISS;
}

// A sample that a stop of the machine may have torn: compared with its checksum before anybody sees it, and given up
// for the next filler where it is not right. words.hpp has the transitions.
Status Cache::verify(int64_t index, EntryWord word, RecordGlance *glance) {
  Extent extent;
  const bool placed = segment_.find_extent(word.place(), &extent);
  const bool intact = placed && glance_at_record(segment_.readable(extent), segment_.extent_bytes(extent), glance) &&
                      record_is_intact(segment_.readable(extent), segment_.extent_bytes(extent), index);
  DC_FAULT_POINT("verifying");
  if (placed && !intact) extents_.announce_free(extent);
  uint64_t seen = word.bits();
  const EntryWord next = intact ? word.as_verified() : word.next_empty();
  // Relaxed: the bytes were written in another boot; what was read while another rewrote them is shown to nobody.
  const bool changed = segment_.entry(index).compare_exchange_strong(seen, next.bits(), std::memory_order_relaxed);
  if (changed) intact ? DC_MOVE(verify, seen, next.bits()) : DC_MOVE(refuse, seen, next.bits());
  if (intact) return changed || EntryWord(seen) == next ? Status() : Status(DC_MISS);
  if (changed) tally(Counter::bad);
  if (changed && placed) extents_.note_freed(extent);
  return DC_MISS;
}

Status Cache::find(int64_t index, Pin *pin, RecordGlance *found) {
  const Word &shared = segment_.entry(index);
  // EDGE publish: what READY leads to is complete. In a cache that never drops, it also stays: no name is needed.
  EntryWord word(shared.load(std::memory_order_acquire));
  if (!segment_.droppable()) {
    if (word.state() != State::ready) return DC_MISS;
    // Who verifies for himself alone looks at a copy: another may find it wrong, and rewrite it.
    if (word.is_unverified() && segment_.read_only()) [[unlikely]]
      return find_copy(index, pin, found);
    return glance(index, word, found);
  }
  if (segment_.read_only()) return find_copy(index, pin, found);
  // Bounded: each further round, of three at most, has seen the sample dropped and filled anew.
  for (int round = 0; round < 3 && word.state() == State::ready; ++round) {
    DC_FAULT_POINT("reader-looked");
    if (!pin->name(index, word.place())) return DC_MISS;
    // Behind the fence of EDGE name. Relaxed: what is the same was acquired above, what is not is by the fence of the
    // next round.
    const EntryWord still(shared.load(std::memory_order_relaxed));
    // That it has been verified meanwhile changes nothing of what is named.
    if (still.without_waiters() == word.without_waiters()) return glance(index, still, found);
    if (DC_MUTANT("reader-does-not-recheck")) return glance(index, word, found);
    word = still;
  }
  return DC_MISS;
}

Status Cache::look(int64_t index, dc_view *view) {
  const uint32_t generation = clients_.generation();
  Pin pin(*this);
  RecordGlance found;
  if (Status status = find(index, &pin, &found); !status.ok()) return status;
  clients_.add_view();
  view->data = found.data;
  view->bytes = found.bytes;
  view->index = index;
  view->array_count = found.array_count;
  view->slot = generation;
  view->record = found.record;
  view->record_bytes = found.record_bytes;
  view->owner = reinterpret_cast<dc_cache *>(this);
  view->reserved = DC_MUTANT("view-keeps-no-name") ? Pin::kNone : pin.release();
  return {};
}

Status Cache::view(int64_t index, dc_view *view) {
  view->owner = nullptr;
  if (Status status = check_index(index); !status.ok()) return status;
  Status status = look(index, view);
  tally(status.ok() ? Counter::hits : Counter::misses);
  return status;
}

void Cache::release(dc_view *view) {
  Cache *cache = reinterpret_cast<Cache *>(view->owner);
  const dc_view released = *view;
  *view = {};
  // A view that was taken before a fork is the parent's, and so are its count and its name.
  if (!cache || released.slot != fork_generation()) return;
  if (released.reserved == Pin::kCopy) {
    Pin::free_copy(released.record);
  } else if (released.reserved != Pin::kNone) {
    cache->unpin(released.index, static_cast<uint32_t>(released.reserved));
  }
  if (cache->clients_.drop_view()) delete cache;
}

Status Cache::contains(int64_t index) const {
  if (Status status = check_index(index); !status.ok()) return status;
  const EntryWord word(segment_.entry(index).load(std::memory_order_relaxed));  // nothing is read through it
  return word.state() == State::ready ? DC_OK : DC_MISS;
}

Status Cache::residency(int64_t first, int64_t count, uint8_t *bitmap) const {
  const int64_t length = segment_.header.geometry.length;
  if (first < 0 || count < 0 || first > length || count > length - first) {
    return failure(DC_ERROR_RANGE, "entries %lld + %lld are not within the length %lld", static_cast<long long>(first),
                   static_cast<long long>(count), static_cast<long long>(length));
  }
  if (count == 0) return {};
  std::memset(bitmap, 0, static_cast<size_t>(count / 8 + (count % 8 != 0)));
  for (int64_t i = 0; i < count; ++i) {
    const EntryWord word(segment_.entry(first + i).load(std::memory_order_relaxed));  // as in contains
    if (word.state() == State::ready) bitmap[i / 8] = static_cast<uint8_t>(bitmap[i / 8] | 1u << (i % 8));
  }
  return {};
}

}  // namespace ddpcache
