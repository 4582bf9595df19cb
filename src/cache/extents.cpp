#include "extents.hpp"

#include <algorithm>

#include "clock.hpp"
#include "fault.hpp"
#include "moves.hpp"
#include "space.hpp"

namespace ddpcache {
namespace {

constexpr uint64_t kSearchWords = 256;
// Before a new step is taken for what removed samples may have left room for: quicker than to have it zeroed.
constexpr uint64_t kLongSearchWords = 16'384;
constexpr int64_t kSecond = 1'000'000'000;

}  // namespace

Status Extents::take(uint64_t record_bytes, int64_t index, uint32_t generation, Extent *extent) {
  const ExtentWord mine = ExtentWord::owned(index, generation);
  const uint32_t classes = static_cast<uint32_t>(segment_.layout.classes.size());
  const uint32_t smallest = segment_.layout.class_for(record_bytes);
  for (uint32_t c = smallest; c < classes; ++c) {
    if (take_from(c, mine, extent)) return {};
    if (c != smallest) continue;
    if (segment_.droppable() && search(c, mine, kLongSearchWords, extent)) return {};
    // Bounded by the steps: each round that goes on has seen one more step given to this class.
    for (Status grown = grow(c); grown.code() != DC_FULL; grown = grow(c)) {
      if (!grown.ok()) return grown;
      if (take_fresh(c, mine, extent)) return {};
    }
    // Of two fillers that grew the class at once, one left its step to searches.
    if (search(c, mine, kSearchWords, extent)) return {};
  }
  return DC_FULL;
}

// Where samples are removed, what they leave comes before what is fresh. It lies in runs, as they were stored, and far
// apart: to go past the 256 words from one to the next then costs one fresh extent, not a step of them.
bool Extents::take_from(uint32_t size_class, ExtentWord mine, Extent *extent) {
  if (segment_.droppable() && search(size_class, mine, kSearchWords, extent)) return true;
  if (take_fresh(size_class, mine, extent)) return true;
  return !segment_.droppable() && search(size_class, mine, kSearchWords, extent);
}

bool Extents::looks_full(uint64_t record_bytes) const {
  if (can_grow()) return false;
  for (uint32_t c = segment_.layout.class_for(record_bytes); c < segment_.layout.classes.size(); ++c) {
    const ClassLine &line = segment_.class_line(c);
    // Relaxed: a class whose step is used up is full only where a search has failed, too.
    const uint64_t cursor = line.cursor.load(std::memory_order_relaxed);
    if (cursor != 0 && static_cast<uint32_t>(cursor) < segment_.layout.classes[c].slots) return false;
    // A class without a step has nothing to search. One whose first grower died may have a step and no cursor.
    // EDGE full: who sees that a search failed sees the claims of what it found in use.
    if (line.failed_freed.load(std::memory_order_acquire) != events(line) + 1 && (cursor != 0 || steps_of(c) > 0))
      return false;
  }
  return true;
}

// Extents past the cursor were never owned, so nobody can name them and no scan is needed.
bool Extents::take_fresh(uint32_t size_class, ExtentWord mine, Extent *extent) {
  Word &cursor = segment_.class_line(size_class).cursor;
  uint64_t seen = cursor.load(std::memory_order_relaxed);  // what is read through it is the step's own
  // Bounded by the step's slots: every failed CAS is another client's progress.
  while (true) {
    const Place place = {static_cast<uint32_t>((seen >> 32) - 1), static_cast<uint32_t>(seen)};
    if (seen == 0 || !segment_.find_extent(place, extent) || extent->size_class != size_class) return false;
    if (!cursor.compare_exchange_weak(seen, seen + 1, std::memory_order_relaxed)) continue;
    DC_FAULT_POINT("cursor-moved");
    uint64_t never = 0;
    // EDGE owner: who sees the extent owned sees its entry claimed.
    if (segment_.extent_word(place).compare_exchange_strong(never, mine.bits(), std::memory_order_release,
                                                            std::memory_order_relaxed)) {
      DC_MOVE(take_fresh, never, mine.bits());
      return true;
    }
    seen = cursor.load(std::memory_order_relaxed);  // a search was quicker
  }
}

Extents::Taking Extents::try_take(Place place, ExtentWord mine) {
  Word &word = segment_.extent_word(place);
  uint64_t seen = word.load(std::memory_order_acquire);  // EDGE owner
  const ExtentWord owned(seen);
  if (!owned.never_owned()) {
    if (!segment_.valid_index(owned.index())) return Taking::in_use;  // a damaged word: its extent stays out of use
    // Relaxed: EDGE owner has made its claim known, and what was done to the extent is ordered by the names.
    const EntryWord entry(segment_.entry(owned.index()).load(std::memory_order_relaxed));
    if (is_in_use(owned, entry)) return Taking::in_use;
    if (!DC_MUTANT("filler-does-not-scan-names") && clients_.is_named(place)) return Taking::named;  // EDGE name
  }
  // EDGE owner
  if (!word.compare_exchange_strong(seen, mine.bits(), std::memory_order_release, std::memory_order_relaxed)) {
    return Taking::in_use;
  }
  owned.never_owned() ? DC_MOVE(take_fresh, seen, mine.bits()) : DC_MOVE(retake, seen, mine.bits());
  return Taking::taken;
}

void Extents::note_freed(const Extent &extent) {
  ClassLine &line = segment_.class_line(extent.size_class);
  line.freed_name.store(name_of(extent.place), std::memory_order_release);  // EDGE step, for a check
  line.freed.fetch_add(1, std::memory_order_release);                       // EDGE told
}

// The extent that was given up last is the likeliest to be free.
bool Extents::take_freed(uint32_t size_class, ExtentWord mine, Extent *extent) {
  const uint64_t name = segment_.class_line(size_class).freed_name.exchange(0, std::memory_order_relaxed);
  if (name == 0 || !segment_.find_extent(place_of(name), extent) || extent->size_class != size_class) return false;
  return try_take(extent->place, mine) == Taking::taken;
}

uint32_t Extents::steps_of(uint32_t size_class) const {
  uint32_t steps = 0;
  for (uint32_t s = 0; s < segment_.layout.steps; ++s) {
    steps += segment_.step_word(s).load(std::memory_order_relaxed) == size_class + 1;  // only counted
  }
  return steps;
}

// All words are to be looked at anew before a search has failed. What is taken from `searched_words` from here on is
// looked for among all steps that there are now, since a search takes its words first and counts the steps then.
void Extents::begin_round(ClassLine &line) {
  raise_to(line.round_start, line.searched_words.load(std::memory_order_relaxed));
}

bool Extents::search(uint32_t size_class, ExtentWord mine, uint64_t words_max, Extent *extent) {
  ClassLine &line = segment_.class_line(size_class);
  const uint64_t now = events(line);
  if (line.failed_freed.load(std::memory_order_relaxed) == now + 1) return false;
  if (take_freed(size_class, mine, extent)) return true;
  const uint64_t begin = line.searched_words.fetch_add(words_max, std::memory_order_acq_rel);
  const uint64_t slots = segment_.layout.classes[size_class].slots;
  const uint64_t words = slots * steps_of(size_class);
  if (words == 0) return false;
  // Where a step has come, the words that were looked at lie elsewhere among them all.
  if (line.round_events.load(std::memory_order_relaxed) != now ||
      line.round_words.load(std::memory_order_relaxed) != words) {
    begin_round(line);
    line.round_words.store(words, std::memory_order_relaxed);
    line.round_events.store(now, std::memory_order_release);  // EDGE round: where it began
  }
  // The class's steps in order, round and round, from word `skip` of them all until `left` words are seen.
  uint64_t skip = begin % words;
  uint64_t left = std::min(words, words_max);
  bool met_name = false;
  for (uint32_t passed = 0; left > 0 && passed < 2 * segment_.layout.steps; ++passed) {
    const uint32_t step = passed % segment_.layout.steps;
    if (segment_.step_word(step).load(std::memory_order_acquire) != size_class + 1) continue;  // EDGE step
    if (skip >= slots) {
      skip -= slots;
      continue;
    }
    for (; skip < slots && left > 0; ++skip, --left) {
      const Place place = {step, static_cast<uint32_t>(skip)};
      const Taking taking = try_take(place, mine);
      met_name |= taking == Taking::named;
      if (taking != Taking::taken) continue;
      *extent = {size_class, place};
      // One event may have freed several extents: this round is not over, and a new one begins behind this word.
      uint64_t reached = begin + words_max;
      line.searched_words.compare_exchange_strong(reached, begin + std::min(words, words_max) - left + 1,
                                                  std::memory_order_relaxed);
      begin_round(line);
      // Another search may just have ended the round without a look at what this one leaves. EDGE failed: of the two,
      // one at least sees what the other has done.
      atomic_fence(std::memory_order_seq_cst);
      uint64_t failed = now + 1;
      line.failed_freed.compare_exchange_strong(failed, 0, std::memory_order_relaxed);
      return true;
    }
    skip = 0;
  }
  // A name may go without an event, so a round that met one has not failed for good.
  if (met_name) begin_round(line);
  const auto is_round_over = [&] {
    // Below 0 where this search was slow, and the round is a later one than it took its words for.
    // Relaxed: EDGE round counts at the second look, behind the fence.
    if (line.round_events.load(std::memory_order_relaxed) != now) return false;
    const int64_t searched = static_cast<int64_t>(begin + words_max - line.round_start.load(std::memory_order_relaxed));
    return line.round_words.load(std::memory_order_relaxed) == words && searched >= static_cast<int64_t>(words);
  };
  if (!is_round_over()) return false;
  line.failed_freed.store(now + 1, std::memory_order_release);  // EDGE full: the claims that have taken all
  // A search that found one after all either sees that this one failed, or is seen here: EDGE failed.
  atomic_fence(std::memory_order_seq_cst);
  uint64_t failed = now + 1;
  if (!is_round_over()) line.failed_freed.compare_exchange_strong(failed, 0, std::memory_order_relaxed);
  return false;
}

bool Extents::can_grow() const {
  const ControlLine &control = segment_.control();
  const int64_t failed_ns = control.no_space_ns.load(std::memory_order_relaxed);
  const int64_t now = now_ns();
  // What failed at a moment that is still to come says nothing.
  if (failed_ns != 0 && failed_ns <= now && age_ns(now, failed_ns) < kSecond) return false;
  // EDGE full: who finds no step left sees the claims for which they were taken. Relaxed for a step's own word: who
  // sees it taken finds it again as its class's, to be searched.
  const uint32_t begin = std::min(control.next_step.load(std::memory_order_acquire), segment_.layout.steps);
  for (uint32_t s = begin; s < segment_.layout.steps; ++s) {
    if (segment_.step_word(s).load(std::memory_order_relaxed) == 0) return true;
  }
  return false;
}

Status Extents::grow(uint32_t size_class) {
  ControlLine &control = segment_.control();
  if (!can_grow()) return DC_FULL;
  Word &cursor = segment_.class_line(size_class).cursor;
  uint64_t exhausted = cursor.load(std::memory_order_relaxed);
  const Place current = {static_cast<uint32_t>((exhausted >> 32) - 1), static_cast<uint32_t>(exhausted)};
  Extent next;
  if (exhausted != 0 && segment_.find_extent(current, &next) && next.size_class == size_class) {
    return {};  // another client has grown it already
  }
  // Relaxed: a hint, and words that the CAS looks at again.
  for (uint32_t s = control.next_step.load(std::memory_order_relaxed); s < segment_.layout.steps; ++s) {
    if (segment_.step_word(s).load(std::memory_order_relaxed) != 0) continue;
    Status status = reserve_step(s);
    if (status.code() == DC_FULL) control.no_space_ns.store(now_ns(), std::memory_order_relaxed);
    if (!status.ok()) return status;
    DC_FAULT_POINT("step-reserved");
    uint64_t untaken = 0;
    // EDGE step: whoever sees the step's class also sees it reserved.
    if (!segment_.step_word(s).compare_exchange_strong(untaken, size_class + 1, std::memory_order_release,
                                                       std::memory_order_relaxed)) {
      continue;
    }
    DC_MOVE(carve, untaken, size_class + 1);
    DC_FAULT_POINT("step-taken");
    raise_to(control.next_step, s + 1);
    // Where another client was quicker, a search finds this step's extents.
    // EDGE step, for a check that compares the two.
    if (!cursor.compare_exchange_strong(exhausted, uint64_t{s + 1} << 32, std::memory_order_release,
                                        std::memory_order_relaxed)) {
      const uint32_t slots = segment_.layout.classes[size_class].slots;
      segment_.class_line(size_class).freed.fetch_add(slots, std::memory_order_release);  // EDGE told
    }
    return {};
  }
  return DC_FULL;
}

// Looking at free memory takes a dozen system calls, so a look is good for a second or a small part of what was free.
Status Extents::reserve_step(uint32_t step) {
  const int fd = clients_.checked_fd();
  if (fd < 0) return failure(DC_ERROR_UNREGISTERED, "the cache's descriptor was closed: no memory can be reserved");
  const uint64_t bytes = segment_.layout.step_bytes;
  const int64_t now = now_ns();
  // Relaxed, all of the credit: numbers that stand for nothing else.
  uint64_t credit = credit_bytes_.load(std::memory_order_relaxed);
  // Bounded: a CAS that fails is another thread's reservation.
  while (now < credit_until_ns_.load(std::memory_order_relaxed) && credit >= bytes) {
    if (credit_bytes_.compare_exchange_weak(credit, credit - bytes, std::memory_order_relaxed)) {
      return reserve(fd, segment_.step_offset(step), bytes);
    }
  }
  const uint64_t available = look_at_space(fd).available();
  if (available < bytes) return DC_FULL;
  credit_bytes_.store(available / 64, std::memory_order_relaxed);
  credit_until_ns_.store(now + kSecond, std::memory_order_relaxed);
  return reserve(fd, segment_.step_offset(step), bytes);
}

}  // namespace ddpcache
