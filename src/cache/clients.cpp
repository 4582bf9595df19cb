#include "clients.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "clock.hpp"
#include "fault.hpp"
#include "futex.hpp"
#include "hash.hpp"
#include "moves.hpp"
#include "trust.hpp"

namespace ddpcache {
ProcessIdentity identity_of(const ClientRecord &record) {
  return {record.pid.load(std::memory_order_relaxed), record.start_time.load(std::memory_order_relaxed),
          record.pid_namespace.load(std::memory_order_relaxed), record.time_namespace.load(std::memory_order_relaxed)};
}

uint64_t sum_of_identity(const ProcessIdentity &process, uint32_t number) {
  const uint64_t facts[] = {static_cast<uint64_t>(process.pid), process.start_time, process.pid_namespace,
                            process.time_namespace, number};
  return hash64(facts, sizeof facts);
}

namespace {

Status no_descriptor() {
  return failure(DC_ERROR_UNREGISTERED,
                 "process %d has no descriptor of the cache any more: it was closed, or none "
                 "was left at the fork",
                 getpid());
}

// Which stats line a thread has to itself. A thread returns its line when it ends; those beyond the lines share the
// last, and so do those of a child whose parent had taken all: it costs them speed and nothing else.
Atomic<uint32_t> lines_taken{0};

struct LineLease {
  uint32_t line = kSharedStatsLine;
  LineLease() {
    uint32_t taken = lines_taken.load(std::memory_order_relaxed);
    while (true) {
      const uint32_t free = static_cast<uint32_t>(std::countr_one(taken));
      if (free >= kSharedStatsLine) return;
      // EDGE line: who takes a line over sees the last plain stores of the thread that returned it.
      if (lines_taken.compare_exchange_weak(taken, taken | 1u << free, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
        line = free;
        return;
      }
    }
  }
  ~LineLease() {
    if (line < kSharedStatsLine) lines_taken.fetch_and(~(1u << line), std::memory_order_release);  // EDGE line
  }
};

// Static TLS, since this is read at every hit: 0 until the thread has its lease, then 1 + its line.
[[gnu::tls_model("initial-exec")]] thread_local uint32_t own_line = 0;

uint32_t lease_line() {
  thread_local LineLease lease;
  own_line = 1 + lease.line;
  return lease.line;
}

}  // namespace

void count(ClientRecord *record, Counter counter, uint64_t amount) {
  if (!record) return;
  const uint32_t line = own_line != 0 ? own_line - 1 : lease_line();
  Word &word = record->stats[line].counters[static_cast<size_t>(counter)];
  if (line == kSharedStatsLine) {
    word.fetch_add(amount, std::memory_order_relaxed);
  } else {
    // Relaxed, and no read-modify-write: no other thread writes this line, and a reader wants some recent value.
    word.store(word.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
}

uint64_t counted(const ClientRecord &record, Counter counter) {
  uint64_t sum = 0;
  for (const StatsLine &line : record.stats) {
    sum += line.counters[static_cast<size_t>(counter)].load(std::memory_order_relaxed);
  }
  return sum;
}

bool take_over(const Segment &segment, int64_t index, EntryWord seen) {
  // Its extent, which the word does not tell, is free from here on. Counted before and after, so that neither a search
  // that runs in between nor a death in between hides it.
  Word &disturbances = segment.control().disturbances;
  disturbances.fetch_add(1, std::memory_order_relaxed);
  uint64_t expected = seen.bits();
  // Relaxed: it makes nothing known but itself, and goes on with the release sequence of what was there.
  if (!segment.entry(index).compare_exchange_strong(expected, seen.next_empty().bits(), std::memory_order_relaxed)) {
    return false;
  }
  DC_MOVE(take_over, seen.bits(), seen.next_empty().bits());
  DC_FAULT_POINT("taken-over");
  disturbances.fetch_add(1, std::memory_order_release);  // EDGE told
  if (seen.has_waiters()) futex_wake_all(reinterpret_cast<const uint32_t *>(&segment.entry(index)));
  return true;
}

Clients::~Clients() {
  release_wiped(process_, sizeof(Process));
  // A number that the program closed, and may have used again, is not ours to close.
  if (!refers_to(file_.get(), segment_.identity)) file_.release();
}

Status Clients::begin(Descriptor file) {
  file_ = std::move(file);
  process_ = static_cast<Process *>(wiped_on_fork(sizeof(Process)));
  if (!process_) return failure(DC_ERROR_UNSUPPORTED, "this kernel has no MADV_WIPEONFORK, or no memory is left");
  process_->descriptor_ready.store(1, std::memory_order_relaxed);  // no other thread knows of this object yet
  opened_in_ = fork_generation();
  register_fork_aware(this, file_.get());
  return {};
}

Status Clients::join() {
  const int fd = checked_fd();
  if (fd < 0) return no_descriptor();
  if (lock_shared(fd, kAttachByte) != LockResult::taken)
    return system_failure("fcntl(F_OFD_SETLK)", "attach byte", errno);
  if (segment_.read_only()) {
    process_->generation.store(fork_generation(), std::memory_order_release);
    return {};
  }
  Status status = reopen_closed(segment_);
  if (status.ok()) status = register_client();
  if (!status.ok()) unlock(fd, kAttachByte);
  return status;
}

Status Clients::register_client() {
  const ProcessIdentity self = this_process();
  // A lock lives as long as its open file description, which this mapping keeps: else a program that closes every
  // descriptor just now would let another client into the record while this one is still writing to it.
  const int fd = checked_fd();
  Mapping keeper;
  if (fd < 0) return no_descriptor();
  if (Status status = Mapping::map(fd, segment_.header.geometry.page_bytes, Access::read_only, &keeper); !status.ok()) {
    return checked_fd() < 0 ? no_descriptor() : status;
  }
  uint64_t handed_back = 0;
  for (uint32_t number = 0; number < segment_.header.geometry.clients_max; ++number) {
    if (!try_record(number, self, fd, &handed_back)) continue;
    count(record(), Counter::takeovers, handed_back);
    // Extents of fills that nobody counted as given up may lie about: let searches look once more.
    // Relaxed: what was handed back was counted after it.
    segment_.control().disturbances.fetch_add(1, std::memory_order_relaxed);
    process_->generation.store(fork_generation(), std::memory_order_release);
    return {};
  }
  if (checked_fd() < 0) return no_descriptor();
  return failure(DC_ERROR_CLIENTS,
                 "all %u client records are in use: close a client, or create the cache with a larger "
                 "clients_max, of up to %d",
                 segment_.header.geometry.clients_max, DC_CLIENTS_MAX);
}

// Takes record `number` if its client is provably gone and no other newcomer is at it.
bool Clients::try_record(uint32_t number, const ProcessIdentity &self, int fd, uint64_t *handed_back) {
  ClientRecord &record = segment_.client(number);
  // EDGE left: what the record's last client did to it comes before.
  const ClientWord word = look_after(number, ClientWord(record.word.load(std::memory_order_acquire)));
  if (word.life() == Life::live) return false;
  if (word.life() == Life::dead) {
    if (!death_proved(identity_of(record))) return false;
    // Only now: the dead cannot claim any more.
    *handed_back += hand_back_fills(number, word.epoch());
  }
  if (checked_fd() != fd || lock_exclusive(fd, client_byte(number)) != LockResult::taken) return false;
  // The number may have been another file's already. Relaxed: another newcomer held the byte before this one, and the
  // kernel orders its locks.
  if (record.word.load(std::memory_order_relaxed) != word.bits() || checked_fd() != fd) {
    if (checked_fd() == fd) unlock(fd, client_byte(number));
    return false;
  }
  // First, since nothing is in a record past the mark.
  raise_to(segment_.control().clients_used, number + 1);
  DC_FAULT_POINT("record-locked");
  clear_names(number);
  for (FillNote &note : record.fills) note.index_plus_one.store(0, std::memory_order_relaxed);  // behind its fence
  DC_MOVE(clear, 0, 0);
  // The proof goes with the dead one's identity, of which a death from here on may leave a part.
  const ClientWord vacant(Life::free, word.epoch());
  record.word.store(vacant.bits(), std::memory_order_release);  // EDGE life
  if (word.life() == Life::dead) DC_MOVE(vacate, word.bits(), vacant.bits());
  atomic_fence(std::memory_order_release);  // EDGE life: who sees some of the new identity sees the record vacant
  record.pid.store(self.pid, std::memory_order_relaxed);
  record.start_time.store(self.start_time, std::memory_order_relaxed);
  record.pid_namespace.store(self.pid_namespace, std::memory_order_relaxed);
  record.time_namespace.store(self.time_namespace, std::memory_order_relaxed);
  record.identity_sum.store(sum_of_identity(self, number), std::memory_order_relaxed);
  DC_FAULT_POINT("registering");
  for (size_t c = 0; c < process_->baseline.size(); ++c) {
    process_->baseline[c] = counted(record, static_cast<Counter>(c));
  }
  process_->life = {number, word.next_epoch()};
  const ClientWord live(Life::live, word.next_epoch());
  record.word.store(live.bits(), std::memory_order_release);  // EDGE life
  DC_MOVE(join, vacant.bits(), live.bits());
  process_->record.store(&record, std::memory_order_release);
  return true;
}

// Of who leaves, or of the dead, whose end the kernel has ordered before this.
void Clients::clear_names(uint32_t number) {
  ClientRecord &record = segment_.client(number);
  atomic_fence(std::memory_order_release);  // EDGE unnamed: of all that follow
  record.unnamed_readers.store(0, kRelaxedAfterFence);
  // Relaxed: the record has no other client any more. Most are 0, and their lines stay as they are.
  const auto clear = [](Word &name) {
    if (name.load(std::memory_order_relaxed) != 0) name.store(0, kRelaxedAfterFence);
  };
  for (Word &name : record.names) clear(name);
  const uint32_t names = record.reader_names_used.load(std::memory_order_relaxed);
  const uint32_t used = segment_.droppable() ? std::min(names, kReaderNames) : 0;
  for (uint32_t i = 0; i < used; ++i) clear(segment_.reader_name(number, i));
  atomic_fence(std::memory_order_release);  // EDGE mark: nothing is past a mark
  record.names_used.store(0, kRelaxedAfterFence);
  record.reader_names_used.store(0, kRelaxedAfterFence);
}

uint64_t Clients::hand_back_fills(uint32_t number, uint32_t epoch) {
  uint64_t taken = 0;
  for (const FillNote &note : segment_.client(number).fills) {
    // Relaxed: its client is dead, and the kernel has ordered that before the proof.
    const uint64_t index_plus_one = note.index_plus_one.load(std::memory_order_relaxed);
    if (index_plus_one == 0 || !segment_.valid_index(static_cast<int64_t>(index_plus_one - 1))) continue;
    const int64_t index = static_cast<int64_t>(index_plus_one - 1);
    // Bounded: a waiter can change the word once, by its bit; any other change means that the entry was taken.
    while (true) {
      const EntryWord seen(segment_.entry(index).load(std::memory_order_relaxed));
      if (seen.state() != State::writing || seen.owner() != ClientLife{number, epoch}) break;
      if (take_over(segment_, index, seen)) {
        ++taken;
        break;
      }
    }
  }
  return taken;
}

ClientWord Clients::look_after(uint32_t number, ClientWord word) {
  if (word.life() != Life::live) return word;
  if (record() && process_->life == ClientLife{number, word.epoch()}) return word;  // never its own byte
  const int fd = checked_fd();
  if (fd < 0 || probe(fd, client_byte(number)) != ProbeResult::free) return word;
  DC_FAULT_POINT("probed-free");
  Word &shared = segment_.client(number).word;
  uint64_t seen = word.bits();
  const ClientWord dead(Life::dead, word.epoch());
  if (segment_.read_only()) return dead;  // nobody else learns of it
  // Relaxed where done: it goes on with the release sequence of LIVE. EDGE left, of what is there instead.
  if (!shared.compare_exchange_strong(seen, dead.bits(), std::memory_order_relaxed, std::memory_order_acquire)) {
    return ClientWord(seen);
  }
  DC_MOVE(declare, word.bits(), dead.bits());
  DC_FAULT_POINT("declared-dead");
  segment_.control().disturbances.fetch_add(1, std::memory_order_relaxed);  // what is taken over is counted after it
  return dead;
}

bool Clients::is_gone(ClientLife owner) {
  if (owner.client >= segment_.header.geometry.clients_max) return true;  // no such client: a damaged word
  // Relaxed: who saw the owner's claim sees it LIVE, or what came after (EDGE claim).
  const uint64_t seen = segment_.client(owner.client).word.load(std::memory_order_relaxed);
  const ClientWord word = look_after(owner.client, ClientWord(seen));
  return word != ClientWord(Life::live, owner.epoch);
}

// Whether a record, of whichever life it is in, names this extent or may. It lies between two fences, that of is_named
// and that of the fill which takes the extent, or goes on with another (EDGE name, EDGE unnamed).
bool Clients::record_names(uint32_t number, uint64_t name) const {
  const ClientRecord &record = segment_.client(number);
  if (record.unnamed_readers.load(kRelaxedBeforeFence) > 0) return true;
  const uint32_t fills = std::min<uint32_t>(record.names_used.load(kRelaxedBeforeFence), DC_FILLS_MAX);
  for (uint32_t i = 0; i < fills; ++i) {
    if (record.names[i].load(kRelaxedBeforeFence) == name) return true;
  }
  if (!segment_.droppable()) return false;
  const uint32_t readers = std::min(record.reader_names_used.load(kRelaxedBeforeFence), kReaderNames);
  for (uint32_t i = 0; i < readers; ++i) {
    if (segment_.reader_name(number, i).load(kRelaxedBeforeFence) == name) return true;
  }
  return false;
}

bool Clients::is_named(Place place) {
  const uint64_t wanted = name_of(place);
  atomic_fence(std::memory_order_seq_cst);  // EDGE name: between the look at the words and that at the names
  const uint32_t clients = segment_.control().clients_used.load(std::memory_order_relaxed);
  const uint32_t used = std::min(clients, segment_.header.geometry.clients_max);
  for (uint32_t number = 0; number < used; ++number) {
    const ClientRecord &record = segment_.client(number);
    const ClientWord before(record.word.load(kRelaxedBeforeFence));
    if (before.life() == Life::free || !record_names(number, wanted)) continue;
    // EDGE name has ordered it: of whom a name counts, his life is seen, and with it his identity, or that of a later
    // life, which began after this one's death was proved.
    const ClientWord word = look_after(number, ClientWord(record.word.load(std::memory_order_relaxed)));
    const bool proved = word.life() == Life::dead && death_proved(identity_of(record));
    // The proof counts for the life that was read, so the record must still be in it.
    if (!proved || ClientWord(record.word.load(std::memory_order_relaxed)) != word) return true;
  }
  return false;
}

Status Clients::may_fill() {
  if (segment_.read_only()) {
    return failure(DC_ERROR_UNSUPPORTED, "the cache was attached read only: this process changes nothing in it");
  }
  generation();
  const ClientRecord *own = record();
  // Relaxed: who has just been declared dead and does not see it loses its fill at the commit.
  const ClientWord live(Life::live, process_->life.epoch);
  if (own && ClientWord(own->word.load(std::memory_order_relaxed)) == live && checked_fd() >= 0) return {};
  if (!own) {
    // A child whose first registration failed, for want of a descriptor or a record, may fare better now.
    const std::lock_guard lock(process_mutex());
    return record() ? Status() : join();
  }
  return failure(DC_ERROR_UNREGISTERED,
                 "process %d has lost its lock on the cache, because its descriptor was closed: it can go on reading, "
                 "but not fill; close the cache and open it again",
                 getpid());
}

Status Clients::take_fill_slot(uint32_t *slot) {
  uint64_t taken = process_->fill_slots.load(std::memory_order_relaxed);
  while (true) {
    const uint32_t free = static_cast<uint32_t>(std::countr_one(taken));
    if (free >= DC_FILLS_MAX) {
      return failure(DC_ERROR_FILLS, "this process has %d open fills, the most that it may have", DC_FILLS_MAX);
    }
    // EDGE slot: what the slot's last fill did to the record comes before.
    if (!process_->fill_slots.compare_exchange_weak(taken, taken | uint64_t{1} << free, std::memory_order_acquire,
                                                    std::memory_order_relaxed)) {
      continue;
    }
    raise_to(record()->names_used, free + 1);
    *slot = free;
    return {};
  }
}

void Clients::give_fill_slot(uint32_t slot) {
  ClientRecord *own = record();
  own->fills[slot].index_plus_one.store(0, std::memory_order_release);  // EDGE note: the entry has moved on
  DC_MOVE(unnote, 0, 0);
  process_->fill_slots.fetch_and(~(uint64_t{1} << slot), std::memory_order_release);  // EDGE slot
}

uint32_t Clients::take_reader_name(Place place) {
  ClientRecord *own = record();
  // Bounded: a bit that another thread took first is never tried again.
  for (uint32_t w = 0; w < process_->reader_slots.size(); ++w) {
    Atomic<uint64_t> &slots = process_->reader_slots[w];
    uint64_t taken = slots.load(std::memory_order_relaxed);
    while (~taken != 0) {
      const uint64_t bit = ~taken & (taken + 1);
      taken = slots.fetch_or(bit, std::memory_order_acquire);  // EDGE slot
      if (taken & bit) continue;
      const uint32_t number = w * 64 + static_cast<uint32_t>(std::countr_zero(bit));
      raise_to(own->reader_names_used, number + 1);
      // EDGE unnamed, of what the slot's last reader did: who scans for that may meet this name instead of none.
      segment_.reader_name(process_->life.client, number).store(name_of(place), std::memory_order_release);
      DC_MOVE(name_view, 0, name_of(place));
      atomic_fence(std::memory_order_seq_cst);  // EDGE name: between this and the caller's check
      return number;
    }
  }
  // Whoever took the last name may not have said so yet.
  raise_to(own->reader_names_used, kReaderNames);
  [[maybe_unused]] const uint32_t before = own->unnamed_readers.fetch_add(1, std::memory_order_release);  // EDGE mark
  DC_MOVE(count_view, before, before + 1);
  atomic_fence(std::memory_order_seq_cst);  // EDGE name
  return kReaderNames;
}

bool Clients::give_reader_name(uint32_t number, Place *place) {
  if (number == kReaderNames) {
    // EDGE unnamed
    [[maybe_unused]] const uint32_t before = record()->unnamed_readers.fetch_sub(1, std::memory_order_release);
    DC_MOVE(uncount_view, before, before - 1);
    return false;
  }
  Word &name = segment_.reader_name(process_->life.client, number);
  *place = place_of(name.load(std::memory_order_relaxed));  // its own
  name.store(0, std::memory_order_release);                 // EDGE unnamed
  DC_MOVE(unname_view, 0, 0);
  process_->reader_slots[number / 64].fetch_and(~(uint64_t{1} << (number % 64)),
                                                std::memory_order_release);  // EDGE slot
  return true;
}

void Clients::detach() {
  // Relaxed, here and in all that follows: it changes before any other thread knows of it, and under the process mutex.
  if (!process_->descriptor_ready.load(std::memory_order_relaxed)) renew_after_fork(this);
  const int fd = checked_fd();
  if (fd >= 0) unlock(fd, kAttachByte);
}

void Clients::retire() {
  if (!process_) return;
  unregister_fork_aware(this);
  leave_record();
}

void Clients::leave_record() {
  ClientRecord *own = record();
  if (!own) return;
  clear_names(process_->life.client);
  // It fails where this process was declared dead: the record then waits for the proof.
  uint64_t expected = ClientWord(Life::live, process_->life.epoch).bits();
  const ClientWord free(Life::free, process_->life.epoch);
  // EDGE left, EDGE unnamed
  if (own->word.compare_exchange_strong(expected, free.bits(), std::memory_order_release, std::memory_order_relaxed)) {
    DC_MOVE(leave, expected, free.bits());
  }
  // A child that was forked since this object left the registry holds the descriptor, and with it the lock.
  if (const int fd = checked_fd(); fd >= 0) unlock(fd, client_byte(process_->life.client));
}

// The kernel gives a number again only after it was closed: the program closed ours, perhaps all that it had.
void Clients::descriptor_given_to_another(int fd) noexcept {
  if (file_.get() == fd) file_.release();
}

// The child shares the parent's open file description, and with it the parent's locks: its descriptor must go, or the
// parent would seem to live as long as the child does.
void Clients::after_fork_in_child() noexcept {
  char path[64] = "/proc/self/fd/";
  const int old = checked_fd();
  int renewed = -1;
  if (old >= 0) {
    const size_t prefix = std::strlen(path);
    *std::to_chars(path + prefix, path + sizeof path - 1, old).ptr = '\0';
    renewed = ::open(path, (segment_.read_only() ? O_RDONLY : O_RDWR) | O_CLOEXEC);
  } else {
    file_.release();
  }
  file_ = Descriptor(renewed);
  if (renewed >= 0) announce_descriptor(this, renewed);
  process_->descriptor_ready.store(1, std::memory_order_relaxed);
}

uint32_t Clients::first_use() {
  const std::lock_guard lock(process_mutex());
  // Relaxed: the mutex orders it among those that come here.
  if (const uint32_t generation = process_->generation.load(std::memory_order_relaxed)) return generation;
  if (!process_->descriptor_ready.load(std::memory_order_relaxed)) renew_after_fork(this);  // it bypassed the handlers
  // It reads, and may_fill says why it cannot fill.
  if (!join().ok()) process_->generation.store(fork_generation(), std::memory_order_relaxed);
  return process_->generation.load(std::memory_order_relaxed);
}

}  // namespace ddpcache
