// dc_cache_check finds every change of every word of a cache's file, and says where; but for those on the list below.
#include <array>
#include <cstdio>
#include <functional>
#include <map>

#include "cache_check_museum.hpp"
#include "record.hpp"

namespace ddpcache::test {
namespace {

// A word of the file, and what it is.
struct Field {
  std::string name;
  uint64_t offset;
  uint32_t bytes;
  int64_t number = 0;    // of the client, entry, class, step or key that it belongs to
  uint32_t slot = 0;     // within that
  bool sampled = false;  // one of very many: a few changes are tried, which differ from one to the next
};

struct Change {
  const Museum &museum;
  const Field &field;
  uint64_t before, after;

  const Segment &segment() const { return museum.segment(); }
  ClientWord client() const { return ClientWord(segment().client(static_cast<uint32_t>(field.number)).word.load()); }
  bool is_live_or_dead() const { return client().life() != Life::free; }
};

bool is_free(const Change &change, uint64_t bits) {
  const ExtentWord word(bits);
  if (bits == 0) return true;
  if (word != ExtentWord::owned(word.index(), word.generation()) || word.index() >= Museum::kLength) return false;
  const EntryWord entry(change.segment().entry(word.index()).load());
  const bool has_none = word.index() == Museum::kClaimed || word.index() == Museum::kOthersClaimed ||
                        word.index() == Museum::kOrphanClaimed;  // whatever is said to be theirs is free at their end
  const uint32_t behind = (entry.generation() - word.generation()) & kGenerationMask;
  return (behind > 0 && behind < (kGenerationMask + 1) / 2) || (behind == 0 && has_none);
}

// Whether an extent says that the entry was at this generation, or at a later one.
bool is_remembered(const Change &change, uint32_t generation) {
  const Layout &layout = change.segment().layout;
  for (uint32_t step = 0; step < layout.steps; ++step) {
    const uint64_t word = change.segment().step_word(step).load();
    for (uint32_t slot = 0; word != 0 && slot < layout.classes[word - 1].slots; ++slot) {
      const ExtentWord extent(change.segment().extent_word({step, slot}).load());
      if (!extent.never_owned() && extent.index() == change.field.number && extent.generation() >= generation)
        return true;
    }
  }
  return false;
}

bool is_existing_name(const Change &change, uint64_t bits) {
  Extent extent;
  return is_name(bits) && change.segment().find_extent(place_of(bits), &extent) &&
         change.segment().extent_word(extent.place).load() != 0;
}

bool names_fit_below(const Change &change, uint64_t mark, bool readers) {
  const Segment &segment = change.segment();
  const uint32_t number = static_cast<uint32_t>(change.field.number);
  const ClientRecord &record = segment.client(number);
  for (uint64_t i = mark; i < (readers ? kReaderNames : DC_FILLS_MAX); ++i) {
    if (readers ? segment.reader_name(number, static_cast<uint32_t>(i)).load() != 0
                : record.names[i].load() != 0 || record.fills[i].index_plus_one.load() != 0)
      return false;
  }
  return true;
}

bool key_is_found(const Change &change, bool is_tag) {
  const KeySlot &slot = change.segment().key_slot(change.field.number);
  const uint64_t tag = is_tag ? change.after : slot.tag.load(), rest = is_tag ? slot.rest.load() : change.after;
  if (rest == 0) return true;  // a key that is not finished, or none
  if (tag == 0) return false;
  int64_t found = -1;
  return change.segment().keys().lookup({tag, rest}, &found) == DC_OK && found == change.field.number;
}

bool is_claim_without_extent(const Change &change) {
  const int64_t index = change.field.number;
  return index == Museum::kClaimed || index == Museum::kOthersClaimed || index == Museum::kOrphanClaimed;
}

// What no rule can be about: the field, the changes of it, and why they do no harm or cannot be told from what clients
// do. The change is still in place where `may` is asked.
struct Benign {
  const char *field;
  const char *reason;
  std::function<bool(const Change &)> may;
};

bool any(const Change &) { return true; }

const std::vector<Benign> &benign() {
  static const std::vector<Benign> rows = {
      {"control.keep", "0 and 1 are both somebody's wish", [](const Change &c) { return c.after <= 1; }},
      {"control.clients_used", "more than were used: looks at records that name nothing",
       [](const Change &c) { return c.after > c.before && c.after <= Museum::kClients; }},
      {"control.next_step", "less than were taken: a look at steps that are",
       [](const Change &c) { return c.after < c.before; }},
      {"control.no_space_ns", "a time: growing rests for a second at most", any},
      {"control.disturbances", "a count, compared with marks of searches", any},
      {"control.keys", "fewer than there are: a kill may have cost counts",
       [](const Change &c) { return c.museum.exhibition().keyed && c.after < c.before; }},
      {"control.boot", "0: a kernel that does not tell, and then nothing believes it",
       [](const Change &c) { return c.after == 0; }},
      {"class.cursor", "another extent of the class's own steps: searches find what it passes over",
       [](const Change &c) {
         const uint64_t step = (c.after >> 32) - 1;
         return c.after == 0 || (step < c.segment().layout.steps &&
                                 c.segment().step_word(static_cast<uint32_t>(step)).load() ==
                                     static_cast<uint64_t>(c.field.number) + 1 &&
                                 static_cast<uint32_t>(c.after) <=
                                     c.segment().layout.classes[static_cast<size_t>(c.field.number)].slots);
       }},
      {"class.mark", "where searches go on, and which of them failed", any},
      {"class.freed_name", "a hint at an extent of the class, which is looked at before it is taken",
       [](const Change &c) {
         Extent extent;
         return c.after == 0 || (is_name(c.after) && c.segment().find_extent(place_of(c.after), &extent) &&
                                 extent.size_class == static_cast<uint32_t>(c.field.number));
       }},
      {"client.word", "free, and no record in use by a living client: whoever takes it begins another life",
       [](const Change &c) {
         const ClientWord before(c.before), after(c.after);
         return before.life() == Life::free && static_cast<uint64_t>(after.life()) <= 2 &&
                ClientWord(after.life(), after.epoch()) == after;
       }},
      {"client.word", "dead and not yet called so",
       [](const Change &c) {
         return ClientWord(c.before).life() == Life::dead &&
                c.after == ClientWord(Life::live, ClientWord(c.before).epoch()).bits();
       }},
      {"client.identity", "of a free record: whoever takes it writes his own",
       [](const Change &c) { return !c.is_live_or_dead(); }},
      {"client.note", "a fill that is about to be claimed, or has just ended",
       [](const Change &c) {
         const bool dead = c.client().life() == Life::dead;
         const uint32_t used = c.segment().client(static_cast<uint32_t>(c.field.number)).names_used.load();
         return c.is_live_or_dead() && c.before == 0 && c.after <= Museum::kLength && (dead || c.field.slot < used);
       }},
      {"client.since", "a time, for people", any},
      {"client.names_used", "a mark past all names: a look more, or raised again by the next",
       [](const Change &c) {
         return c.is_live_or_dead() && c.after <= DC_FILLS_MAX && names_fit_below(c, c.after, false);
       }},
      {"client.reader_names_used", "as names_used",
       [](const Change &c) {
         return c.museum.exhibition().droppable && c.is_live_or_dead() && c.after <= kReaderNames &&
                names_fit_below(c, c.after, true);
       }},
      {"client.name", "none: a fill that is about to name its extent, which its claim keeps",
       [](const Change &c) { return c.after == 0; }},
      {"client.reader_name", "what a reader looks at is known to itself only",
       [](const Change &c) {
         const uint32_t used = c.segment().client(static_cast<uint32_t>(c.field.number)).reader_names_used.load();
         return c.after == 0 || (c.field.slot < used && is_existing_name(c, c.after));
       }},
      {"client.counter", "statistics", any},
      {"entry", "empty, at a later generation",
       [](const Change &c) {
         const EntryWord before(c.before), after(c.after);
         return before.state() == State::empty && after == EntryWord::empty(after.generation()) &&
                ((after.generation() - before.generation()) & kGenerationMask) <= kGenerationMask / 2;
       }},
      {"entry", "empty, at an earlier generation than no extent remembers",
       [](const Change &c) {
         const EntryWord before(c.before), after(c.after);
         return before.state() == State::empty && after == EntryWord::empty(after.generation()) &&
                !is_remembered(c, after.generation());
       }},
      {"entry", "bad is what readers make of damage: counted as such",
       [](const Change &c) { return EntryWord(c.after).state() == State::bad && !EntryWord(c.before).has_waiters(); }},
      {"entry", "somebody waits, or nobody",
       [](const Change &c) {
         return EntryWord(c.before).state() == State::writing && (c.before ^ c.after) == EntryWord::kWaiters;
       }},
      {"entry",
       "a claim without an extent, at another generation or taken back: its filler is told that it has lost it",
       [](const Change &c) {
         const EntryWord before(c.before), after(c.after);
         const bool claims = after.state() == State::writing && before.owner() == after.owner();
         return is_claim_without_extent(c) && (claims || after == EntryWord::empty(after.generation()));
       }},
      {"entry", "removed",
       [](const Change &c) {
         return c.museum.exhibition().droppable && EntryWord(c.before).state() >= State::ready &&
                EntryWord(c.after) == EntryWord(c.before).next_empty();
       }},
      {"entry", "not verified, on a disk: its next reader does that",
       [](const Change &c) {
         return c.museum.exhibition().on_disk && EntryWord(c.before).as_unverified().bits() == c.after;
       }},
      {"extent", "free: who had it last means nothing",
       [](const Change &c) { return is_free(c, c.before) && is_free(c, c.after); }},
      {"extent", "of what was given up as bad",
       [](const Change &c) { return ExtentWord(c.before).index() == Museum::kBad && is_free(c, c.after); }},
      {"key.tag", "a key is its hash: another hash is another key",
       [](const Change &c) { return key_is_found(c, true); }},
      {"key.rest", "likewise", [](const Change &c) { return c.after != 0 && key_is_found(c, false); }},
      {"record.content", "without checksums nothing says what is in a sample, or how it is called",
       [](const Change &c) { return c.museum.exhibition().checksums == DC_CHECKSUMS_OFF; }},
      {"record.structure_bytes", "none: without checksums nothing says that there was a structure",
       [](const Change &c) { return c.museum.exhibition().checksums == DC_CHECKSUMS_OFF && c.after == 0; }},
      {"record.size", "another place for the end of an array in its last line, with another array behind it",
       [](const Change &c) {
         return c.museum.exhibition().checksums == DC_CHECKSUMS_OFF && (c.before + 63) / 64 == (c.after + 63) / 64;
       }},
      {"record.padding", "nobody reads it",
       [](const Change &c) { return c.museum.exhibition().checksums == DC_CHECKSUMS_OFF; }},
      {"record of no sample", "free space, and what was given up", any},
  };
  return rows;
}

class Words : public ::testing::TestWithParam<Exhibition> {
 protected:
  template <typename T>
  void add(const char *name, const T &word, int64_t number = 0, uint32_t slot = 0, bool sampled = false) {
    fields_.push_back({name, museum_.offset_of(&word), sizeof word, number, slot, sampled});
  }
  // Bytes that are all of one kind.
  void add_range(const char *name, uint64_t begin, uint64_t end, bool sampled, int64_t number = 0) {
    for (uint64_t at = begin; at < end; at += 8) {
      fields_.push_back({name, at, static_cast<uint32_t>(std::min<uint64_t>(8, end - at)), number, 0, sampled});
    }
  }

  void list_control();
  void list_clients();
  void list_client(uint32_t number);
  void list_words();
  void list_records();
  void list_record(int64_t index);

  uint64_t get(const Field &field) const {
    uint64_t value = 0;
    std::memcpy(&value, museum_.bytes() + field.offset, field.bytes);
    return value;
  }
  void set(const Field &field, uint64_t value) { std::memcpy(museum_.bytes() + field.offset, &value, field.bytes); }
  std::vector<uint64_t> changes_of(const Field &field, size_t at) const;
  // Once for each kind of field and each place in it.
  bool complain(const Field &field) { return complaints_.insert(field.name + std::to_string(field.number)).second; }
  void try_change(const Field &field, uint64_t after);
  void expect_found_by_newcomer(const Change &change, bool is_found);

  Museum museum_{GetParam()};
  const Segment &segment_ = museum_.segment();
  std::vector<Field> fields_;
  std::set<std::string> complaints_;
  std::map<const Benign *, int> let_by_;
  uint64_t tried_ = 0, found_ = 0, newcomers_ = 0;
};

void Words::list_control() {
  add_range("header", 0, sizeof(Header), false);
  add_range("unused", sizeof(Header), kPageBytes, true);
  const ControlLine &control = segment_.control();
  add("control.keep", control.keep);
  add("control.clients_used", control.clients_used);
  add("control.next_step", control.next_step);
  add("control.no_space_ns", control.no_space_ns);
  add("control.disturbances", control.disturbances);
  add("control.keys", control.keys);
  add("control.boot", control.boot);
  add("control.closure", control.closure);
  const uint64_t line = museum_.offset_of(&control);
  add_range("unused", museum_.offset_of(&control.next_step) + 4, museum_.offset_of(&control.no_space_ns), false);
  add_range("unused", museum_.offset_of(&control.closure) + 8, line + sizeof control, false);
  for (uint32_t c = 0; c < segment_.layout.classes.size(); ++c) {
    const ClassLine &own = segment_.class_line(c);
    const bool sampled = own.cursor.load() == 0;
    add("class.cursor", own.cursor, c, 0, sampled);
    for (const Word *mark :
         {&own.searched_words, &own.freed, &own.round_start, &own.round_events, &own.round_words, &own.failed_freed}) {
      add("class.mark", *mark, c, 0, true);
    }
    add("class.freed_name", own.freed_name, c, 0, sampled);
  }
  const uint32_t classes = static_cast<uint32_t>(segment_.layout.classes.size());
  add_range("unused", museum_.offset_of(&segment_.class_line(classes)), segment_.layout.clients_offset, true);
}

void Words::list_clients() {
  for (uint32_t number = 0; number < Museum::kClients; ++number) {
    if (number < segment_.control().clients_used.load()) {
      list_client(number);
    } else {
      const uint64_t begin = museum_.offset_of(&segment_.client(number));
      add_range("unused", begin, begin + sizeof(ClientRecord), true);
    }
    for (uint32_t i = 0; segment_.droppable() && i < kReaderNames; ++i) {
      add("client.reader_name", segment_.reader_name(number, i), number, i, i >= 4);
    }
  }
}

void Words::list_client(uint32_t number) {
  const ClientRecord &record = segment_.client(number);
  add("client.word", record.word, number);
  for (const auto *word : {&record.start_time, &record.pid_namespace, &record.time_namespace}) {
    add("client.identity", *word, number);
  }
  add("client.identity", record.pid, number);
  add("client.identity", record.identity_sum, number);
  add("client.names_used", record.names_used, number);
  add("client.reader_names_used", record.reader_names_used, number);
  add("client.unnamed_readers", record.unnamed_readers, number);
  for (uint32_t i = 0; i < DC_FILLS_MAX; ++i) {
    add("client.note", record.fills[i].index_plus_one, number, i, i >= 3);
    add("client.since", record.fills[i].since_ns, number, i, true);
    add("client.name", record.names[i], number, i, i >= 3);
  }
  add_range("unused", museum_.offset_of(&record.identity_sum) + 8, museum_.offset_of(&record.stats), false);
  for (const StatsLine &line : record.stats) {
    for (size_t c = 0; c < line.counters.size(); ++c) {
      add(c < static_cast<size_t>(Counter::count) ? "client.counter" : "unused", line.counters[c], number, 0, true);
    }
  }
}

void Words::list_words() {
  const Layout &layout = segment_.layout;
  for (int64_t index = 0; index < Museum::kLength; ++index) {
    add("entry", segment_.entry(index), index);
    if (!segment_.keyed()) continue;
    add("key.tag", segment_.key_slot(index).tag, index);
    add("key.rest", segment_.key_slot(index).rest, index);
  }
  add_range("unused", layout.entries_offset + Museum::kLength * sizeof(Word), layout.keys_offset, false);
  for (uint32_t step = 0; step < layout.steps; ++step) {
    add("step", segment_.step_word(step), step);
    const uint64_t word = segment_.step_word(step).load();
    if (word == 0) continue;
    const SizeClass &own = layout.classes[word - 1];
    for (uint32_t slot = 0; slot < own.slots; ++slot) {
      const Word &extent = segment_.extent_word({step, slot});
      add("extent", extent, step, slot, slot > 2 && extent.load() == 0);
    }
    add_range("unused", segment_.step_offset(step) + own.slots * sizeof(Word),
              segment_.step_offset(step) + own.first_offset, false);
  }
  add_range("unused", layout.steps_offset + layout.steps * sizeof(Word), layout.arena_offset, true);
}

void Words::list_records() {
  for (int64_t index = 0; index < Museum::kLength; ++index) {
    if (EntryWord(segment_.entry(index).load()).state() == State::ready) list_record(index);
  }
  Extent extent;
  ASSERT_TRUE(segment_.find_extent(EntryWord(segment_.entry(Museum::kBad).load()).place(), &extent));
  const uint64_t begin = museum_.offset_of(segment_.writable(extent));
  add_range("record of no sample", begin + 8, begin + segment_.extent_bytes(extent), true);
}

void Words::list_record(int64_t index) {
  Extent extent;
  ASSERT_TRUE(segment_.find_extent(EntryWord(segment_.entry(index).load()).place(), &extent));
  const uint8_t *record = segment_.writable(extent);
  const RecordHead &head = *reinterpret_cast<const RecordHead *>(record);
  const uint64_t begin = museum_.offset_of(record);
  const bool sampled = index > 2 && head.array_count == 1;
  const auto part = [&](const char *name, uint64_t at, uint64_t bytes) {
    fields_.push_back({name, begin + at, static_cast<uint32_t>(bytes), index, 0, false});
  };
  part("record", 0, 4);
  part("record", 4, 2);
  part("record.structure_bytes", 6, 2);
  part("record", 8, 8);
  part("record", 16, 8);
  uint64_t at = sizeof head;
  for (uint32_t i = 0; i < head.array_count; ++i) {
    const ArrayHead &array = *reinterpret_cast<const ArrayHead *>(record + at);
    part("record.content", at, 1);  // the code of the type
    for (uint32_t byte : {1, 4, 5}) part("record", at + byte, 1);
    part("record", at + 2, 2);
    part("record", at + 6, 2);
    at += sizeof array;
    const char *size = i + 1 < head.array_count ? "record.size" : "record";
    for (uint32_t d = 0; d < array.dimensions; ++d) part(size, at + 8 * d, 8);
    at += 8 * array.dimensions;
    const uint64_t name = (array.name_bytes + 7u) / 8 * 8;
    for (uint64_t byte = 0; byte < name; ++byte) part("record.content", at + byte, 1);
    at += name;
  }
  for (uint32_t byte = 0; byte < head.structure_bytes; ++byte) part("record.content", at++, 1);
  if (head.structure_bytes > 0) part("record", at++, 1);
  for (; at % 8 != 0; ++at) part("record.padding", at, 1);
  const uint64_t tried_fully = std::min<uint64_t>(at + 256, head.record_bytes);
  add_range("record.content", begin + at, begin + tried_fully, sampled, index);
  add_range("record.content", begin + tried_fully, begin + head.record_bytes, true, index);
  add_range("record of no sample", begin + head.record_bytes, begin + segment_.extent_bytes(extent), true);
}

std::vector<uint64_t> Words::changes_of(const Field &field, size_t at) const {
  const uint64_t before = get(field), all = field.bytes == 8 ? UINT64_MAX : (uint64_t{1} << 8 * field.bytes) - 1;
  std::vector<uint64_t> values;
  if (field.sampled) {
    values = {before ^ uint64_t{1} << at % (8 * field.bytes), at % 16 ? before : all};
  } else {
    for (uint32_t bit = 0; bit < 8 * field.bytes; ++bit) values.push_back(before ^ uint64_t{1} << bit);
    values.insert(values.end(), {0, all, before + 1, before - 1});
    for (const size_t neighbour : {at - 1, at + 1}) {
      if (neighbour < fields_.size() && fields_[neighbour].bytes == field.bytes)
        values.push_back(get(fields_[neighbour]));
    }
  }
  std::erase_if(values, [&](uint64_t &value) { return (value &= all) == before; });
  return values;
}

void Words::try_change(const Field &field, uint64_t after) {
  const uint64_t before = get(field);
  const Change change = {museum_, field, before, after};
  set(field, after);
  const Benign *row = nullptr;
  for (const Benign &candidate : benign()) {
    if (!row && field.name == candidate.field && candidate.may(change)) row = &candidate;
  }
  const Finding finding = check_of(museum_.cache());
  ++tried_;
  if (finding.status == DC_ERROR_DAMAGED) {
    ++found_;
    EXPECT_TRUE(finding.names(field.offset) || !complain(field))
        << field.name << " of " << field.number << ", slot " << field.slot << ", byte " << field.offset << ": "
        << std::hex << before << " to " << after << std::dec << " is said to be elsewhere: " << finding.text;
  } else if (row) {
    ++let_by_[row];
  }
  EXPECT_TRUE(finding.status == DC_ERROR_DAMAGED || row || !complain(field))
      << field.name << " of " << field.number << ", slot " << field.slot << ", byte " << field.offset << ": "
      << std::hex << before << " to " << after << " is not found";
  if (tried_ % 53 == 0) expect_found_by_newcomer(change, finding.status == DC_ERROR_DAMAGED);
  museum_.restore(field.offset, field.bytes);
}

// By a process that comes to the damaged file, as `ddpcache check` does.
void Words::expect_found_by_newcomer(const Change &change, bool is_found) {
  museum_.restore(change.field.offset, change.field.bytes);
  set(change.field, change.after);
  dc_cache *cache = nullptr;
  const int32_t status =
      dc_cache_attach_read_only(museum_.name().c_str(), museum_.name().directory(), kSecond, &cache, nullptr);
  ++newcomers_;
  if (status != DC_OK) {
    EXPECT_EQ(change.field.name, "header") << dc_strerror(status);
    return;
  }
  EXPECT_EQ(check_of(cache).status == DC_ERROR_DAMAGED, is_found) << change.field.name << " at " << change.field.offset;
  EXPECT_EQ(dc_cache_close(cache), DC_OK);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Words, ::testing::ValuesIn(kExhibitions), name_of_exhibition);

TEST_P(Words, AreAllLookedAt) {
  list_control();
  list_clients();
  list_words();
  list_records();
  for (size_t at = 0; at < fields_.size(); ++at) {
    for (const uint64_t after : changes_of(fields_[at], at)) try_change(fields_[at], after);
  }
  const Finding sound = check_of(museum_.cache());
  EXPECT_EQ(sound.status, DC_OK) << "all is as it was: " << sound.text;
  std::printf("%zu words, %llu changes, %llu found, %llu tried by a newcomer too\n", fields_.size(),
              static_cast<unsigned long long>(tried_), static_cast<unsigned long long>(found_),
              static_cast<unsigned long long>(newcomers_));
  for (const auto &[row, times] : let_by_) std::printf("  %6d %-24s %s\n", times, row->field, row->reason);
}

}  // namespace
}  // namespace ddpcache::test
