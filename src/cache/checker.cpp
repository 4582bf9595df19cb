#include "checker.hpp"

#include <algorithm>
#include <cstdio>

#include "record.hpp"
#include "space.hpp"

namespace ddpcache {
namespace {

using ull = unsigned long long;
using ll = long long;

[[gnu::format(printf, 1, 2)]] std::string text_of(const char *format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

// How many generations `later` is ahead of `earlier`, within half of all; else 0.
uint32_t ahead(uint32_t later, uint32_t earlier) {
  const uint32_t distance = (later - earlier) & kGenerationMask;
  return distance <= (kGenerationMask + 1) / 2 ? distance : 0;
}

}  // namespace

Status Checker::run() {
  check_header();
  check_control();
  check_reservation();
  check_clients();
  for (uint32_t step = 0; step < segment_.layout.steps; ++step) check_step(step);
  for (int64_t index = 0; index < segment_.header.geometry.length; ++index) check_entry(index);
  if (segment_.keyed()) check_keys();
  if (report_->violations == 0) return {};
  return {DC_ERROR_DAMAGED,
          report_->violations == 1 ? text_ : std::to_string(report_->violations) + " things are wrong: " + text_};
}

void Checker::violation(uint64_t *count, const char *format, ...) {
  char text[384];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  ++*count;
  ++report_->violations;
  if (text_.size() < sizeof dc_error::message) text_ += (text_.empty() ? "" : "; ") + std::string(text);
}

// What is reserved for the steps that are taken. In memory one is taken behind one that is not only while they are
// counted.
Checker::Reservation Checker::look_at_reservation() const {
  const Layout &layout = segment_.layout;
  Reservation seen;
  for (uint32_t step = 0; step < layout.steps; ++step) {
    const bool taken = value_of(segment_.step_word(step)) != 0;
    if (!taken && segment_.medium != Medium::disk) break;
    seen.claimed += taken;
  }
  seen.there = seen.claimed;
  atomic_fence(std::memory_order_acquire);  // EDGE step: what is taken is reserved, as the kernel says from here on
  if (segment_.header.geometry.page_bytes == kPageBytes) seen.file_bytes = reserved_bytes(clients_.checked_fd());
  if (seen.file_bytes == 0) return seen;
  seen.claimed_bytes = layout.arena_offset + seen.claimed * layout.step_bytes;
  const uint64_t arena = seen.file_bytes - std::min(seen.file_bytes, layout.arena_offset);
  seen.there = static_cast<uint32_t>(std::min<uint64_t>(seen.claimed, arena / layout.step_bytes));
  return seen;
}

// Steps are given out in order, so those too many are the last.
void Checker::check_reservation() {
  const Reservation seen = look_at_reservation();
  steps_there_ =
      segment_.medium == Medium::disk ? segment_.layout.steps : seen.there;  // a disk's hole is read as zeros
  uint32_t missing = seen.claimed - seen.there;
  for (uint32_t step = segment_.layout.steps; step-- > 0 && missing > 0;) {
    const Word &word = segment_.step_word(step);
    if (value_of(word) == 0 || (segment_.medium != Medium::disk && step >= seen.claimed)) continue;
    --missing;
    violation(
        &report_->damaged_steps,
        "step %u (byte %llu, word %llx) is said to be reserved, and with it the file would have %llu bytes, not %llu",
        step, at(word), static_cast<ull>(value_of(word)), static_cast<ull>(seen.claimed_bytes),
        static_cast<ull>(seen.file_bytes));
  }
}

// A step that is only said to be reserved may be a hole in the file, and reading that takes memory which may not be
// there.
bool Checker::may_touch(uint32_t step) {
  if (step >= steps_there_) steps_there_ = look_at_reservation().there;  // others have taken some since
  const uint64_t word = value_of(segment_.step_word(step));              // what is there was acquired by the look at it
  return step < steps_there_ && word != 0 && word <= segment_.layout.classes.size();
}

bool Checker::is_noted(ClientLife owner, int64_t index) const {
  const auto &fills = segment_.client(owner.client).fills;
  return std::any_of(fills.begin(), fills.end(), [&](const FillNote &note) {
    return value_of(note.index_plus_one) == static_cast<uint64_t>(index) + 1;
  });
}

void Checker::check_entry(int64_t index) {
  const Word &shared = segment_.entry(index);
  const EntryWord word(shared.load(std::memory_order_acquire));
  std::string fault;
  uint64_t *count = &report_->damaged_entries;
  switch (word.state()) {
    case State::empty:
      if (word != EntryWord::empty(word.generation())) fault = "is empty, and has more than a generation";
      break;
    case State::writing: fault = fault_of_writing(index, word); break;
    case State::ready: {
      ++report_->entries_ready;
      report_->entries_unverified += word.is_unverified();
      fault = fault_of_ready(index, word);
      if (fault.rfind("leads to a record", 0) == 0) count = &report_->damaged_records;
      break;
    }
    case State::bad: {
      ++report_->entries_bad;
      Extent extent;
      if (fault_of_place(index, word, &extent).empty() && fault_of_record(index, extent).empty()) {
        fault = "was given up, though its record is sound";
      }
      break;
    }
  }
  if (!fault.empty() && is_still(shared, word.bits())) {
    violation(count, "entry %lld (byte %llu, word %016llx) %s", static_cast<ll>(index), at(shared),
              static_cast<ull>(word.bits()), fault.c_str());
  }
}

std::string Checker::fault_of_writing(int64_t index, EntryWord word) {
  const ClientLife owner = word.owner();
  if (owner.client >= segment_.header.geometry.clients_max) {
    ++report_->entries_orphaned;
    return text_of("is being filled by client %u, of %u", owner.client, segment_.header.geometry.clients_max);
  }
  ++(clients_.is_gone(owner) ? report_->entries_orphaned : report_->entries_writing);
  const ClientRecord &record = segment_.client(owner.client);
  const ClientWord client(value_of(record.word));
  const bool in_this_life = client.epoch() == owner.epoch && client.life() != Life::free;
  if (in_this_life && is_noted(owner, index)) return {};
  if (!is_still(record.word, client.bits())) return {};  // it has begun another life meanwhile
  if (!in_this_life) {
    return text_of("is being filled by life %u of client %u, whose record is not in that (byte %llu, word %llx)",
                   owner.epoch, owner.client, at(record.word), static_cast<ull>(client.bits()));
  }
  return text_of("is being filled by life %u of client %u, which has no note of it (bytes %llu to %llu)", owner.epoch,
                 owner.client, at(record.fills), at(record.names) - 1);
}

std::string Checker::fault_of_place(int64_t index, EntryWord word, Extent *extent) {
  const Place place = word.place();
  if (place.step >= segment_.layout.steps) return text_of("leads to step %u, of %u", place.step, segment_.layout.steps);
  const Word &step = segment_.step_word(place.step);
  if (!segment_.find_extent(place, extent)) {
    return text_of("leads to extent %u of step %u (byte %llu), which has class %lld", place.slot, place.step, at(step),
                   static_cast<ll>(value_of(step) - 1));
  }
  if (!may_touch(place.step)) return text_of("leads to step %u (byte %llu), which is not there", place.step, at(step));
  const Word &owner = segment_.extent_word(place);
  const uint64_t expected = ExtentWord::owned(index, word.generation()).bits(), actual = value_of(owner);
  if (actual == expected) return {};
  return text_of("leads to extent %u of step %u (byte %llu), which is not its own: its word is %016llx and not %016llx",
                 place.slot, place.step, at(owner), static_cast<ull>(actual), static_cast<ull>(expected));
}

std::string Checker::fault_of_ready(int64_t index, EntryWord word) {
  Extent extent;
  if (std::string fault = fault_of_place(index, word, &extent); !fault.empty()) return fault;
  if (!word.is_unverified()) return fault_of_record(index, extent);
  // What it leads to is not believed anyway.
  return segment_.medium == Medium::disk ? "" : "is marked as not verified, which only a file on a disk can be";
}

// A checksum is compared wherever there is one.
std::string Checker::fault_of_record(int64_t index, const Extent &extent) const {
  const uint8_t *record = segment_.readable(extent);
  const uint64_t bytes = segment_.extent_bytes(extent);
  const ull begin = static_cast<ull>(record - segment_.readable_arena()) + segment_.layout.arena_offset;
  uint64_t data_bytes = 0;
  if (!inspect_record(record, bytes, &data_bytes)) {
    return text_of("leads to a record that is not sound (bytes %llu to %llu, class %u of step %u by byte %llu)", begin,
                   static_cast<ull>(begin + bytes - 1), extent.size_class, extent.place.step,
                   at(segment_.step_word(extent.place.step)));
  }
  RecordSums sums = {};
  const bool summed = sum_record(record, bytes, index, &sums);
  if (summed && (sums.stored == sums.actual || (sums.stored == 0 && !segment_.seals_records()))) return {};
  return text_of("leads to a record with the checksum %016llx, whose bytes have %016llx (bytes %llu to %llu)",
                 static_cast<ull>(sums.stored), static_cast<ull>(sums.actual), begin,
                 static_cast<ull>(begin + bytes - 1));
}

void Checker::check_step(uint32_t step) {
  const Word &shared = segment_.step_word(step);
  const uint64_t word = value_of(shared);
  if (word == 0) return;
  ++report_->steps_reserved;
  if (word > segment_.layout.classes.size()) {
    violation(&report_->damaged_steps, "step %u (byte %llu) is of size class %llu, of %zu", step, at(shared),
              static_cast<ull>(word - 1), segment_.layout.classes.size());
    return;
  }
  if (!may_touch(step)) {
    if (steps_there_ >= segment_.layout.steps) return;
    const Word &first = segment_.step_word(steps_there_);
    if (value_of(first) == 0) {
      violation(&report_->damaged_steps,
                "step %u (byte %llu) is taken, with class %llu, and step %u (byte %llu) is not", step, at(shared),
                static_cast<ull>(word - 1), steps_there_, at(first));
    }
    return;
  }
  const uint32_t slots = segment_.layout.classes[word - 1].slots;
  const uint64_t begin = segment_.step_offset(step) + slots * sizeof(Word);
  const uint64_t end = segment_.step_offset(step) + segment_.layout.classes[word - 1].first_offset;
  for (uint32_t slot = 0; slot < slots; ++slot) check_extent({step, slot});
  check_unused(&report_->damaged_extents, "behind the extents' words of a step", begin, end);
}

void Checker::check_extent(Place place) {
  const Word &shared = segment_.extent_word(place);
  const ExtentWord word(value_of(shared));  // the second look at the entry is behind the fence of this one
  if (word.never_owned()) {
    ++report_->extents_free;
    return;
  }
  const ull where = at(shared);
  const ull bits = word.bits();
  uint64_t *count = &report_->damaged_extents;
  if (word != ExtentWord::owned(word.index(), word.generation()) || !segment_.valid_index(word.index())) {
    violation(count, "extent %u of step %u (byte %llu, word %016llx) belongs to entry %lld, which does not exist",
              place.slot, place.step, where, bits, static_cast<ll>(word.index()));
    return;
  }
  const Word &entry_word = segment_.entry(word.index());
  const EntryWord entry(value_of(entry_word));
  const uint32_t reached = entry.generation(), own = word.generation();
  if (own != reached || entry.state() == State::empty) {
    // A name of a client that is provably dead is none.
    const bool named = std::binary_search(names_.begin(), names_.end(), name_of(place)) && clients_.is_named(place);
    ++(named ? report_->extents_named : report_->extents_free);
    if ((own == reached || ahead(own, reached) > 0) && is_still(entry_word, entry.bits()) &&
        is_still(shared, word.bits())) {
      violation(count,
                "extent %u of step %u (byte %llu, word %016llx) belongs to entry %lld (byte %llu, word %016llx) at "
                "generation %u, which that has not reached",
                place.slot, place.step, where, bits, static_cast<ll>(word.index()), at(entry_word),
                static_cast<ull>(entry.bits()), own);
    }
    return;
  }
  ++report_->extents_owned;
  if (entry.state() == State::writing) return check_claim(place, word, entry);
  if (entry.place() != place && is_still(entry_word, entry.bits()) && is_still(shared, word.bits())) {
    violation(
        count,
        "extent %u of step %u (byte %llu, word %016llx) belongs to entry %lld (byte %llu, word %016llx), which is "
        "stored elsewhere",
        place.slot, place.step, where, bits, static_cast<ll>(word.index()), at(entry_word),
        static_cast<ull>(entry.bits()));
  }
}

// A fill takes one extent.
void Checker::check_claim(Place place, ExtentWord word, EntryWord entry) {
  const auto [first, fresh] = claimed_.try_emplace(word.index(), place);
  if (fresh) return;
  const Word &one = segment_.extent_word(first->second), &other = segment_.extent_word(place);
  if (is_still(segment_.entry(word.index()), entry.bits()) && is_still(one, word.bits()) &&
      is_still(other, word.bits())) {
    violation(&report_->damaged_extents,
              "extent %u of step %u (byte %llu) and extent %u of step %u (byte %llu) belong to the fill of entry %lld "
              "both",
              first->second.slot, first->second.step, at(one), place.slot, place.step, at(other),
              static_cast<ll>(word.index()));
  }
}

void Checker::check_keys() {
  const Word &keys = segment_.control().keys;
  const uint64_t counted = keys.load(std::memory_order_acquire);  // EDGE key
  for (int64_t index = 0; index < segment_.header.geometry.length; ++index) check_key(index);
  if (counted > report_->keys) {
    violation(
        &report_->damaged_keys,
        "%llu keys are counted (byte %llu), %llu are there, and %llu are not finished, the first in slot %lld (bytes "
        "%llu to %llu)",
        static_cast<ull>(counted), at(keys), static_cast<ull>(report_->keys),
        static_cast<ull>(report_->keys_unfinished), static_cast<ll>(unfinished_key_),
        at(segment_.key_slot(unfinished_key_)), at(segment_.key_slot(unfinished_key_)) + sizeof(KeySlot) - 1);
  }
}

// A key that is found at its own slot is the first of its kind on the way from its home, and no free slot is before it.
// What leads to a slot that holds a key can not change any more, so others who go on do not matter.
void Checker::check_key(int64_t index) {
  const KeySlot &slot = segment_.key_slot(index);
  const uint64_t rest = slot.rest.load(std::memory_order_acquire);  // EDGE key
  const KeyHash key = {value_of(slot.tag), rest};
  if (rest == 0) {
    if (key.tag != 0 && report_->keys_unfinished++ == 0) unfinished_key_ = index;
    return;
  }
  ++report_->keys;
  int64_t found = -1;
  const int32_t status = key.tag == 0 ? DC_MISS : segment_.keys().lookup(key, &found);
  if (status == DC_OK && found == index) return;
  const ull where = at(slot), tag = key.tag;
  if (status != DC_OK) {
    violation(
        &report_->damaged_keys,
        "the key of index %lld (bytes %llu to %llu, words %016llx %016llx) is not to be found from its home, slot %lld",
        static_cast<ll>(index), where, where + sizeof slot - 1, tag, static_cast<ull>(key.rest),
        static_cast<ll>(segment_.keys().home(key)));
  } else {
    violation(&report_->damaged_keys,
              "the key of index %lld (bytes %llu to %llu, words %016llx %016llx) has index %lld too (byte %llu)",
              static_cast<ll>(index), where, where + sizeof slot - 1, tag, static_cast<ull>(key.rest),
              static_cast<ll>(found), at(segment_.key_slot(found)));
  }
}

}  // namespace ddpcache
