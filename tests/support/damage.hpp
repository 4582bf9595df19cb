// Damage to the words and bytes of a cache's file, one kind at a time: what the fuzzer does to a cache that is in use,
// and what dc_cache_check is asked to find.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "damage_places.hpp"
#include "record.hpp"

namespace ddpcache::test {

namespace damage {

constexpr uint64_t kFirstArray = sizeof(RecordHead);
constexpr uint64_t kFirstShape = kFirstArray + sizeof(ArrayHead);

inline constexpr DamageKind kEntryKinds[] = {
    {"entry: any bits", false,
     [](const Segment &s, DamageChoice c) { return flip(s.entry(any_index(s, c.where)), c.value); }},
    {"entry: any word", false,
     [](const Segment &s, DamageChoice c) {
       s.entry(any_index(s, c.where)).store(c.value);
       return true;
     }},
    {"entry: leads to a step that is not there", true,
     [](const Segment &s, DamageChoice c) {
       const uint32_t beyond = (1u << kStepBits) - s.layout.steps;
       if (beyond == 0) return false;
       const Place place = {s.layout.steps + static_cast<uint32_t>(c.value % beyond), 0};
       put_entry(s, any_index(s, c.where), EntryWord::ready(0, place));
       return true;
     }},
    {"entry: leads beyond the extents of its step", true,
     [](const Segment &s, DamageChoice c) {
       Stored stored;
       if (!find_stored(s, c.where, &stored)) return false;
       const uint32_t slots = s.layout.classes[stored.extent.size_class].slots;
       if (slots == kSlotsMax) return false;
       const Place place = {stored.extent.place.step, slots + static_cast<uint32_t>(c.value % (kSlotsMax - slots))};
       put_entry(s, stored.index, EntryWord::ready(stored.word.generation(), place));
       return true;
     }},
    {"entry: at another generation than its extent", true,
     [](const Segment &s, DamageChoice c) {
       Stored stored;
       if (!find_stored(s, c.where, &stored)) return false;
       const uint32_t other = (stored.word.generation() + 1 + static_cast<uint32_t>(c.value % kGenerationMask));
       put_entry(s, stored.index, EntryWord::ready(other & kGenerationMask, stored.word.place()));
       return true;
     }},
    {"entry: leads to another's extent", true,
     [](const Segment &s, DamageChoice c) {
       Stored one, other;
       if (!find_pair(s, c.where, &one, &other)) return false;
       put_entry(s, one.index, EntryWord::ready(one.word.generation(), other.word.place()));
       return true;
     }},
    {"entry: filled by a client that is not there", true,
     [](const Segment &s, DamageChoice c) {
       const uint32_t clients = s.header.geometry.clients_max, beyond = (1u << kClientBits) - clients;
       const ClientLife owner = {clients + static_cast<uint32_t>(c.value % beyond), 1};
       put_entry(s, any_index(s, c.where), EntryWord::writing(0, owner));
       return true;
     }},
    {"entry: filled without a note", true,
     [](const Segment &s, DamageChoice c) {
       uint32_t client = 0;
       if (!find_client(s, static_cast<uint32_t>(c.value), &client)) return false;
       for (const FillNote &note : s.client(client).fills) {
         if (note.index_plus_one.load() == 1 + static_cast<uint64_t>(any_index(s, c.where))) return false;
       }
       const ClientLife owner = {client, ClientWord(s.client(client).word.load()).epoch()};
       put_entry(s, any_index(s, c.where), EntryWord::writing(0, owner));
       return true;
     }},
    {"entry: filled in another life of a client", false,
     [](const Segment &s, DamageChoice c) {
       const ClientLife owner = {static_cast<uint32_t>(c.value % s.header.geometry.clients_max), kEpochMask};
       put_entry(s, any_index(s, c.where), EntryWord::writing(0, owner).with_waiters());
       return true;
     }},
    {"entry: bad", false,
     [](const Segment &s, DamageChoice c) {
       Word &word = s.entry(any_index(s, c.where));
       word.store(EntryWord(word.load()).as_bad().bits());
       return true;
     }},
    {"entry: called unverified", false,
     [](const Segment &s, DamageChoice c) {
       Stored stored;
       if (!find_stored(s, c.where, &stored)) return false;
       put_entry(s, stored.index, stored.word.as_unverified());
       return true;
     }},
};

inline constexpr DamageKind kExtentKinds[] = {
    {"extent: any bits", false,
     [](const Segment &s, DamageChoice c) {
       Stored stored;
       return find_stored(s, c.where, &stored) && flip(s.extent_word(stored.word.place()), c.value);
     }},
    {"extent: any word", false,
     [](const Segment &s, DamageChoice c) {
       Stored stored;
       if (!find_stored(s, c.where, &stored)) return false;
       const uint32_t slots = s.layout.classes[stored.extent.size_class].slots;
       s.extent_word({stored.extent.place.step, static_cast<uint32_t>(c.value >> 32) % slots}).store(c.value);
       return true;
     }},
    {"extent: of an entry that is not there", true,
     [](const Segment &s, DamageChoice c) {
       Stored stored;
       const int64_t length = s.header.geometry.length;
       if (length > DC_LENGTH_MAX || !find_stored(s, c.where, &stored)) return false;
       const int64_t index = length + static_cast<int64_t>(c.value % static_cast<uint64_t>(DC_LENGTH_MAX + 1 - length));
       s.extent_word(stored.word.place()).store(ExtentWord::owned(index, stored.word.generation()).bits());
       return true;
     }},
    {"extent: of another entry", true,
     [](const Segment &s, DamageChoice c) {
       Stored one, other;
       if (!find_pair(s, c.where, &one, &other)) return false;
       s.extent_word(one.word.place()).store(ExtentWord::owned(other.index, other.word.generation()).bits());
       return true;
     }},
    {"extent: never owned, under a sample", true,
     [](const Segment &s, DamageChoice c) {
       Stored stored;
       if (!find_stored(s, c.where, &stored)) return false;
       s.extent_word(stored.word.place()).store(0);
       return true;
     }},
};

inline constexpr DamageKind kStepKinds[] = {
    {"step: any bits", false,
     [](const Segment &s, DamageChoice c) { return flip(s.step_word(any_step(s, c.where)), c.value); }},
    {"step: of no class", true,
     [](const Segment &s, DamageChoice c) {
       const uint64_t classes = s.layout.classes.size();
       s.step_word(any_step(s, c.where)).store(classes + 1 + c.value % (UINT64_MAX - classes));
       return true;
     }},
    {"step: of some class", false,
     [](const Segment &s, DamageChoice c) {
       s.step_word(any_step(s, c.where)).store(c.value % (s.layout.classes.size() + 1));
       return true;
     }},
    {"step: not reserved, under a sample", true,
     [](const Segment &s, DamageChoice c) {
       Stored stored;
       if (!find_stored(s, c.where, &stored)) return false;
       s.step_word(stored.extent.place.step).store(0);
       return true;
     }},
};

inline constexpr DamageKind kClientKinds[] = {
    {"client: any bits of its word", false,
     [](const Segment &s, DamageChoice c) {
       return flip(s.client(c.where % s.header.geometry.clients_max).word, c.value);
     }},
    {"client: in no state", true,
     [](const Segment &s, DamageChoice c) {
       uint32_t client = 0;
       if (!find_client(s, c.where, &client)) return false;
       s.client(client).word.store(s.client(client).word.load() | 3);
       return true;
     }},
    {"client: a life that nobody began", false,
     [](const Segment &s, DamageChoice c) {
       const ClientWord word(c.value & 1 ? Life::live : Life::dead, static_cast<uint32_t>(c.value >> 1) & kEpochMask);
       s.client(c.where % s.header.geometry.clients_max).word.store(word.bits());
       return true;
     }},
    {"client: another process", false,
     [](const Segment &s, DamageChoice c) {
       ClientRecord &client = s.client(c.where % s.header.geometry.clients_max);
       client.pid.store(static_cast<int32_t>(c.value));
       client.start_time.store(c.value >> 32);
       return true;
     }},
    {"client: names an extent that is not there", true,
     [](const Segment &s, DamageChoice c) {
       uint32_t client = 0;
       if (s.layout.steps == kStepsMax || !find_client(s, c.where, &client)) return false;
       s.client(client).names_used.store(DC_FILLS_MAX);
       const Place place = {s.layout.steps, static_cast<uint32_t>(c.value) % kSlotsMax};
       s.client(client).names[(c.value >> 32) % DC_FILLS_MAX].store(ddpcache::name_of(place));
       return true;
     }},
    {"client: any name", false,
     [](const Segment &s, DamageChoice c) {
       ClientRecord &client = s.client(c.where % s.header.geometry.clients_max);
       client.names_used.store(DC_FILLS_MAX);
       client.names[(c.value >> 32) % DC_FILLS_MAX].store(c.value);
       return true;
     }},
    {"client: a reader names an extent that is not there", true,
     [](const Segment &s, DamageChoice c) {
       uint32_t client = 0;
       if (!s.droppable() || s.layout.steps == kStepsMax || !find_client(s, c.where, &client)) return false;
       s.client(client).reader_names_used.store(1);
       s.reader_name(client, 0).store(ddpcache::name_of({s.layout.steps, static_cast<uint32_t>(c.value) % kSlotsMax}));
       return true;
     }},
    {"client: more names in use than there are", true,
     [](const Segment &s, DamageChoice c) {
       uint32_t client = 0;
       if (!find_client(s, c.where, &client)) return false;
       const uint32_t more = static_cast<uint32_t>(c.value) % 1000;
       s.client(client).names_used.store(DC_FILLS_MAX + 1 + more);
       s.client(client).reader_names_used.store(kReaderNames + 1 + more);
       return true;
     }},
    {"client: readers without names", false,
     [](const Segment &s, DamageChoice c) {
       s.client(c.where % s.header.geometry.clients_max).unnamed_readers.store(static_cast<uint32_t>(c.value));
       return true;
     }},
    {"client: a note of an entry that is not there", true,
     [](const Segment &s, DamageChoice c) {
       uint32_t client = 0;
       if (!find_client(s, c.where, &client)) return false;
       const uint64_t beyond = static_cast<uint64_t>(s.header.geometry.length) + 1;
       s.client(client).fills[c.where % DC_FILLS_MAX].index_plus_one.store(beyond + c.value % (UINT64_MAX - beyond));
       return true;
     }},
    {"client: any note", false,
     [](const Segment &s, DamageChoice c) {
       FillNote &note = s.client(c.where % s.header.geometry.clients_max).fills[c.where / 256 % DC_FILLS_MAX];
       note.index_plus_one.store(1 + static_cast<uint64_t>(any_index(s, c.where)));
       note.since_ns.store(static_cast<int64_t>(c.value));
       return true;
     }},
    {"client: any counter", false,
     [](const Segment &s, DamageChoice c) {
       ClientRecord &client = s.client(c.where % s.header.geometry.clients_max);
       client.stats[c.where / 256 % kStatsLines].counters[c.where / 2048 % 16].store(c.value);
       return true;
     }},
};

inline constexpr DamageKind kControlKinds[] = {
    {"control: more clients than there can be", true,
     [](const Segment &s, DamageChoice c) {
       const uint32_t clients = s.header.geometry.clients_max;
       s.control().clients_used.store(clients + 1 + static_cast<uint32_t>(c.value % (UINT32_MAX - clients)));
       return true;
     }},
    {"control: other clients used", false,
     [](const Segment &s, DamageChoice c) {
       s.control().clients_used.store(static_cast<uint32_t>(c.value));
       return true;
     }},
    {"control: another next step", false,
     [](const Segment &s, DamageChoice c) {
       s.control().next_step.store(static_cast<uint32_t>(c.value));
       return true;
     }},
    {"control: memory ran out at any time", false,
     [](const Segment &s, DamageChoice c) {
       s.control().no_space_ns.store(static_cast<int64_t>(c.value));
       return true;
     }},
    {"control: any bits", false,
     [](const Segment &s, DamageChoice c) {
       // But for `keep`, by which a process that is killed would leave the cache for good.
       const uint64_t at = sizeof(uint32_t) + c.where % (sizeof(ControlLine) - sizeof(uint32_t));
       return flip_byte(reinterpret_cast<uint8_t *>(&s.control()) + at, c.value);
     }},
    {"class: any hint", false,
     [](const Segment &s, DamageChoice c) {
       const uint32_t size_class = c.where / 8 % static_cast<uint32_t>(s.layout.classes.size());
       Word *words = &s.class_line(size_class).cursor;
       words[c.where % 8].store(c.value);
       return true;
     }},
    {"class: cursor anywhere", false,
     [](const Segment &s, DamageChoice c) {
       const uint32_t size_class = c.where % static_cast<uint32_t>(s.layout.classes.size());
       const uint64_t step = c.value % (uint64_t{s.layout.steps} + 2), slot = c.value / 256 % 64;
       s.class_line(size_class).cursor.store(step << 32 | slot);
       return true;
     }},
    {"header: any bits", true,
     [](const Segment &s, DamageChoice c) {
       return flip_byte(reinterpret_cast<uint8_t *>(&s.stored_header()) + c.where % sizeof(Header), c.value);
     }},
};

inline constexpr DamageKind kKeyKinds[] = {
    {"key: any bits of its tag", false,
     [](const Segment &s, DamageChoice c) {
       return s.keyed() && flip(s.key_slot(any_index(s, c.where)).tag, c.value);
     }},
    {"key: any bits of its rest", false,
     [](const Segment &s, DamageChoice c) {
       return s.keyed() && flip(s.key_slot(any_index(s, c.where)).rest, c.value);
     }},
    {"key: without a tag", true,
     [](const Segment &s, DamageChoice c) {
       int64_t index = 0;
       if (!find_key(s, c.where, &index)) return false;
       s.key_slot(index).tag.store(0);
       return true;
     }},
    {"key: in two slots", true,
     [](const Segment &s, DamageChoice c) {
       int64_t index = 0;
       if (s.header.geometry.length < 2 || !find_key(s, c.where, &index)) return false;
       const int64_t length = s.header.geometry.length;
       const int64_t other = (index + 1 + static_cast<int64_t>(c.value % static_cast<uint64_t>(length - 1))) % length;
       s.key_slot(other).tag.store(s.key_slot(index).tag.load());
       s.key_slot(other).rest.store(s.key_slot(index).rest.load());
       return true;
     }},
    {"key: unfinished", false,
     [](const Segment &s, DamageChoice c) {
       if (!s.keyed()) return false;
       s.key_slot(any_index(s, c.where)).tag.store(some(c.value));
       s.key_slot(any_index(s, c.where)).rest.store(0);
       return true;
     }},
};

inline constexpr DamageKind kRecordKinds[] = {
    {"record: any bits of its first line", false,
     [](const Segment &s, DamageChoice c) {
       Stored stored;
       return find_stored(s, c.where, &stored) &&
              flip_byte(s.writable(stored.extent) + (c.value >> 8) % kLineBytes, c.value);
     }},
    {"record: no magic", true,
     [](const Segment &s, DamageChoice c) {
       Stored stored;
       return find_stored(s, c.where, &stored) && flip_byte(s.writable(stored.extent), c.value);
     }},
    {"record: too many arrays", true,
     [](const Segment &s, DamageChoice c) {
       const uint16_t arrays = static_cast<uint16_t>(DC_ARRAYS_MAX + 1 + c.value % 60'000);
       return put_in_record(s, c.where, offsetof(RecordHead, array_count), arrays);
     }},
    {"record: no array", true,
     [](const Segment &s, DamageChoice c) {
       return put_in_record(s, c.where, offsetof(RecordHead, array_count), uint16_t{0});
     }},
    {"record: another number of arrays", false,
     [](const Segment &s, DamageChoice c) {
       return put_in_record(s, c.where, offsetof(RecordHead, array_count), static_cast<uint16_t>(c.value % 70));
     }},
    {"record: too long a structure", true,
     [](const Segment &s, DamageChoice c) {
       const uint16_t bytes = static_cast<uint16_t>(DC_STRUCTURE_BYTES_MAX + 1 + c.value % 60'000);
       return put_in_record(s, c.where, offsetof(RecordHead, structure_bytes), bytes);
     }},
    {"record: another structure", false,
     [](const Segment &s, DamageChoice c) {
       const uint16_t bytes = static_cast<uint16_t>(c.value % (DC_STRUCTURE_BYTES_MAX + 1));
       return put_in_record(s, c.where, offsetof(RecordHead, structure_bytes), bytes);
     }},
    {"record: longer than its extent", true,
     [](const Segment &s, DamageChoice c) {
       Stored stored;
       if (!find_stored(s, c.where, &stored)) return false;
       const uint64_t most = s.extent_bytes(stored.extent), bytes = most + 1 + c.value % (UINT64_MAX - most);
       return put_in_record(s, c.where, offsetof(RecordHead, record_bytes), bytes);
     }},
    {"record: shorter than its head", true,
     [](const Segment &s, DamageChoice c) {
       return put_in_record(s, c.where, offsetof(RecordHead, record_bytes), c.value % sizeof(RecordHead));
     }},
    {"record: another length", true,  // of the end of its last array
     [](const Segment &s, DamageChoice c) {
       Stored stored;
       if (!find_stored(s, c.where, &stored)) return false;
       uint8_t *at = s.writable(stored.extent) + offsetof(RecordHead, record_bytes);
       uint64_t before = 0;
       std::memcpy(&before, at, sizeof before);
       const uint64_t bytes = before + 1 + c.value % (s.extent_bytes(stored.extent) - 1);
       const uint64_t after = bytes % s.extent_bytes(stored.extent);
       if (after == before) return false;
       std::memcpy(at, &after, sizeof after);
       return true;
     }},
    {"record: an array of too many dimensions", true,
     [](const Segment &s, DamageChoice c) {
       const uint8_t dimensions = static_cast<uint8_t>(DC_DIMENSIONS_MAX + 1 + c.value % 200);
       return put_in_record(s, c.where, kFirstArray + offsetof(ArrayHead, dimensions), dimensions);
     }},
    {"record: an array of no bits", true,
     [](const Segment &s, DamageChoice c) {
       return put_in_record(s, c.where, kFirstArray + offsetof(ArrayHead, dtype_lanes), uint16_t{0});
     }},
    {"record: too long a name", true,
     [](const Segment &s, DamageChoice c) {
       const uint8_t bytes = static_cast<uint8_t>(sizeof(dc_array::name) + c.value % 200);
       return put_in_record(s, c.where, kFirstArray + offsetof(ArrayHead, name_bytes), bytes);
     }},
    {"record: a negative dimension", true,
     [](const Segment &s, DamageChoice c) {
       Stored stored;
       if (!find_stored(s, c.where, &stored)) return false;
       if (s.writable(stored.extent)[kFirstArray + offsetof(ArrayHead, dimensions)] == 0) return false;
       return put_in_record(s, c.where, kFirstShape, c.value | uint64_t{1} << 63);
     }},
    {"record: any dimension", false,
     [](const Segment &s, DamageChoice c) { return put_in_record(s, c.where, kFirstShape, c.value); }},
    {"record: any bytes of it", false,
     [](const Segment &s, DamageChoice c) {
       Stored stored;
       if (!find_stored(s, c.where, &stored)) return false;
       return flip_byte(s.writable(stored.extent) + (c.value >> 8) % s.extent_bytes(stored.extent), c.value);
     }},
    {"arena: any byte", false,
     [](const Segment &s, DamageChoice c) {
       // Only of steps that are reserved: nobody else may touch the rest.
       const uint32_t step = any_step(s, c.where);
       const uint64_t word = s.step_word(step).load();
       if (word == 0 || word > s.layout.classes.size()) return false;
       return flip_byte(s.arena() + step * s.layout.step_bytes + (c.value >> 8) % s.layout.step_bytes, c.value);
     }},
};

}  // namespace damage

inline constexpr auto kDamageKinds = [] {
  using namespace damage;
  std::array<DamageKind, std::size(kEntryKinds) + std::size(kExtentKinds) + std::size(kStepKinds) +
                             std::size(kClientKinds) + std::size(kControlKinds) + std::size(kKeyKinds) +
                             std::size(kRecordKinds)>
      all = {};
  size_t count = 0;
  const auto append = [&](const auto &kinds) {
    for (const DamageKind &kind : kinds) all[count++] = kind;
  };
  append(kEntryKinds);
  append(kExtentKinds);
  append(kStepKinds);
  append(kClientKinds);
  append(kControlKinds);
  append(kKeyKinds);
  append(kRecordKinds);
  return all;
}();

}  // namespace ddpcache::test
