#include "protocol.hpp"

#include <algorithm>
#include <cstring>

#include "steps.hpp"

namespace ddpcache::model {
namespace {

constexpr const char *kPcNames[] = {"ended",
                                    "look at the entry",
                                    "look at a client",
                                    "probe",
                                    "declare",
                                    "take over",
                                    "wake",
                                    "set WAITERS",
                                    "sleep",
                                    "slice over",
                                    "may I fill",
                                    "note",
                                    "claim",
                                    "drop the note",
                                    "find",
                                    "reserve",
                                    "carve",
                                    "look at the owner",
                                    "scan",
                                    "prove the death",
                                    "check the record",
                                    "take",
                                    "name",
                                    "check the entry",
                                    "check extent",
                                    "write first half",
                                    "write the second",
                                    "publish",
                                    "unname to abort",
                                    "give up",
                                    "unname",
                                    "drop the note",
                                    "reader looks",
                                    "reader names",
                                    "reader checks",
                                    "verify first half",
                                    "verify second",
                                    "settle",
                                    "spoil",
                                    "end the view",
                                    "copier looks",
                                    "copy first half",
                                    "copy second",
                                    "copier checks",
                                    "remover looks",
                                    "remove",
                                    "look at a record",
                                    "prove the death",
                                    "look at a note",
                                    "hand back",
                                    "lock the byte",
                                    "check the word",
                                    "clear the names",
                                    "vacate",
                                    "say who I am",
                                    "begin a life",
                                    "let the lock go",
                                    "clear own names",
                                    "leave",
                                    "unlock"};
static_assert(std::size(kPcNames) == static_cast<size_t>(Pc::count));

constexpr const char *kMutantNames[] = {"none",
                                        "a reader does not check after naming",
                                        "a filler does not check after naming",
                                        "names are not scanned",
                                        "names of readers are not scanned",
                                        "the overflow count of names is ignored",
                                        "a taker ignores its own names",
                                        "publish by a store",
                                        "claim by a store",
                                        "take an extent by a store",
                                        "remove by a store",
                                        "BAD by a store",
                                        "refuse what is torn by a store",
                                        "take over by a store",
                                        "extents of WRITING entries are taken",
                                        "no next generation after giving up",
                                        "no next generation after a takeover",
                                        "no next generation after a removal",
                                        "no wake after publishing",
                                        "no wake after giving up",
                                        "no wake after a takeover",
                                        "the wake is decided by the first look",
                                        "a waiter does not set WAITERS",
                                        "WAITERS is cleared by who loses its CAS",
                                        "a waiter sleeps without a look",
                                        "epochs are not compared, nor fills handed back",
                                        "a record's new life has the old epoch",
                                        "declared dead without a probe",
                                        "declared dead by a store",
                                        "only the declarer takes over",
                                        "a client probes its own byte",
                                        "a free lock proves the death to a scan",
                                        "a free lock proves the death to a new client",
                                        "a record is reused before its fills are handed back",
                                        "a record is reused with its names",
                                        "a record is reused without its lock",
                                        "a record's word is not checked under its lock",
                                        "LIVE is written before the lock is had",
                                        "a lock is lost while a client registers",
                                        "who a client is, is written at last",
                                        "claimed before noted",
                                        "a copy is not checked",
                                        "a step is carved before it is reserved",
                                        "a filler does not check its extent's word",
                                        "a record is not looked at again after the proof"};
static_assert(std::size(kMutantNames) == static_cast<size_t>(Mutant::count));

}  // namespace

const char *name_of_mutant(Mutant mutant) { return kMutantNames[static_cast<size_t>(mutant)]; }
const char *name_of_pc(Pc pc) { return kPcNames[static_cast<size_t>(pc)]; }

Protocol::Protocol(const Scene &scene, Mutant mutant) : scene_(scene), mutant_(mutant) {
  if (scene_.records == 0) scene_.records = processes();
}

Pc Protocol::first_pc(int process, uint8_t task) const {
  switch (scene_.scripts[static_cast<size_t>(process)][task].op) {
    case Op::attach: return Pc::record_look;
    case Op::fill:
    case Op::fail: return Pc::look;
    case Op::read:
    case Op::hold: return Pc::view_look;
    case Op::copy: return Pc::copy_look;
    case Op::remove: return Pc::remove_look;
    case Op::leave: return Pc::leave_names;
  }
  return Pc::done;
}

World Protocol::first() const {
  World world;
  std::memset(&world, 0, sizeof world);
  for (int p = 0; p < processes(); ++p) {
    const size_t at = static_cast<size_t>(p);
    Process &process = world.process[at];
    process.slices = static_cast<uint8_t>(scene_.slices);
    process.pc = first_pc(p, 0);
    if (scene_.scripts[at][0].op == Op::attach || scene_.scripts[at][0].op == Op::copy) continue;
    process.record = static_cast<uint8_t>(p + 1);
    process.epoch = 1;
    world.client[at] = ClientWord(Life::live, 1).bits();
    world.record[at].pid = static_cast<uint8_t>(p);
    world.record[at].holder = static_cast<uint8_t>(p + 1);
  }
  for (int step = 0; step < scene_.carved; ++step) {
    world.step[static_cast<size_t>(step)] = world.reserved[static_cast<size_t>(step)] = 1;
  }
  for (const Stored &stored : scene_.stored) {
    const bool unverified = stored.content == Content::unverified || stored.content == Content::torn;
    const EntryWord word = EntryWord::ready(0, place_of_extent(stored.extent));
    world.entry[stored.index] = unverified ? word.as_unverified().bits() : word.bits();
    world.extent[stored.extent] = ExtentWord::owned(stored.index, 0).bits();
    world.bytes[stored.extent] = {tag_of(stored.index, 0), tag_of(stored.index, 0)};
    if (stored.content == Content::torn) world.bytes[stored.extent][1] = kTornByte;
    if (stored.content == Content::unsound) world.bytes[stored.extent] = {kUnsoundByte, kUnsoundByte};
    if (stored.content == Content::right || stored.content == Content::unverified) world.stored[stored.index] = 1;
  }
  world.faults_left = static_cast<uint8_t>(scene_.faults);
  return world;
}

int Protocol::choices(const World &world, int process) const {
  const Process &p = world.process[static_cast<size_t>(process)];
  if (p.fate == Fate::killed || p.pc == Pc::done) return 0;
  if (p.pc == Pc::asleep) return p.slices > 0;
  if (p.pc != Pc::find) return 1;
  int found = 0;
  for (int x = 0; x < extents(); ++x) found += is_candidate(world, p, x);
  for (int step = 0; step < scene_.steps; ++step) found += world.step[static_cast<size_t>(step)] == 0;
  return std::max(1, found);
}

void Protocol::step(World *world, int process, int choice) { Step(*this, *world, process).take(choice); }

// One that has ended can still be found dead by who wants its record or what it names.
bool Protocol::can_be_killed(const World &world, int process) const {
  const Process &p = world.process[static_cast<size_t>(process)];
  return world.faults_left > 0 && p.fate != Fate::killed && (p.pc != Pc::done || p.record != 0 || p.view != 0);
}

bool Protocol::can_lose_its_lock(const World &world, int process) const {
  const Process &p = world.process[static_cast<size_t>(process)];
  return world.faults_left > 0 && p.fate == Fate::running && (p.pc != Pc::done || p.view != 0);
}

void Protocol::lose_lock(World *world, int process) const {
  Process &p = world->process[static_cast<size_t>(process)];
  const bool kept = Step::is_lock_kept(p) && mutant_ != Mutant::lock_not_kept;
  for (size_t r = 0; r < kRecords; ++r) {
    if (world->record[r].holder == process + 1 && !(kept && p.other == r)) world->record[r].holder = 0;
  }
  p.fate = Fate::lost;
  --world->faults_left;
}

void Protocol::kill(World *world, int process) const {
  Process &p = world->process[static_cast<size_t>(process)];
  for (Record &record : world->record) {
    if (record.holder == process + 1) record.holder = 0;
  }
  --world->faults_left;
  const Process before = p;
  p = {};
  p.fate = Fate::killed;
  p.task = before.task;
  // Whoever was to wake others leaves them asleep until their slices are over.
  if (before.pc != Pc::wake) return;
  p.pc = Pc::wake;
  p.purpose = before.purpose;
  p.place = before.place;
}

bool Protocol::holds_lock(const World &world, ClientLife life) const {
  if (life.client >= static_cast<uint32_t>(scene_.records)) return false;
  const uint8_t holder = world.record[life.client].holder;
  if (holder == 0) return false;
  const Process &p = world.process[holder - 1u];
  return p.record == life.client + 1 && p.epoch == life.epoch;
}

void Protocol::check(const World &world) const {
  check_entries(world);
  check_extents(world);
}

void Protocol::check_entries(const World &world) const {
  for (int k = 0; k < scene_.entries; ++k) {
    const EntryWord word(world.entry[static_cast<size_t>(k)]);
    const uint8_t stored = world.stored[static_cast<size_t>(k)];
    if (stored != 0 && (word.state() != State::ready || word.generation() + 1 != stored)) {
      throw Violation{"a stored sample is gone, and nobody removed it"};
    }
    if (word.state() == State::ready) {
      const ExtentWord own = ExtentWord::owned(k, word.generation());
      const uint8_t place = extent_at(word.place());
      if (world.extent[place] != own.bits()) throw Violation{"an entry is READY over an extent that is not its own"};
      const uint8_t tag = tag_of(k, word.generation());
      if (stored != 0 && (world.bytes[place][0] != tag || world.bytes[place][1] != tag)) {
        throw Violation{"an entry is READY over bytes that are not its sample's"};
      }
      if (std::count(world.extent.begin(), world.extent.end(), own.bits()) > 1) {
        throw Violation{"an entry has two extents"};
      }
    }
    if (word.state() == State::writing && mutant_ != Mutant::neither_compared_nor_handed_back) {
      const ClientLife owner = word.owner();
      const ClientWord life(world.client[owner.client]);
      if (life.life() != Life::free && life.epoch() == owner.epoch && world.record[owner.client].note != k + 1) {
        throw Violation{"an entry is being filled, and its filler's record has no note of it"};
      }
    }
  }
}

// Whoever may touch an extent has it to himself; whoever looks at a sample sees its bytes.
void Protocol::check_extents(const World &world) const {
  std::array<uint8_t, kExtents> writers{}, readers{};
  for (int p = 0; p < processes(); ++p) {
    const Process &process = world.process[static_cast<size_t>(p)];
    if (process.fate == Fate::killed) continue;
    if (process.pc == Pc::write_first || process.pc == Pc::write_second) ++writers[process.place];
    if (process.view == 0) continue;
    ++readers[process.view - 1u];
    const auto &bytes = world.bytes[process.view - 1u];
    if (bytes[0] != process.view_tag || bytes[1] != process.view_tag) {
      throw Violation{"a view shows bytes that are not its sample's"};
    }
  }
  for (size_t x = 0; x < kExtents; ++x) {
    if (writers[x] > 1) throw Violation{"two fillers write to one extent"};
    if (writers[x] > 0 && readers[x] > 0) throw Violation{"an extent is written to while it is looked at"};
  }
}

// Where all have ended: by a view that is held, or by a name of one whose death is never proved.
bool Protocol::is_named_by_the_living(const World &world, int extent) const {
  for (int r = 0; r < scene_.records; ++r) {
    const Record &record = world.record[static_cast<size_t>(r)];
    const Process &process = world.process[record.pid];
    const bool names = record.name == extent + 1 ||
                       std::count(record.views.begin(), record.views.end(), extent + 1) > 0 || record.unnamed > 0;
    const bool holds = process.view == extent + 1 || (process.view != 0 && record.unnamed > 0);
    if (process.fate == Fate::killed ? names && !scene_.provable : holds) return true;
  }
  return false;
}

// Nobody can take a step by now, but those who sleep when their slices are over.
void Protocol::check_end(const World &world) {
  check_sleepers(world);
  for (int p = 0; p < processes(); ++p) {
    if (choices(world, p) > 0) return;
  }
  audit(world);
}

void Protocol::check_sleepers(const World &world) const {
  for (int p = 0; p < processes(); ++p) {
    const Process &sleeper = world.process[static_cast<size_t>(p)];
    if (sleeper.fate == Fate::killed || sleeper.pc != Pc::asleep) continue;
    const uint8_t index = task_of(world, p).index;
    const EntryWord word(world.entry[index]);
    // Its slice is what frees it from a filler that was killed, and from a waker that was.
    bool excused = word.state() == State::writing && !holds_lock(world, word.owner());
    for (int q = 0; q < processes(); ++q) {
      const Process &other = world.process[static_cast<size_t>(q)];
      if (other.fate != Fate::killed || other.pc != Pc::wake) continue;
      excused |= (other.purpose == Purpose::attaching ? other.place : task_of(world, q).index) == index;
    }
    if (!excused) throw Violation{"a wake-up is lost: a waiter sleeps, and nobody will wake it"};
  }
}

// Once all have ended, a client that has been there all the time fills every entry, and then new ones until nothing is
// left: every extent must be in use then, but for what somebody names who is not provably dead.
void Protocol::audit(const World &world) {
  Scene scene = scene_;
  Script script;
  scene.entries = std::min(kEntries, scene_.entries + extents());
  for (int k = 0; k < scene.entries; ++k) script.push_back({Op::fill, static_cast<uint8_t>(k)});
  scene.scripts.push_back(script);
  ++scene.records;
  Protocol protocol(scene, mutant_);
  World after = world;
  const int p = processes();
  Process &auditor = after.process[static_cast<size_t>(p)];
  auditor = protocol.first().process[static_cast<size_t>(p)];
  auditor.record = static_cast<uint8_t>(scene.records);
  auditor.epoch = 1;
  Record &record = after.record[static_cast<size_t>(scene_.records)];
  after.client[static_cast<size_t>(scene_.records)] = ClientWord(Life::live, 1).bits();
  record.pid = static_cast<uint8_t>(p);
  record.holder = static_cast<uint8_t>(p + 1);
  while (protocol.choices(after, p) > 0) protocol.step(&after, p, 0);
  protocol.check(after);
  if (auditor.pc == Pc::asleep) throw Violation{"a waiter sleeps where everybody else has ended"};
  for (int x = 0; x < extents(); ++x) {
    const ExtentWord word(after.extent[static_cast<size_t>(x)]);
    const EntryWord entry(word.never_owned() ? 0 : after.entry[static_cast<size_t>(word.index())]);
    const bool held = !word.never_owned() && is_in_use(word, entry) &&
                      (entry.state() == State::bad || (entry.state() == State::ready && extent_at(entry.place()) == x));
    if (!held && !is_named_by_the_living(after, x)) throw Violation{"an extent that nobody holds cannot be filled"};
  }
}

}  // namespace ddpcache::model
