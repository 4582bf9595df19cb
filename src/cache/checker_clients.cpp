// What lies before the entries: the header, the control lines and the clients' records.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "checker.hpp"
#include "trust.hpp"

namespace ddpcache {
namespace {

using ull = unsigned long long;

}  // namespace

// It never changes, so it is what it was when this process came.
void Checker::check_header() {
  const auto *stored = reinterpret_cast<const uint8_t *>(&segment_.stored_header());
  const auto *known = reinterpret_cast<const uint8_t *>(&segment_.header);
  const auto [at_stored, at_known] = std::mismatch(stored, stored + sizeof(Header), known);
  if (at_stored != stored + sizeof(Header)) {
    violation(&report_->damaged_header, "the header has %02x at byte %llu, and had %02x when this process attached",
              *at_stored, static_cast<ull>(at_stored - stored), *at_known);
  }
  check_unused(&report_->damaged_header, "behind the header", sizeof(Header), segment_.layout.control_offset);
}

bool Checker::is_zero(uint64_t begin, uint64_t end, uint64_t *first) const {
  const uint8_t *bytes = segment_.words();
  *first = static_cast<uint64_t>(find_nonzero_racing(bytes + begin, bytes + end) - bytes);
  return *first == end;
}

void Checker::check_unused(uint64_t *count, const char *what, uint64_t begin, uint64_t end) {
  uint64_t first = 0;
  if (is_zero(begin, end, &first)) return;
  violation(count, "there is nothing %s, and byte %llu is %02x, not 0", what, static_cast<ull>(first),
            segment_.words()[first]);
}

void Checker::check_control() {
  const ControlLine &control = segment_.control();
  const Layout &layout = segment_.layout;
  uint64_t *count = &report_->damaged_control;
  if (const uint32_t keep = value_of(control.keep); keep > 1) {
    violation(count, "whether the cache is kept (byte %llu) is %u, not 0 or 1", at(control.keep), keep);
  }
  const uint32_t clients = value_of(control.clients_used), clients_max = segment_.header.geometry.clients_max;
  if (clients > clients_max) {
    violation(count, "%u client records were used (byte %llu), of %u", clients, at(control.clients_used), clients_max);
  }
  // A step that others take meanwhile is taken before this is raised past it.
  const uint32_t next = control.next_step.load(std::memory_order_acquire);
  uint32_t taken = 0;
  while (taken < std::min(next, layout.steps) && value_of(segment_.step_word(taken)) != 0) ++taken;
  if (next > layout.steps) {
    violation(count, "the next step to take (byte %llu) is %u, of %u", at(control.next_step), next, layout.steps);
  } else if (taken < next) {
    violation(count, "the next step to take (byte %llu) is %u, and step %u (byte %llu) is not taken",
              at(control.next_step), next, taken, at(segment_.step_word(taken)));
  }
  if (!segment_.keyed() && value_of(control.keys) != 0) {
    violation(count, "%llu keys are counted (byte %llu) in a cache without keys",
              static_cast<ull>(value_of(control.keys)), at(control.keys));
  }
  if (!boot_is_possible(segment_)) {
    violation(count, "the boot that has the file open (byte %llu) is %016llx, which is not this one", at(control.boot),
              static_cast<ull>(value_of(control.boot)));
  }
  if (!closure_is_possible(segment_)) {
    violation(count, "whether the file is closed (byte %llu) is %016llx, which is no state of that",
              at(control.closure), static_cast<ull>(value_of(control.closure)));
  }
  const uint32_t classes = static_cast<uint32_t>(layout.classes.size());
  for (uint32_t size_class = 0; size_class < classes; ++size_class) check_class(size_class);
  const uint64_t line = byte_of(control), next_end = byte_of(control.next_step) + sizeof control.next_step;
  check_unused(count, "in the control line", next_end, byte_of(control.no_space_ns));
  check_unused(count, "in the control line", byte_of(control.closure) + sizeof control.closure, line + sizeof control);
  check_unused(count, "behind the size classes", byte_of(segment_.class_line(classes)), layout.clients_offset);
  check_unused(count, "behind the entries", layout.entries_offset + segment_.header.geometry.length * sizeof(Word),
               layout.keys_offset);
  const uint64_t keys = segment_.keyed() ? static_cast<uint64_t>(segment_.header.geometry.length) : 0;
  check_unused(count, "behind the keys", layout.keys_offset + keys * sizeof(KeySlot), layout.steps_offset);
  check_unused(count, "behind the steps' words", layout.steps_offset + layout.steps * sizeof(Word),
               layout.arena_offset);
}

// Only what would lead a search astray: a mark that is merely wrong costs a look more, or an early DC_FULL.
void Checker::check_class(uint32_t size_class) {
  const ClassLine &line = segment_.class_line(size_class);
  const uint64_t cursor = line.cursor.load(std::memory_order_acquire);  // EDGE step
  const uint64_t step = (cursor >> 32) - 1;
  const uint32_t slot = static_cast<uint32_t>(cursor), slots = segment_.layout.classes[size_class].slots;
  if (cursor != 0 && (step >= segment_.layout.steps || slot > slots ||
                      value_of(segment_.step_word(static_cast<uint32_t>(step))) != size_class + 1)) {
    violation(
        &report_->damaged_control,
        "the cursor of size class %u (byte %llu) is at extent %u of step %lld (byte %llu), and steps of this class "
        "have %u",
        size_class, at(line.cursor), slot, static_cast<long long>(step),
        at(segment_.step_word(static_cast<uint32_t>(std::min<uint64_t>(step, segment_.layout.steps)))), slots);
  }
  const uint64_t freed = line.freed_name.load(std::memory_order_acquire);  // EDGE step
  Extent extent;
  if (freed != 0 &&
      (!is_name(freed) || !segment_.find_extent(place_of(freed), &extent) || extent.size_class != size_class)) {
    violation(&report_->damaged_control,
              "what size class %u was given back last (byte %llu, word %016llx) is none of its "
              "extents",
              size_class, at(line.freed_name), static_cast<ull>(freed));
  }
}

void Checker::check_clients() {
  const uint32_t clients_max = segment_.header.geometry.clients_max;
  const uint32_t used = std::min(value_of(segment_.control().clients_used), clients_max);
  for (uint32_t number = 0; number < used; ++number) check_client(number);
  for (uint32_t number = used; number < clients_max; ++number) check_unused_client(number);
  std::sort(names_.begin(), names_.end());
}

void Checker::check_unused_client(uint32_t number) {
  const ClientRecord &record = segment_.client(number);
  uint64_t first = 0, names = byte_of(record);
  bool unused = is_zero(names, names + sizeof record, &first);
  if (unused && segment_.droppable()) {
    names = byte_of(segment_.reader_name(number, 0));
    unused = is_zero(names, names + kReaderNames * sizeof(Word), &first);
  }
  if (unused) return;
  // Whoever comes raises the mark first.
  const Atomic<uint32_t> &mark = segment_.control().clients_used;
  atomic_fence(std::memory_order_acquire);
  if (number < value_of(mark)) return;
  violation(&report_->damaged_clients, "client %u was never used (%u were, byte %llu), and byte %llu is %02x, not 0",
            number, value_of(mark), at(mark), static_cast<ull>(first), segment_.words()[first]);
}

void Checker::check_client(uint32_t number) {
  const ClientRecord &record = segment_.client(number);
  // Before the look that calls a client dead, which makes a word of a state from one of none.
  const ClientWord found(value_of(record.word));
  if (static_cast<uint64_t>(found.life()) > 2 || ClientWord(found.life(), found.epoch()) != found) {
    violation(&report_->damaged_clients, "client %u is in no state (byte %llu, word %016llx)", number, at(record.word),
              static_cast<ull>(found.bits()));
  }
  const ClientWord word = clients_.look_at(number);
  report_->clients += word.life() != Life::free;
  report_->clients_dead += word.life() == Life::dead;
  check_life(number, word);
  check_marks(number, word);
  for (uint32_t slot = 0; slot < DC_FILLS_MAX; ++slot) check_fill(number, word, slot);
  check_reader_names(number, word);
  uint64_t *count = &report_->damaged_clients;
  check_unused(count, "behind a client's names", byte_of(record.identity_sum) + sizeof(Word), byte_of(record.stats));
  for (const StatsLine &line : record.stats) {
    const uint64_t begin = byte_of(line.counters[static_cast<size_t>(Counter::count)]);
    check_unused(count, "behind a client's counters", begin, byte_of(line) + sizeof line);
  }
}

// Who is in the record, and that whoever holds its lock is not called dead.
void Checker::check_life(uint32_t number, ClientWord word) {
  const ClientRecord &record = segment_.client(number);
  uint64_t *count = &report_->damaged_clients;
  const ProcessIdentity process = identity_of(record);
  const uint64_t expected = sum_of_identity(process, number), actual = value_of(record.identity_sum);
  if (word.life() != Life::free && actual != expected && is_still(number, word)) {
    violation(
        count,
        "client %u is process %d, begun at %llu, in the namespaces %llu and %llu (bytes %llu to %llu), and the sum of "
        "that (byte %llu) is %016llx, not %016llx",
        number, process.pid, static_cast<ull>(process.start_time), static_cast<ull>(process.pid_namespace),
        static_cast<ull>(process.time_namespace), at(record.start_time), at(record.names_used) - 1,
        at(record.identity_sum), static_cast<ull>(actual), static_cast<ull>(expected));
  }
  if (clients_.record() == &record) {
    const ClientWord right(Life::live, clients_.life().epoch);
    if (word != right && clients_.checked_fd() >= 0) {
      violation(count, "client %u (byte %llu, word %llx) is this process, whose word is %llx", number, at(record.word),
                static_cast<ull>(word.bits()), static_cast<ull>(right.bits()));
    }
  } else if (word.life() == Life::dead && clients_.is_locked(number) && life_proved(process) &&
             is_still(number, word)) {
    violation(count, "client %u (byte %llu, word %llx) is called dead, and its process %d lives and holds its lock",
              number, at(record.word), static_cast<ull>(word.bits()), process.pid);
  }
}

void Checker::check_marks(uint32_t number, ClientWord word) {
  const ClientRecord &record = segment_.client(number);
  uint64_t *count = &report_->damaged_clients;
  const uint32_t fills = value_of(record.names_used), readers_most = segment_.droppable() ? kReaderNames : 0;
  // In this order: the last name's mark comes before the first count. One who leaves takes the marks back before its
  // word, and the count is 0 by then.
  const uint32_t unnamed = record.unnamed_readers.load(std::memory_order_acquire);
  const uint32_t readers = value_of(record.reader_names_used);
  const bool is_same = is_still(record.unnamed_readers, unnamed);
  if (!is_still(number, word)) return;
  const bool free = word.life() == Life::free;
  if (fills > (free ? 0 : DC_FILLS_MAX)) {
    violation(count, "client %u, whose word is %llx, has used %u names of fills (byte %llu)", number,
              static_cast<ull>(word.bits()), fills, at(record.names_used));
  }
  if (readers > (free ? 0 : readers_most)) {
    violation(count, "client %u, whose word is %llx, has used %u names of readers (byte %llu)", number,
              static_cast<ull>(word.bits()), readers, at(record.reader_names_used));
  }
  if (unnamed > 0 && is_same && (free || readers < kReaderNames)) {
    violation(count, "client %u has %u readers without a name (byte %llu), and %u names of readers (byte %llu)", number,
              unnamed, at(record.unnamed_readers), readers, at(record.reader_names_used));
  }
}

void Checker::check_fill(uint32_t number, ClientWord word, uint32_t slot) {
  const ClientRecord &record = segment_.client(number);
  const FillNote &note = record.fills[slot];
  uint64_t *count = &report_->damaged_clients;
  const uint64_t noted = note.index_plus_one.load(std::memory_order_acquire);  // EDGE note: and its mark
  if (noted > static_cast<uint64_t>(segment_.header.geometry.length)) {
    violation(count, "client %u notes the fill of index %llu (byte %llu), of %lld", number, static_cast<ull>(noted - 1),
              at(note.index_plus_one), static_cast<long long>(segment_.header.geometry.length));
  }
  // The mark goes back while its client leaves, whose fills are over by then.
  const bool past = word.life() == Life::live && slot >= value_of(record.names_used);
  const bool is_there = is_still(note.index_plus_one, noted);
  if (noted != 0 && is_there && (past || word.life() == Life::free) && is_still(number, word)) {
    violation(count,
              "client %u, whose word is %llx, notes the fill of index %llu (byte %llu) past the %u that it has used "
              "(byte %llu)",
              number, static_cast<ull>(word.bits()), static_cast<ull>(noted - 1), at(note.index_plus_one),
              value_of(record.names_used), at(record.names_used));
  }
  const uint64_t name = record.names[slot].load(std::memory_order_acquire);  // EDGE owner
  if (name != 0) check_fill_name(number, word, slot, name);
}

void Checker::check_fill_name(uint32_t number, ClientWord word, uint32_t slot, uint64_t name) {
  const ClientRecord &record = segment_.client(number);
  const Word &shared = record.names[slot];
  const FillNote &note = record.fills[slot];
  check_name(number, shared, name);
  names_.push_back(name);
  // A name that is there before and after, in one fill, was there all the time: this tells fills apart.
  const int64_t since = value_of(note.since_ns);
  const uint64_t noted = value_of(note.index_plus_one);
  const uint32_t used = value_of(record.names_used);
  uint64_t *count = &report_->damaged_clients;
  const auto same_fill = [&] {
    return is_still(shared, name) && is_still(note.index_plus_one, noted) && is_still(note.since_ns, since) &&
           is_still(number, word);
  };
  if ((noted == 0 || slot >= used || word.life() == Life::free) && same_fill()) {
    violation(count,
              "client %u, whose word is %llx, names extent %u of step %u in its fill %u (byte %llu), and has no such "
              "fill (byte %llu; %u are used, byte %llu)",
              number, static_cast<ull>(word.bits()), place_of(name).slot, place_of(name).step, slot, at(shared),
              at(note.index_plus_one), used, at(record.names_used));
    return;
  }
  Extent extent;
  const int64_t index = static_cast<int64_t>(noted - 1);
  if (!segment_.valid_index(index) || !segment_.find_extent(place_of(name), &extent) || !may_touch(extent.place.step)) {
    return;
  }
  const Word &owner = segment_.extent_word(place_of(name)), &entry_word = segment_.entry(index);
  const ExtentWord owned(value_of(owner));
  const EntryWord entry(value_of(entry_word));
  const bool claims = entry.state() == State::writing && entry.owner() == ClientLife{number, word.epoch()};
  // What a dead client's fill named is others' once its claim has been taken over.
  if (!claims && word.life() != Life::live) return;
  const bool right = owned.index() == index && (!claims || owned.generation() == entry.generation());
  // The extent's word too: where one fill has followed another, it may be the first that had owned it.
  if (right || !same_fill() || !is_still(entry_word, entry.bits()) || !is_still(owner, owned.bits())) return;
  violation(
      count,
      "client %u fills index %lld (bytes %llu and %llu, word %016llx) and names extent %u of step %u for it (byte "
      "%llu), whose word (byte %llu) is %016llx",
      number, static_cast<long long>(index), at(note.index_plus_one), at(entry_word), static_cast<ull>(entry.bits()),
      extent.place.slot, extent.place.step, at(shared), at(owner), static_cast<ull>(owned.bits()));
}

void Checker::check_reader_names(uint32_t number, ClientWord word) {
  const ClientRecord &record = segment_.client(number);
  for (uint32_t i = 0; segment_.droppable() && i < kReaderNames; ++i) {
    const Word &shared = segment_.reader_name(number, i);
    const uint64_t name = shared.load(std::memory_order_acquire);  // EDGE step, EDGE owner, and its mark
    if (name == 0) continue;
    names_.push_back(name);
    check_name(number, shared, name);
    // Raised before the name, and taken back after it.
    const uint32_t used = value_of(record.reader_names_used);
    if ((i >= used || word.life() == Life::free) && is_still(shared, name) && is_still(number, word)) {
      violation(
          &report_->damaged_clients,
          "client %u, whose word is %llx, has reader's name %u (byte %llu), past the %u that it has used (byte %llu)",
          number, static_cast<ull>(word.bits()), i, at(shared), used, at(record.reader_names_used));
    }
  }
}

void Checker::check_name(uint32_t number, const Word &word, uint64_t name) {
  const Place place = place_of(name);
  Extent extent;
  if (!is_name(name) || place.step >= segment_.layout.steps) {
    violation(&report_->damaged_clients, "client %u has a name (byte %llu) that is none: %016llx", number, at(word),
              static_cast<ull>(name));
  } else if (!segment_.find_extent(place, &extent) || !may_touch(place.step)) {
    violation(&report_->damaged_clients,
              "client %u names extent %u (byte %llu) of step %u (byte %llu), which has class %lld", number, place.slot,
              at(word), place.step, at(segment_.step_word(place.step)),
              static_cast<long long>(value_of(segment_.step_word(place.step)) - 1));
  } else if (value_of(segment_.extent_word(place)) == 0 && is_still(word, name)) {
    // What is named was owned before, and nothing becomes 0 again.
    violation(&report_->damaged_clients,
              "client %u names extent %u of step %u (byte %llu), which was never owned (byte %llu)", number, place.slot,
              place.step, at(word), at(segment_.extent_word(place)));
  }
}

}  // namespace ddpcache
