#include "trust.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

#include "fault.hpp"
#include "hash.hpp"
#include "locks.hpp"
#include "moves.hpp"
#include "process.hpp"
#include "space.hpp"

// Every atomic operation here is relaxed: who revives a file is alone with it, under the name lock; and where a closer
// and those who come back meet, over the word of closure, the kernel's locks of the attach byte order what they do.
namespace ddpcache {
namespace {

// Not 0 or another number that a lost page may show.
constexpr uint64_t kClosed = 0x21646573'6F6C6321;
constexpr uint64_t kClosing = 0x21676E69'736F6C63;
constexpr uint64_t kReopening = 0x676E696E'65706F72;
constexpr uint64_t kOpen = 0;

// 0 where the kernel does not tell: then no boot is this one.
uint64_t this_boot() {
  const std::string id = boot_id();
  return id.empty() ? 0 : hash64(id.data(), id.size());
}

// Puts away what an old boot's clients left in a file that was closed: none of them can be alive.
void retire_clients(const Segment &segment) {
  const uint32_t used =
      std::min(segment.control().clients_used.load(std::memory_order_relaxed), segment.header.geometry.clients_max);
  for (uint32_t number = 0; number < used; ++number) {
    ClientRecord &record = segment.client(number);
    const ClientWord word(record.word.load(std::memory_order_relaxed));
    for (FillNote &note : record.fills) {
      const uint64_t index_plus_one = note.index_plus_one.exchange(0, std::memory_order_relaxed);
      if (index_plus_one == 0 || !segment.valid_index(static_cast<int64_t>(index_plus_one - 1))) continue;
      Word &entry = segment.entry(static_cast<int64_t>(index_plus_one - 1));
      const EntryWord seen(entry.load(std::memory_order_relaxed));
      if (seen.state() == State::writing && seen.owner() == ClientLife{number, word.epoch()}) {
        entry.store(seen.next_empty().bits(), std::memory_order_relaxed);
        DC_MOVE(recover_empty, seen.bits(), seen.next_empty().bits());
      }
    }
    for (Word &name : record.names) name.store(0, std::memory_order_relaxed);
    for (uint32_t i = 0; segment.droppable() && i < kReaderNames; ++i)
      segment.reader_name(number, i).store(0, std::memory_order_relaxed);
    record.names_used.store(0, std::memory_order_relaxed);
    record.reader_names_used.store(0, std::memory_order_relaxed);
    record.unnamed_readers.store(0, std::memory_order_relaxed);
    record.word.store(ClientWord(Life::free, word.epoch()).bits(), std::memory_order_relaxed);
    DC_MOVE(retire, word.bits(), ClientWord(Life::free, word.epoch()).bits());
  }
  segment.control().disturbances.fetch_add(1, std::memory_order_relaxed);
}

// Recovery: every word is read, and what does not fit together is put right. It may be ended anywhere and begun again,
// since the file is called this boot's only at its end.
class Recovery {
 public:
  Recovery(const Segment &segment, int fd, const std::string &subject)
      : segment_(segment), fd_(fd), subject_(subject) {}

  Status run() {
    if (Status status = reserve_again(0, segment_.layout.arena_offset); !status.ok()) return status;
    forget_clients();
    clear_unused();
    DC_FAULT_POINT("recovering");
    if (Status status = recover_steps(); !status.ok()) return status;
    if (segment_.keyed()) recover_keys();
    uint64_t kept = 0;
    for (int64_t index = 0; index < segment_.header.geometry.length; ++index) kept += recover_entry(index);
    DC_FAULT_POINT("entries-recovered");
    for (uint32_t step = 0; step < segment_.layout.steps; ++step) sweep_step(step);
    // What survived is all that counts as stored: who had stored it is not known any more.
    segment_.client(0).stats[kSharedStatsLine].counters[static_cast<size_t>(Counter::fills)].store(
        kept, std::memory_order_relaxed);
    // From here on the disk is at least as new as this: an entry that was put back cannot come again, when its key or
    // its extent is another's already.
    if (msync(&segment_.stored_header(), segment_.layout.arena_offset, MS_SYNC) != 0) {
      return system_failure("msync", subject_, errno);
    }
    DC_FAULT_POINT("recovered");
    return {};
  }

 private:
  Status reserve_again(uint64_t offset, uint64_t bytes) const {
    const Status status = reserve(fd_, offset, bytes);
    if (status.code() != DC_FULL) return status;
    return failure(DC_ERROR_NO_SPACE, "%s lost a part of its space when the machine stopped, and the disk is full: %s",
                   subject_.c_str(), look_at_space(fd_).remedy());
  }

  void forget_clients() {
    const Layout &layout = segment_.layout;
    clear(layout.clients_offset, layout.entries_offset);
    clear(layout.control_offset + sizeof(ControlLine), layout.clients_offset);  // size classes
    ControlLine &control = segment_.control();
    control.keep.store(control.keep.load(std::memory_order_relaxed) != 0, std::memory_order_relaxed);
    if (!segment_.keyed()) control.keys.store(0, std::memory_order_relaxed);
    control.clients_used.store(1, std::memory_order_relaxed);  // whose counts will be those of all
    control.next_step.store(0, std::memory_order_relaxed);
    control.no_space_ns.store(0, std::memory_order_relaxed);
    control.disturbances.store(1, std::memory_order_relaxed);
  }

  // Zeros, where something may have been that is none of the file's.
  void clear(uint64_t begin, uint64_t end) const {
    std::memset(reinterpret_cast<uint8_t *>(&segment_.stored_header()) + begin, 0, end - begin);
  }
  void clear_unused() const {
    const Layout &layout = segment_.layout;
    const uint64_t length = static_cast<uint64_t>(segment_.header.geometry.length), line = layout.control_offset;
    clear(sizeof(Header), line);
    clear(line + offsetof(ControlLine, next_step) + sizeof(uint32_t), line + offsetof(ControlLine, no_space_ns));
    clear(line + offsetof(ControlLine, closure) + sizeof(Word), line + sizeof(ControlLine));
    clear(layout.entries_offset + length * sizeof(Word), layout.keys_offset);
    clear(layout.keys_offset + (segment_.keyed() ? length * sizeof(KeySlot) : 0), layout.steps_offset);
    clear(layout.steps_offset + layout.steps * sizeof(Word), layout.arena_offset);
  }

  // A step may have lost its reservation while its word survived; one that cannot be had again is given up. Or its word
  // is lost, and words of extents lie in it, which whoever takes it next must find to be 0.
  Status recover_steps() {
    for (uint32_t step = 0; step < segment_.layout.steps; ++step) {
      Word &word = segment_.step_word(step);
      if (word.load(std::memory_order_relaxed) != 0 &&
          word.load(std::memory_order_relaxed) <= segment_.layout.classes.size()) {
        const Status status = reserve(fd_, segment_.step_offset(step), segment_.layout.step_bytes);
        if (status.ok()) continue;
        if (status.code() != DC_FULL) return status;
      }
      DC_MOVE(recover_step, word.load(std::memory_order_relaxed), 0);
      word.store(0, std::memory_order_relaxed);
      Status status = give_back(fd_, segment_.step_offset(step), segment_.layout.step_bytes);
      if (!status.ok()) return status;
    }
    return {};
  }

  // A key counts with both of its halves, and where a search for it ends. Taking one away may end the searches for
  // others, hence the rounds. There are three at most: a search crosses no free slot, so what has been judged since the
  // first of them was passed stays so, and that is in the first round.
  void recover_keys() {
    uint64_t keys = 0;
    for (bool changed = true; changed;) {
      changed = false;
      keys = 0;
      for (int64_t index = 0; index < segment_.header.geometry.length; ++index) {
        KeySlot &slot = segment_.key_slot(index);
        const KeyHash key = {slot.tag.load(std::memory_order_relaxed), slot.rest.load(std::memory_order_relaxed)};
        if (key == KeyHash{}) continue;
        int64_t found = -1;
        if (key.tag != 0 && key.rest != 0 && segment_.keys().lookup(key, &found) == DC_OK && found == index) {
          ++keys;
          continue;
        }
        slot.tag.store(0, std::memory_order_relaxed);
        slot.rest.store(0, std::memory_order_relaxed);
        changed = true;
      }
    }
    segment_.control().keys.store(keys, std::memory_order_relaxed);
  }

  bool is_stored(int64_t index, EntryWord word) const {
    if (segment_.keyed() && segment_.key_slot(index).tag.load(std::memory_order_relaxed) == 0) return false;
    Extent extent;
    return word.state() == State::ready && segment_.find_extent(word.place(), &extent) &&
           segment_.extent_word(word.place()).load(std::memory_order_relaxed) ==
               ExtentWord::owned(index, word.generation()).bits();
  }

  // True for one that may hold a sample, which its first reader will see.
  bool recover_entry(int64_t index) {
    Word &shared = segment_.entry(index);
    const EntryWord word(shared.load(std::memory_order_relaxed));
    const bool stored = is_stored(index, word);
    const EntryWord next = stored ? word.as_unverified() : word.next_empty();
    const bool clean = EntryWord::empty(word.generation()) == word;
    if (clean || next == word) return stored;
    shared.store(next.bits(), std::memory_order_relaxed);
    stored ? DC_MOVE(recover, word.bits(), next.bits()) : DC_MOVE(recover_empty, word.bits(), next.bits());
    return stored;
  }

  // Frees every extent that is no stored sample's, and lets its class begin with the step that has most room at its
  // end.
  void sweep_step(uint32_t step) {
    const uint64_t word = segment_.step_word(step).load(std::memory_order_relaxed);
    // Recovered, unless another program writes to the file meanwhile.
    if (word == 0 || word > segment_.layout.classes.size()) return;
    const SizeClass &own = segment_.layout.classes[word - 1];
    const uint32_t slots = own.slots;
    clear(segment_.step_offset(step) + slots * sizeof(Word), segment_.step_offset(step) + own.first_offset);
    uint32_t used = 0;
    for (uint32_t slot = 0; slot < slots; ++slot) {
      Word &shared = segment_.extent_word({step, slot});
      const ExtentWord extent(shared.load(std::memory_order_relaxed));
      if (extent.never_owned()) continue;
      const bool exists = segment_.valid_index(extent.index());
      const EntryWord entry(exists ? segment_.entry(extent.index()).load(std::memory_order_relaxed) : 0);
      if (entry.state() == State::ready && entry.generation() == extent.generation() &&
          entry.place() == Place{step, slot}) {
        used = slot + 1;
      } else {
        shared.store(0, std::memory_order_relaxed);
        DC_MOVE(recover_extent, extent.bits(), 0);
      }
    }
    Word &cursor = segment_.class_line(static_cast<uint32_t>(word - 1)).cursor;
    const uint64_t begun = cursor.load(std::memory_order_relaxed);
    if (used < slots && (begun == 0 || used < static_cast<uint32_t>(begun))) {
      cursor.store(uint64_t{step + 1} << 32 | used, std::memory_order_relaxed);
    }
  }

  const Segment &segment_;
  const int fd_;
  const std::string &subject_;
};

}  // namespace

Status sync_control(const Segment &segment) {
  if (msync(&segment.control(), kPageBytes, MS_SYNC) == 0) return {};
  return system_failure("msync", segment.header.name, errno);
}

Status begin_life(const Segment &segment, int fd, const std::string &subject) {
  segment.control().boot.store(this_boot(), std::memory_order_relaxed);
  if (segment.medium != Medium::disk || fsync(fd) == 0) return {};
  return system_failure("fsync", subject, errno);
}

Status revive(const Segment &segment, int fd, const std::string &subject) {
  ControlLine &control = segment.control();
  const uint64_t boot = this_boot();
  if (segment.medium != Medium::disk || (boot != 0 && control.boot.load(std::memory_order_relaxed) == boot)) return {};
  if (segment.read_only()) {
    if (control.closure.load(std::memory_order_relaxed) == kClosed) return {};
    return failure(DC_ERROR_STATE, "%s was not closed before the machine stopped: open it for writing first",
                   subject.c_str());
  }
  if (control.closure.load(std::memory_order_relaxed) == kClosed) {
    // First, so that one who is killed in between leaves a file that nobody takes for closed.
    if (Status status = reopen_closed(segment); !status.ok()) return status;
    DC_FAULT_POINT("reopened");
    retire_clients(segment);
  } else {
    if (Status status = Recovery(segment, fd, subject).run(); !status.ok()) return status;
    control.closure.store(kOpen, std::memory_order_relaxed);
  }
  control.boot.store(boot, std::memory_order_relaxed);
  return {};
}

bool boot_is_possible(const Segment &segment) {
  const uint64_t stored = segment.control().boot.load(std::memory_order_relaxed), boot = this_boot();
  // Who only reads a file that was closed changes nothing in it.
  const bool untouched =
      segment.medium == Medium::disk && segment.control().closure.load(std::memory_order_relaxed) == kClosed;
  return stored == boot || stored == 0 || boot == 0 || untouched;
}

bool closure_is_possible(const Segment &segment) {
  const uint64_t closure = segment.control().closure.load(std::memory_order_relaxed);
  return closure == kOpen ||
         (segment.medium == Medium::disk && (closure == kClosed || closure == kClosing || closure == kReopening));
}

Status reopen_closed(const Segment &segment) {
  if (segment.medium != Medium::disk) return {};
  Word &closure = segment.control().closure;
  uint64_t seen = closure.load(std::memory_order_relaxed);
  // Bounded: each further round has met a closer, who gives up when he sees the attach byte locked.
  while (seen != kOpen) {
    if (seen != kReopening && !closure.compare_exchange_strong(seen, kReopening, std::memory_order_relaxed)) continue;
    if (Status status = sync_control(segment); !status.ok()) return status;
    seen = kReopening;
    if (closure.compare_exchange_strong(seen, kOpen, std::memory_order_relaxed)) break;
  }
  return {};
}

void close_file(const Segment &segment, int fd) {
  Word &closure = segment.control().closure;
  if (segment.medium != Medium::disk || segment.read_only() || fd < 0 ||
      closure.load(std::memory_order_relaxed) == kClosed)
    return;
  closure.store(kClosing, std::memory_order_relaxed);
  DC_FAULT_POINT("closing");
  uint64_t closing = kClosing;
  if (probe(fd, kAttachByte) != ProbeResult::free || fsync(fd) != 0) {
    closure.compare_exchange_strong(closing, kReopening, std::memory_order_relaxed);
    return;
  }
  DC_FAULT_POINT("synced");
  if (!closure.compare_exchange_strong(closing, kClosed, std::memory_order_relaxed)) return;
  DC_FAULT_POINT("closed");
  // Where this fails the disk may say either; all that it would vouch for is there.
  static_cast<void>(sync_control(segment));
}

}  // namespace ddpcache
