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
    segment_.control().disturbances.fetch_add(1);
    return;
  }
  // EDGE name, from the other side: the name is gone before the entry is looked at, so either a search finds the extent
  // unnamed or the drop is seen here and told to searches.
  const EntryWord entry(segment_.entry(index).load());
  Extent extent;
  const bool kept = entry.state() == State::ready && entry.place() == place;
  if (!kept && segment_.find_extent(place, &extent)) extents_.note_freed(extent);
}

// READY, or BAD, to EMPTY at the next generation: from then on no reader finds the sample, and its extent is free once
// nobody names it. True where there was a sample.
bool Cache::drop(int64_t index) {
  Word &shared = segment_.entry(index);
  uint64_t seen = shared.load();
  // Bounded: READY can change to BAD and either to EMPTY; then it is somebody else's removal.
  while (EntryWord(seen).state() == State::ready || EntryWord(seen).state() == State::bad) {
    Extent extent;
    const bool found = segment_.find_extent(EntryWord(seen).place(), &extent);
    if (found) extents_.announce_free(extent);
    const EntryWord next = DC_MUTANT("drop-keeps-generation") ? EntryWord::empty(EntryWord(seen).generation())
                                                              : EntryWord(seen).next_empty();
    if (!shared.compare_exchange_strong(seen, next.bits())) continue;
    if (!DC_MUTANT("drop-keeps-generation")) DC_MOVE(remove, seen, next.bits());
    DC_FAULT_POINT("dropped");
    const bool was_ready = EntryWord(seen).state() == State::ready;
    if (was_ready) tally(Counter::removed);
    if (found) extents_.note_freed(extent);
    return was_ready;
  }
  return false;
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
