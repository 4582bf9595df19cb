// Finding memory for a sample, in bounded time and without a free list.
//
// In the smallest class that holds the record, then in each larger one: the next never-owned extent at the class's
// cursor; else, where extents were given up since a search last found nothing, a look at the next 256 words; else, in
// the smallest class only, a new step for it. In a droppable cache the look comes before the cursor, and a longer one
// before the new step (docs/decisions/090). An extent is taken by one CAS on its word; a client that dies right after
// has lost nothing, since the word then names an entry at another generation, or will once the entry is taken over.
#pragma once

#include "clients.hpp"
#include "segment.hpp"

namespace ddpcache {

class Extents {
 public:
  Extents(const Segment &segment, Clients &clients) : segment_(segment), clients_(clients) {}

  // Takes an extent of at least `record_bytes` for entry `index` at `generation`. DC_FULL where there is none.
  Status take(uint64_t record_bytes, int64_t index, uint32_t generation, Extent *extent);

  // Tells searches that an extent is about to be given up: where the client dies in between, they still look again.
  void announce_free(const Extent &extent) {
    segment_.class_line(extent.size_class).freed.fetch_add(1, std::memory_order_relaxed);
  }
  // Tells searches that an extent was given up, unnamed.
  void note_freed(const Extent &extent);

  // Whether nothing is left for any record of `record_bytes`, as far as the counts tell without a search.
  bool looks_full(uint64_t record_bytes) const;

 private:
  enum class Taking { taken, in_use, named };

  bool take_fresh(uint32_t size_class, ExtentWord mine, Extent *extent);
  bool take_from(uint32_t size_class, ExtentWord mine, Extent *extent);
  // Looks at the next `words_max` words of the class, where one of them may be free.
  bool search(uint32_t size_class, ExtentWord mine, uint64_t words_max, Extent *extent);
  static void begin_round(ClassLine &line);
  bool take_freed(uint32_t size_class, ExtentWord mine, Extent *extent);
  Taking try_take(Place place, ExtentWord mine);
  // DC_OK where the class has a new step, or another client gave it one meanwhile; DC_FULL where it cannot.
  Status grow(uint32_t size_class);
  Status reserve_step(uint32_t step);
  bool can_grow() const;
  // EDGE told: who knows of an event sees that what it freed is free.
  uint64_t events(const ClassLine &line) const {
    return line.freed.load(std::memory_order_acquire) + segment_.control().disturbances.load(std::memory_order_acquire);
  }
  uint32_t steps_of(uint32_t size_class) const;

  const Segment &segment_;
  Clients &clients_;
  // Bytes that may be reserved before free memory is looked at again, and until when.
  Atomic<uint64_t> credit_bytes_{0};
  Atomic<int64_t> credit_until_ns_{0};
};

}  // namespace ddpcache
