#include <sys/mman.h>

#include <algorithm>

#include "cache.hpp"
#include "clock.hpp"
#include "fault.hpp"
#include "futex.hpp"
#include "moves.hpp"
#include "space.hpp"

namespace ddpcache {
namespace {

// A waiter looks whether the filler still lives this often: half of what a takeover may take.
constexpr int64_t kWaitSliceNs = 50'000'000;
// From this size on, mapping an extent's pages in one call is cheaper than one fault a page.
constexpr uint64_t kPopulateBytes = 32 << 10;

// The calling thread's open fills, of all caches of the process.
struct ThreadFills {
  uint32_t process = 0;  // fork generation that the list belongs to
  Fill *first = nullptr;
};
thread_local ThreadFills thread_fills;

// A child's copy of its parent's list means nothing: those fills are the parent's.
ThreadFills &current_fills() {
  const uint32_t process = fork_generation();
  if (thread_fills.process != process) thread_fills = {process, nullptr};
  return thread_fills;
}

uint64_t this_thread() { return reinterpret_cast<uint64_t>(&thread_fills); }

const uint32_t *futex_word(const Word &entry) { return reinterpret_cast<const uint32_t *>(&entry); }

}  // namespace

bool Fill::thread_has_open() { return current_fills().first != nullptr; }

bool Fill::thread_is_using(const Cache *cache) {
  for (const Fill *fill = current_fills().first; fill; fill = fill->next_in_thread_) {
    if (fill->cache_ == cache) return true;
  }
  return false;
}

bool Fill::thread_is_filling(const Cache *cache, int64_t index) {
  for (const Fill *fill = current_fills().first; fill; fill = fill->next_in_thread_) {
    if (fill->cache_ == cache && fill->index_ == index) return true;
  }
  return false;
}

void Fill::opened(Cache *cache, int64_t index, uint32_t generation, uint32_t slot) {
  ThreadFills &fills = current_fills();
  cache_ = cache;
  index_ = index;
  generation_ = generation;
  slot_ = slot;
  thread_ = this_thread();
  process_ = fills.process;
  next_in_thread_ = fills.first;
  fills.first = this;
}

void Fill::finished() {
  if (phase_ == Phase::claimed || phase_ == Phase::allocated) {
    cache_->clients_.record()->names[slot_].store(0, std::memory_order_release);  // EDGE unnamed
    DC_MOVE(unname, 0, 0);
    cache_->clients_.give_fill_slot(slot_);
  }
  phase_ = Phase::none;
  Fill **link = &current_fills().first;
  while (*link && *link != this) link = &(*link)->next_in_thread_;
  if (*link) *link = next_in_thread_;
}

Fill::~Fill() {
  if (phase_ != Phase::none && usable_here().ok()) abort();
}

Status Fill::usable_here() const {
  if (process_ != fork_generation()) return DC_MISS;
  if (thread_ != this_thread()) {
    return failure(DC_ERROR_THREAD, "the fill of index %lld belongs to another thread", static_cast<long long>(index_));
  }
  return {};
}

Status Fill::allocate(dc_array *arrays, uint32_t count, const char *structure) {
  if (phase_ == Phase::allocated) {
    return allocation_ =
               failure(DC_ERROR_STATE, "the fill of index %lld has its memory already", static_cast<long long>(index_));
  }
  RecordPlan plan;
  allocation_ = plan_record(arrays, count, structure, &plan);
  if (!allocation_.ok()) return allocation_;
  uint8_t *record = nullptr;
  allocation_ = take_memory(plan.record_bytes, plan.data_bytes, &record);
  if (allocation_.ok()) write_record(plan, structure, record, arrays);
  if (allocation_.ok() && DC_MUTANT("publish-before-payload")) {
    cache_->segment_.entry(index_).store(EntryWord::ready(generation_, extent_.place).bits());
  }
  return allocation_;
}

Status Fill::take_memory(uint64_t record_bytes, uint64_t data_bytes, uint8_t **record) {
  Segment &segment = cache_->segment_;
  const Geometry &geometry = segment.header.geometry;
  if (data_bytes > geometry.sample_bytes_max || record_bytes > segment.layout.largest_record()) {
    return failure(
        DC_ERROR_TOO_LARGE,
        "the sample at index %lld has %llu bytes (%llu as stored); the cache was made for at most %llu (%llu "
        "as stored)",
        static_cast<long long>(index_), static_cast<unsigned long long>(data_bytes),
        static_cast<unsigned long long>(record_bytes), static_cast<unsigned long long>(geometry.sample_bytes_max),
        static_cast<unsigned long long>(segment.layout.largest_record()));
  }
  if (phase_ == Phase::uncached) return DC_FULL;
  if (Status status = cache_->extents_.take(record_bytes, index_, generation_, &extent_); !status.ok()) return status;
  DC_FAULT_POINT("extent-taken");

  Clients &clients = cache_->clients_;
  clients.record()->names[slot_].store(name_of(extent_.place), std::memory_order_release);  // EDGE owner, for a check
  DC_MOVE(name, 0, name_of(extent_.place));
  DC_FAULT_POINT("extent-named");
  // EDGE name: the store comes before both checks, and whoever takes the extent next sees a word changed before it
  // scans. EDGE copy: and what is written from here on comes after the look at the entry that led to the extent.
  atomic_fence(std::memory_order_seq_cst);
  const EntryWord entry = EntryWord(segment.entry(index_).load(std::memory_order_relaxed)).without_waiters();
  const bool is_mine = entry == EntryWord::writing(generation_, clients.life()) &&
                       segment.extent_word(extent_.place).load(std::memory_order_relaxed) ==
                           ExtentWord::owned(index_, generation_).bits();
  if (!is_mine && !DC_MUTANT("filler-does-not-check")) {
    clients.record()->names[slot_].store(0, kRelaxedAfterFence);  // nothing was done to it
    DC_MOVE(unname, 0, 0);
    cache_->extents_.note_freed(extent_);
    return failure(DC_ERROR_LOST, "the fill of index %lld was taken over: this process had lost its lock",
                   static_cast<long long>(index_));
  }
  *record = segment.writable(extent_);
  if (record_bytes >= kPopulateBytes) {
    const uint64_t begin = reinterpret_cast<uint64_t>(*record) & ~(kPageBytes - 1);
    const uint64_t end = reinterpret_cast<uint64_t>(*record) + record_bytes;
    // An older kernel refuses: the pages then fault in one by one.
    static_cast<void>(madvise(reinterpret_cast<void *>(begin), end - begin, MADV_POPULATE_WRITE));
  }
  data_bytes_ = data_bytes;
  phase_ = Phase::allocated;
  DC_FAULT_POINT("allocated");
  return {};
}

// Moves the entry on from this fill's own word, and wakes who waits for that. False where the entry was taken over.
bool Fill::leave(EntryWord next, [[maybe_unused]] const char *fault_point) {
  Word &shared = cache_->segment_.entry(index_);
  const EntryWord mine = EntryWord::writing(generation_, cache_->clients_.life());
  uint64_t seen = mine.bits();
  // Bounded: the word can change once, by WAITERS; any other change means that the entry was taken over.
  bool left = DC_MUTANT("publish-before-payload") && next.state() == State::ready;
  if (DC_MUTANT("publish-by-store")) {
    shared.store(next.bits(), std::memory_order_release);
    left = true;
  }
  while (!left && EntryWord(seen).without_waiters() == mine) {
    left = shared.compare_exchange_strong(seen, next.bits(), std::memory_order_release, std::memory_order_relaxed);
  }
  if (left) {
    next.state() == State::ready ? DC_MOVE(publish, seen, next.bits()) : DC_MOVE(give_up, seen, next.bits());
  }
  DC_FAULT_POINT(fault_point);
  if (left && EntryWord(seen).has_waiters()) futex_wake_all(futex_word(shared));
  return left;
}

Status Fill::commit() {
  if (phase_ != Phase::allocated) {
    return failure(DC_ERROR_STATE, "the fill of index %lld has no memory to publish", static_cast<long long>(index_));
  }
  Segment &segment = cache_->segment_;
  // A head that the filler itself has spoilt gets no checksum; the first reader finds it.
  if (segment.seals_records() && !sealed_) {
    seal_record(segment.writable(extent_), segment.extent_bytes(extent_), index_);
  }
  DC_FAULT_POINT("before-publish");
  // EDGE publish: head and data become visible to whoever acquires READY.
  const bool published = leave(EntryWord::ready(generation_, extent_.place), "published");
  cache_->tally(published ? Counter::fills : Counter::aborts);
  if (published) cache_->tally(Counter::bytes_filled, data_bytes_);
  finished();
  if (!published) cache_->extents_.note_freed(extent_);
  if (published) return {};
  return failure(DC_ERROR_LOST,
                 "the fill of index %lld was taken over before its commit: this process had lost its lock",
                 static_cast<long long>(index_));
}

void Fill::abort() {
  if (phase_ == Phase::none) return;
  if (phase_ == Phase::uncached) return finished();
  Clients &clients = cache_->clients_;
  const bool has_extent = phase_ == Phase::allocated;
  if (has_extent) cache_->extents_.announce_free(extent_);
  // Before the entry moves on, so that a search that is told of the extent finds it unnamed.
  clients.record()->names[slot_].store(0, std::memory_order_release);  // EDGE unnamed
  DC_MOVE(unname, 0, 0);
  // EDGE release: a later claim of this entry comes after all that this fill did.
  leave(EntryWord::writing(generation_, clients.life()).next_empty(), "released");
  if (has_extent) cache_->extents_.note_freed(extent_);
  cache_->tally(Counter::aborts);
  finished();
}

// Waits, for one slice at most, for a word that another client is writing. DC_OK: look again.
Status Cache::await(int64_t index, EntryWord word, int64_t deadline_ns, bool *waited) {
  if (clients_.is_gone(word.owner())) {
    if (take_over(segment_, index, word)) tally(Counter::takeovers);
    return {};
  }
  const int64_t left_ns = deadline_ns - now_ns();
  if (left_ns <= 0 || Fill::thread_has_open()) {
    tally(Counter::timeouts);
    return DC_BUSY;
  }
  Word &shared = segment_.entry(index);
  uint64_t seen = word.bits();
  const EntryWord waiting = word.with_waiters();
  // Relaxed: the filler's CAS meets the bit, or this one the filler's word; nothing else is told.
  if (!word.has_waiters() && !shared.compare_exchange_strong(seen, waiting.bits(), std::memory_order_relaxed)) {
    return {};
  }
  if (!word.has_waiters()) DC_MOVE(wait, seen, waiting.bits());
  DC_FAULT_POINT("waiting");
  if (!*waited) tally(Counter::waits);
  *waited = true;
  const int64_t slice_ns = DC_FAULT_TIME("WAIT_SLICE_NS", kWaitSliceNs);
  const WaitResult result = futex_wait(futex_word(shared), waiting.low(), std::min(left_ns, slice_ns));
  return result == WaitResult::interrupted ? Status(DC_INTERRUPTED) : Status();
}

// Claims an entry for `fill`, or says why not: DC_PRESENT, DC_BUSY, DC_INTERRUPTED; DC_FULL for a BAD entry, and where
// wanted for an empty one that nothing could be stored for.
Status Cache::claim(int64_t index, int64_t deadline_ns, bool unless_full, Fill *fill) {
  if (Fill::thread_is_filling(this, index)) {
    return failure(DC_ERROR_RECURSION, "this thread is already filling index %lld", static_cast<long long>(index));
  }
  Word &shared = segment_.entry(index);
  bool waited = false;
  while (true) {
    const EntryWord word(shared.load(std::memory_order_acquire));  // EDGE publish, EDGE release
    if (word.state() == State::ready) return DC_PRESENT;
    if (word.state() == State::bad) return DC_FULL;
    if (word.state() == State::writing) {
      if (const Status status = await(index, word, deadline_ns, &waited); !status.ok()) return status;
      continue;
    }
    if (unless_full && extents_.looks_full(1)) {
      // Or the last room has just been taken for this very index: then the entry says so by now.
      if (shared.load(std::memory_order_relaxed) == word.bits()) return DC_FULL;  // EDGE full has ordered it
      continue;
    }
    if (Status status = clients_.may_fill(); !status.ok()) return status;
    uint32_t slot = 0;
    if (Status status = clients_.take_fill_slot(&slot); !status.ok()) return status;
    FillNote &note = clients_.record()->fills[slot];
    note.since_ns.store(now_ns(), std::memory_order_relaxed);
    note.index_plus_one.store(static_cast<uint64_t>(index) + 1, std::memory_order_release);  // EDGE note: and the mark
    DC_MOVE(note, 0, static_cast<uint64_t>(index) + 1);
    DC_FAULT_POINT("noted");
    uint64_t seen = word.bits();
    // EDGE claim: who sees it sees the claimer registered, and the note.
    const EntryWord claimed = EntryWord::writing(word.generation(), clients_.life());
    if (shared.compare_exchange_strong(seen, claimed.bits(), std::memory_order_release, std::memory_order_relaxed)) {
      DC_MOVE(claim, seen, claimed.bits());
      fill->phase_ = Fill::Phase::claimed;
      fill->opened(this, index, word.generation(), slot);
      DC_FAULT_POINT("claimed");
      return {};
    }
    clients_.give_fill_slot(slot);
  }
}

Status Cache::begin_fill(int64_t index, int64_t timeout_ns, Fill **fill) {
  if (Status status = check_index(index); !status.ok()) return status;
  clients_.generation();  // a child becomes a client of its own before it asks whether others live
  if (segment_.read_only()) return clients_.may_fill();
  // What a stop of the machine may have torn counts as stored only once it has been compared.
  if (EntryWord(segment_.entry(index).load(std::memory_order_relaxed)).is_unverified()) [[unlikely]] {
    Pin pin(*this);
    RecordGlance unwanted;
    static_cast<void>(find(index, &pin, &unwanted));
  }
  auto fresh = std::make_unique<Fill>();
  const Status status = claim(index, deadline_after(timeout_ns), false, fresh.get());
  if (status.ok()) *fill = fresh.release();
  return status;
}

Status Cache::load(int64_t index, dc_loader loader, void *user, int64_t timeout_ns, dc_view *view) {
  Status status = this->view(index, view);
  const int64_t deadline_ns = status.code() == DC_MISS ? deadline_after(timeout_ns) : 0;
  // Bounded: each further round has seen the sample removed, or found damaged, by another client.
  while (status.code() == DC_MISS) {
    Fill fill;
    // Who reads only claims nothing. A process that should have a client record and has none can name nothing, so where
    // samples can go it cannot look at any.
    const bool blind = segment_.read_only() || (segment_.droppable() && !clients_.record());
    status = blind ? Status(DC_FULL) : claim(index, deadline_ns, true, &fill);
    if (status.ok()) {
      status = run_loader(fill, loader, user, view);
      continue;  // DC_MISS: stored, and removed by another client before it could be looked at
    }
    if (status.code() == DC_FULL || status.code() == DC_ERROR_FILLS) {
      // Nobody need wait for a sample that cannot be stored: each caller decodes it for himself, without a claim.
      if (look(index, view).ok()) return {};
      fill.phase_ = Fill::Phase::uncached;
      fill.opened(this, index, 0, 0);
      return run_loader(fill, loader, user, view);
    }
    if (status.code() == DC_PRESENT) status = look(index, view);
  }
  return status;
}

Status Cache::run_loader(Fill &fill, dc_loader loader, void *user, dc_view *view) {
  fill.set_of_loader();
  const int64_t index = fill.index();
  const int32_t answer = loader(reinterpret_cast<dc_fill *>(&fill), index, user);
  if (!fill.usable_here().ok()) {
    return failure(DC_ERROR_STATE,
                   "the loader of index %lld forked, and returned in the child: the fill is its parent's",
                   static_cast<long long>(index));
  }
  const Status allocation = fill.allocation_;
  if (answer == DC_LOADED && fill.phase_ == Fill::Phase::allocated && allocation.ok()) {
    const Status status = fill.commit();
    return status.ok() ? look(index, view) : status;
  }
  fill.abort();
  if (allocation.code() == DC_FULL) tally(Counter::bypasses);
  if (!allocation.ok()) return allocation;
  return failure(DC_ERROR_LOADER, "the loader of index %lld returned %d, not DC_LOADED, or allocated nothing",
                 static_cast<long long>(index), answer);
}

}  // namespace ddpcache
