// Removing samples, and the names that keep what a reader looks at from being used again.
#include "cache.hpp"
#include "fault.hpp"
#include "moves.hpp"

namespace ddpcache {

void Pin::drop() { cache_.unpin(index_, release()); }

bool Pin::name(int64_t index, Place place) {
  if (name_ != kNone) drop();
  index_ = index;
  name_ = cache_.clients_.record() ? 1 + cache_.clients_.take_reader_name(place) : kNone;
  return name_ != kNone;
}

void Cache::unpin(int64_t index, uint32_t name) {
  Place place;
  if (!clients_.give_reader_name(name - 1, &place)) {
    // It was not said which extent: any that was dropped meanwhile may be free now.
    segment_.control().disturbances.fetch_add(1, std::memory_order_relaxed);  // a search that met a name goes on
    return;
  }
  // Relaxed: a hint where to search. A drop that is not seen here was told by who dropped, and a search that met the
  // name has not failed for good.
  const EntryWord entry(segment_.entry(index).load(std::memory_order_relaxed));
  Extent extent;
  const bool kept = entry.state() == State::ready && entry.place() == place;
  if (!kept && segment_.find_extent(place, &extent)) extents_.note_freed(extent);
}

// READY, or BAD, to EMPTY at the next generation: from then on no reader finds the sample, and its extent is free once
// nobody names it. True where there was a sample.
bool Cache::drop(int64_t index) {
  Word &shared = segment_.entry(index);
  // Bounded: READY can change to BAD and either to EMPTY; then it is somebody else's removal.
  while (true) {
    const EntryWord word(shared.load(std::memory_order_acquire));  // EDGE publish: the extent's step is seen
    if (word.state() != State::ready && word.state() != State::bad) return false;
    Extent extent;
    const bool found = segment_.find_extent(word.place(), &extent);
    if (found) extents_.announce_free(extent);
    const EntryWord next = DC_MUTANT("drop-keeps-generation") ? EntryWord::empty(word.generation()) : word.next_empty();
    // Relaxed: it makes nothing known but itself, and goes on with the release sequence of the publication.
    uint64_t seen = word.bits();
    if (!shared.compare_exchange_strong(seen, next.bits(), std::memory_order_relaxed)) continue;
    if (!DC_MUTANT("drop-keeps-generation")) DC_MOVE(remove, seen, next.bits());
    DC_FAULT_POINT("dropped");
    if (word.state() == State::ready) tally(Counter::removed);
    if (found) extents_.note_freed(extent);
    return word.state() == State::ready;
  }
}

Status Cache::remove(int64_t index) {
  int64_t removed = 0;
  Status status = remove_batch(&index, 1, &removed);
  return status.ok() && removed == 0 ? Status(DC_MISS) : status;
}

Status Cache::remove_batch(const int64_t *indices, int64_t count, int64_t *removed) {
  if (!segment_.droppable()) {
    return failure(DC_ERROR_UNSUPPORTED, "the cache was not made droppable: its samples stay");
  }
  clients_.generation();
  if (!clients_.record()) {
    if (Status status = clients_.may_fill(); !status.ok()) return status;
  }
  for (int64_t i = 0; i < count; ++i) {
    if (Status status = check_index(indices[i]); !status.ok()) return status;
  }
  for (int64_t i = 0; i < count; ++i) *removed += drop(indices[i]);
  return {};
}

Status Cache::clear(int64_t *removed) {
  if (Status status = remove_batch(nullptr, 0, removed); !status.ok()) return status;
  for (int64_t index = 0; index < segment_.header.geometry.length; ++index) *removed += drop(index);
  return {};
}

}  // namespace ddpcache
