// The protocol of the cache as a machine: clients that run scripts, one access to a shared word a step, and faults.
//
// The words are the library's own (words.hpp), and every change of one is a move of the library's own table
// (moves.hpp). What a step leaves out of a word's way to memory is the matter of the weak memory models; here every
// access is sequentially consistent.
//
// Faults: a client may be KILLED before any of its steps, or LOSE its locks and descriptor and run on. That it may be
// STOPPED for ever needs no step of its own: what others do while it takes none is among the runs that are searched.
// No run goes on for ever (the search proves that the graph has no cycle), and only who waits for a futex cannot take
// its next step; so whoever is not stopped ends, whoever else is.
//
// A waiter wakes by itself once its slice is over, so often as its script says, and then says BUSY.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <string>
#include <vector>

#include "moves.hpp"

namespace ddpcache::model {

inline constexpr int kEntries = 6;
inline constexpr int kExtents = 4;
inline constexpr int kSteps = 2;
inline constexpr int kRecords = 5;
inline constexpr int kProcesses = 5;
inline constexpr int kViews = 2;  // names that a client has for its readers

enum class Op : uint8_t {
  attach,  // becomes a client in a record that is free, or whose client is dead
  fill,    // stores a sample, or waits for who does
  fail,    // as fill, but the loader fails with half of it written
  read,    // takes a view and ends it
  hold,    // takes a view and never ends it
  copy,    // as a client that can name nothing: copies, then checks
  remove,
  leave,
};

struct Task {
  Op op;
  uint8_t index = 0;
};
using Script = std::vector<Task>;

enum class Content : uint8_t { right, unverified, torn, unsound };  // torn: unverified, and not what was stored

struct Stored {
  uint8_t index;
  uint8_t extent;
  Content content = Content::right;
};

struct Scene {
  const char *what;
  std::vector<Script> scripts;  // a client whose script does not begin with attach has its record from the start
  int entries = 1;
  int steps = 1;
  int slots = 2;  // extents of a step
  int carved = 1;
  int records = 0;  // 0: one for each script
  int faults = 2;
  bool droppable = true;
  bool names = true;     // else a reader only counts, as beyond 1,024 names
  bool provable = true;  // else all live in other PID namespaces: no death is ever proved
  int slices = 1;        // of waiting, for each task
  std::vector<Stored> stored = {};
};

enum class Mutant : uint8_t {
  none,
  reader_does_not_check,
  filler_does_not_check,
  names_not_scanned,
  views_not_scanned,
  overflow_ignored,
  own_names_ignored,
  publish_by_store,
  claim_by_store,
  take_by_store,
  remove_by_store,
  spoil_by_store,
  refuse_by_store,
  take_over_by_store,
  extents_of_writers_are_free,
  no_generation_bump_when_giving_up,
  no_generation_bump_when_taking_over,
  no_generation_bump_when_removing,
  no_wake_after_publishing,
  no_wake_after_giving_up,
  no_wake_after_taking_over,
  wake_by_the_first_look,
  waiters_not_set,
  waiters_cleared_by_a_loser,
  sleep_without_a_look,
  neither_compared_nor_handed_back,
  epoch_not_raised,
  declared_without_a_probe,
  declared_by_store,
  only_declarers_take,
  own_record_probed,
  scan_trusts_the_lock,
  record_reused_on_the_lock,
  record_reused_with_its_fills,
  record_reused_with_its_names,
  record_not_locked,
  record_not_checked_again,
  live_before_lock,
  lock_not_kept,
  identity_at_last,
  claimed_before_noted,
  copy_not_checked,
  carved_before_reserved,
  // Of checks that a file needs whose words may be damaged, and no other.
  extent_not_checked,
  record_not_checked_after_the_proof,
  count
};
inline constexpr Mutant kFirstSpare = Mutant::extent_not_checked;
const char *name_of_mutant(Mutant mutant);

enum class Pc : uint8_t {
  done,
  look,
  life,
  probe,
  declare,
  take_over,
  wake,
  wait,
  sleep,
  asleep,
  may_fill,
  note,
  claim,
  unclaim,
  find,
  reserve,
  carve,
  owner,
  scan,
  prove,
  recheck,
  take,
  name,
  check_entry,
  check_extent,
  write_first,
  write_second,
  publish,
  disown,
  release,
  unname,
  unnote,
  view_look,
  view_name,
  view_check,
  verify_first,
  verify_second,
  settle,
  spoil,
  view_end,
  copy_look,
  copy_first,
  copy_second,
  copy_check,
  remove_look,
  remove,
  record_look,
  record_prove,
  hand_back,
  hand_over,
  lock,
  record_check,
  clear_names,
  vacate,
  identify,
  live,
  let_go,
  leave_names,
  leave,
  unlock,
  count
};
const char *name_of_pc(Pc pc);

enum class Fate : uint8_t { running, lost, killed };
// Why a client looks whether another lives, or wakes others: where it goes on afterwards.
enum class Purpose : uint8_t { waiting, scanning, attaching, publishing, giving_up };

struct Process {
  uint64_t word;    // an entry, as it was read
  uint64_t extent;  // and an extent's word
  uint64_t client;  // and a client's
  Pc pc;
  Fate fate;
  Purpose purpose;
  uint8_t task;
  uint8_t record;  // 1 + its own; 0: none
  uint8_t epoch;
  uint8_t place;  // extent, or index that is handed back
  uint8_t other;  // record that is looked at
  uint8_t tried;  // extents, a bit each; or the halves that were found right
  uint8_t slices;
  uint8_t must_be_gone;  // the owner's lock was free already when the entry was looked at
  uint8_t name;          // which of its names for readers it uses
  uint8_t view;          // 1 + the extent that it may look at
  uint8_t view_tag;
  uint8_t unused[2];
};

struct Record {
  uint8_t note;  // 1 + index
  uint8_t name;  // 1 + extent
  std::array<uint8_t, kViews> views;
  uint8_t unnamed;
  uint8_t pid;     // the process that it is about
  uint8_t holder;  // 1 + the process that has its byte locked
  uint8_t unused;
};

struct World {
  std::array<uint64_t, kEntries> entry;
  std::array<uint64_t, kExtents> extent;
  std::array<uint64_t, kRecords> client;
  std::array<Process, kProcesses> process;
  std::array<Record, kRecords> record;
  std::array<std::array<uint8_t, 2>, kExtents> bytes;  // tag of the record that each half belongs to
  std::array<uint8_t, kEntries> stored;                // 1 + the generation of the sample that must be there
  std::array<uint8_t, kSteps> step;
  std::array<uint8_t, kSteps> reserved;
  uint8_t faults_left;
  uint8_t unused[5];
};
static_assert(std::has_unique_object_representations_v<World>, "states are compared byte by byte");

struct Violation {
  std::string what;
};

class Protocol {
 public:
  explicit Protocol(const Scene &scene, Mutant mutant = Mutant::none);

  World first() const;
  int processes() const { return static_cast<int>(scene_.scripts.size()); }
  // How many steps a process can choose from: 0 where it has ended, or sleeps for good.
  int choices(const World &world, int process) const;
  // All of these throw Violation where a promise is broken.
  void step(World *world, int process, int choice);
  void check(const World &world) const;
  void check_end(const World &world);

  bool can_be_killed(const World &world, int process) const;
  bool can_lose_its_lock(const World &world, int process) const;
  void kill(World *world, int process) const;
  void lose_lock(World *world, int process) const;

  const std::bitset<static_cast<size_t>(Move::count)> &moves() const { return moves_; }
  void write_moves_to(std::vector<Move> *log) { log_ = log; }

 private:
  class Step;

  const Task &task_of(const World &world, int process) const {
    return scene_.scripts[static_cast<size_t>(process)][world.process[static_cast<size_t>(process)].task];
  }
  Pc first_pc(int process, uint8_t task) const;
  int extents() const { return scene_.steps * scene_.slots; }
  Place place_of_extent(int extent) const {
    return {static_cast<uint32_t>(extent / scene_.slots), static_cast<uint32_t>(extent % scene_.slots)};
  }
  uint8_t extent_at(Place place) const {
    return static_cast<uint8_t>(place.step * static_cast<uint32_t>(scene_.slots) + place.slot);
  }
  bool is_candidate(const World &world, const Process &filler, int extent) const {
    return world.step[static_cast<size_t>(extent / scene_.slots)] != 0 && !(filler.tried >> extent & 1);
  }
  bool holds_lock(const World &world, ClientLife life) const;
  bool is_named_by_the_living(const World &world, int extent) const;
  void check_entries(const World &world) const;
  void check_extents(const World &world) const;
  void check_sleepers(const World &world) const;
  void audit(const World &world);

  Scene scene_;
  Mutant mutant_;
  std::bitset<static_cast<size_t>(Move::count)> moves_;
  std::vector<Move> *log_ = nullptr;
};

struct SearchResult {
  std::string violation;  // empty: every promise held
  std::vector<std::string> trace;
  uint64_t states = 0;
  uint64_t ends = 0;
  bool complete = true;
};

// Every state that can be reached, depth first. `limit` 0: all of them.
SearchResult search(Protocol *protocol, uint64_t limit = 0);

}  // namespace ddpcache::model
