// How a reader that cannot write looks at samples that can go: by a copy, checked afterwards.
//
// Such a reader names no extent, so the one that it copies may be dropped and rewritten under its hands. Therefore
//   - it reads each number once, into memory of its own, and bounds it by the size of the extent before it is used;
//   - it believes the copy only if the entry is the same word after the copy as before it. An extent is taken by
//     another fill only after its entry has moved on (words.hpp), so all that was copied was the sample's.
//
// EDGE copy: whoever sees a byte of the extent's next owner sees the entry moved on. The owner's look at that entry
// comes before its first store to the extent; here the fence keeps the second look at the entry behind the copy.
//
// The word would be the same again after 2^29 removals of this sample within one copy, which nothing prevents and
// nobody can do.
#include <new>

#include "atomic.hpp"
#include "cache.hpp"
#include "fault.hpp"

namespace ddpcache {
namespace {

constexpr std::align_val_t kAlignment{kLineBytes};

}  // namespace

uint8_t *Pin::room_for_copy(uint64_t bytes) {
  if (copy_bytes_ >= bytes && copy_) return copy_;
  if (copy_) free_copy(copy_);
  copy_ = nullptr;
  copy_ = static_cast<uint8_t *>(::operator new(bytes, kAlignment));
  copy_bytes_ = bytes;
  return copy_;
}

void Pin::free_copy(const uint8_t *copy) { ::operator delete(const_cast<uint8_t *>(copy), kAlignment); }

Status Cache::find_copy(int64_t index, Pin *pin, RecordGlance *found) {
  const Word &shared = segment_.entry(index);
  // Bounded: each further round, of three at most, has seen the sample dropped and filled anew.
  for (int round = 0; round < 3; ++round) {
    const EntryWord word(shared.load(std::memory_order_acquire));  // EDGE publish
    if (word.state() != State::ready) return DC_MISS;
    Extent extent;
    if (!segment_.find_extent(word.place(), &extent)) return DC_MISS;  // a damaged word
    const uint8_t *record = segment_.readable(extent);
    RecordHead head;
    copy_racing(&head, record, sizeof head);
    const bool possible = head.record_bytes >= sizeof head && head.record_bytes <= segment_.extent_bytes(extent);
    DC_FAULT_POINT("head-copied");
    uint8_t *copy = nullptr;
    if (possible) {
      copy = pin->room_for_copy(head.record_bytes);
      copy_racing(copy, record, head.record_bytes);
    }
    atomic_fence(std::memory_order_acquire);  // EDGE copy
    const EntryWord still(shared.load(std::memory_order_relaxed));
    if (still == word || DC_MUTANT("copy-is-not-checked")) {
      const bool sound =
          possible && glance_at_record(copy, head.record_bytes, found) &&
          ((!segment_.checks_each_hit() && !word.is_unverified()) || record_is_intact(copy, head.record_bytes, index));
      return sound ? DC_OK : DC_MISS;
    }
  }
  return DC_MISS;
}

}  // namespace ddpcache
