// The processes attached to a cache: how each registers, how its death is noticed, and what it names.
//
// A record's word:
//
//   from      to          who                                         by
//   FREE e    LIVE e+1    a new client that holds the record's byte   store; the byte excludes every other writer
//   DEAD e    FREE e      the same, once the death of the old one is  store
//                         proved, its fills are handed back and its
//                         names and notes are cleared
//   LIVE e    DEAD e      anyone who probed the byte and found it     CAS from what was read before the probe
//                         free
//   LIVE e    FREE e      its owner, leaving                          CAS (it fails where the owner was declared dead)
//
// The byte is locked before LIVE is written, and until then a mapping of the same open file description keeps the lock
// whatever the program closes: nobody else comes to a record that is being made ready. It is never unlocked while it is
// LIVE, so LIVE over a free byte means that
// the client is gone: dead, or running on without its lock. Whoever declares needs no lock, so that one who is stopped
// while declaring stops nobody.
//
// A lost lock hands over entries only. Bytes are guarded by names: a client names an extent in its own record before it
// touches it, then checks that the words that led there are unchanged; nobody takes a named extent. A dead client's
// names count until its death is proved, since a process that lost its lock may still be writing.
//
//   EDGE name: between the namer's store of the name and its check of the words, and between a taker's look at the
//   words and its scan of the names, stands a seq_cst fence: either the scan sees the name, or the check sees the
//   change. What the namer wrote before, its life and its high-water marks, is seen with the name.
//   EDGE unnamed: what was done to the extent comes before the name is gone, and that before what its next owner does,
//   whose own fence of EDGE name comes after the scan.
//   EDGE left: a record's next client comes after what the last one did to it.
//   EDGE life, EDGE mark, for a check: a record's word comes after what it says of the record, and a high-water mark
//   before what it is of, and is taken back after that.
//   EDGE slot, EDGE line: the same of threads of a process, for what they use in turn.
#pragma once

#include "fork.hpp"
#include "locks.hpp"
#include "process.hpp"
#include "segment.hpp"

namespace ddpcache {

class Clients final : public ForkAware {
 public:
  explicit Clients(const Segment &segment) : segment_(segment) {}
  ~Clients();
  Clients(const Clients &) = delete;
  Clients &operator=(const Clients &) = delete;

  // Takes over the cache's descriptor and memory for this process's state.
  Status begin(Descriptor file);
  // Locks the attach byte and, unless it only reads, registers. With process_mutex held, so that no fork comes in
  // between.
  Status join();
  // Lets others see that this process has left the name; the record stays until `retire`.
  void detach();
  // Clears the record: nothing of the cache may be used any more. Never blocks.
  void retire();

  // The record of this process, or nullptr while it has none: a child that could not register, and who attached read
  // only, read uncounted.
  ClientRecord *record() const { return process_->record.load(std::memory_order_acquire); }
  // Differs between a process and its forked children. Registers a child at its first use.
  uint32_t generation() {
    const uint32_t generation = process_->generation.load(std::memory_order_acquire);
    return generation != 0 ? generation : first_use();
  }
  ClientLife life() const { return process_->life; }
  // What this process's record had counted before it was this process's.
  uint64_t baseline(Counter counter) const { return process_->baseline[static_cast<size_t>(counter)]; }
  // DC_OK while this process may fill; else why not.
  Status may_fill();

  // The descriptor where it is still the cache's, else -1: the program may have closed it and used its number again.
  int checked_fd() const { return refers_to(file_.get(), segment_.identity) ? file_.get() : -1; }

  // A record's word, after a look at whether its client still lives.
  ClientWord look_at(uint32_t number) {
    return look_after(number, ClientWord(segment_.client(number).word.load(std::memory_order_acquire)));  // EDGE life
  }
  // Whether another process holds a record's lock; one's own is never seen.
  bool is_locked(uint32_t number) const {
    const int fd = checked_fd();
    return fd >= 0 && probe(fd, client_byte(number)) == ProbeResult::held;
  }
  // True where the owner of a WRITING word is no more, so that the word may be taken. Declares it dead if need be.
  bool is_gone(ClientLife owner);
  // Whether any client that is not provably dead names this extent.
  bool is_named(Place place);

  // A free place for an open fill; DC_ERROR_FILLS where there is none.
  Status take_fill_slot(uint32_t *slot);
  void give_fill_slot(uint32_t slot);
  bool has_open_fills() const { return process_->fill_slots.load(std::memory_order_relaxed) != 0; }

  // Names an extent for a reader, in a droppable cache: the name's number, kReaderNames where all were taken.
  // Wait-free.
  uint32_t take_reader_name(Place place);
  // Ends such a name; false where it named no extent in particular.
  bool give_reader_name(uint32_t number, Place *place);

  // Views and the closing of the handle, counted together so that exactly one caller sees the end of both.
  void add_view() { process_->views.fetch_add(2, std::memory_order_relaxed); }
  // True for the call that ends the last view of a closed handle.
  bool drop_view() { return process_->views.fetch_sub(2, std::memory_order_acq_rel) == 3; }
  // True where no view is left.
  bool close_views() { return process_->views.fetch_or(1, std::memory_order_acq_rel) == 0; }

  // Whether this handle was opened by a parent of this process.
  bool is_inherited() const { return opened_in_ != 0 && opened_in_ != fork_generation(); }

  void after_fork_in_child() noexcept override;
  void descriptor_given_to_another(int fd) noexcept override;

 private:
  // Wiped in every child.
  struct Process {
    Atomic<uint32_t> generation;  // 0: a child that has not used the cache yet
    Atomic<uint32_t> descriptor_ready;
    Atomic<ClientRecord *> record;
    ClientLife life;
    std::array<uint64_t, static_cast<size_t>(Counter::count)> baseline;
    Atomic<uint64_t> fill_slots;                                   // bit i: fill i is open
    std::array<Atomic<uint64_t>, kReaderNames / 64> reader_slots;  // bit i of word w: reader name 64w + i is taken
    Atomic<uint64_t> views;                                        // 2 * open views + closed
  };

  uint32_t first_use();
  Status register_client();
  bool try_record(uint32_t number, const ProcessIdentity &self, int fd, uint64_t *handed_back);
  void clear_names(uint32_t number);
  void leave_record();
  bool record_names(uint32_t number, uint64_t name) const;
  // How many entries it has taken over.
  uint64_t hand_back_fills(uint32_t number, uint32_t epoch);
  // The word after a look at whether its client still lives.
  ClientWord look_after(uint32_t number, ClientWord word);

  const Segment &segment_;
  Descriptor file_;
  uint32_t opened_in_ = 0;  // fork generation; 0: not opened yet
  Process *process_ = nullptr;
};

// Who the client of a record is, or was last.
ProcessIdentity identity_of(const ClientRecord &record);
uint64_t sum_of_identity(const ProcessIdentity &process, uint32_t number);

// What a client has counted, over all lives of its record.
uint64_t counted(const ClientRecord &record, Counter counter);

// One more of what is counted, in this thread's own line of its client's record where there is one.
void count(ClientRecord *record, Counter counter, uint64_t amount = 1);

// Takes an entry from a client that is gone: CAS to EMPTY at the next generation, then wake. False where another did.
bool take_over(const Segment &segment, int64_t index, EntryWord seen);

}  // namespace ddpcache
