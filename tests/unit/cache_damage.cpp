// Damage that the tests do to a cache's file: check() finds it, and readers see misses and nothing else.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "../support/segment_file.hpp"
#include "record.hpp"

namespace ddpcache::test {
namespace {

// A cache with some samples, and a second mapping of its file to write into.
class Damaged : public ::testing::Test {
 protected:
  static constexpr int64_t kLength = 50;

  Damaged() {
    for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(put(cache_, i, 300), DC_OK);
    map_again(name_, &segment_);
  }

  EntryWord entry(int64_t index) const { return EntryWord(segment_.entry(index).load()); }
  void set_entry(int64_t index, EntryWord word) { segment_.entry(index).store(word.bits()); }
  uint8_t *record_of(int64_t index) const {
    Extent extent;
    EXPECT_TRUE(segment_.find_extent(entry(index).place(), &extent));
    return segment_.writable(extent);
  }
  // The text of what check() finds.
  std::string found() const {
    dc_cache_report report = {};
    report.struct_size = sizeof report;
    dc_error error = {};
    EXPECT_EQ(dc_cache_check(cache_, &report, &error), DC_ERROR_DAMAGED);
    EXPECT_GE(report.violations, 1u);
    return error.message;
  }
  void expect_miss(int64_t index) {
    dc_view view;
    EXPECT_EQ(dc_cache_view(cache_, index, &view), DC_MISS);
    uint8_t buffer[300];
    EXPECT_EQ(dc_cache_read(cache_, index, 0, buffer, sizeof buffer, nullptr), DC_MISS);
  }

  const CacheName name_;
  const Handle cache_ = open_cache(name_, options_for(kLength, 4 << 20));
  Segment segment_;
};

TEST_F(Damaged, EntryThatLeadsOutsideTheArenaIsFound) {
  for (const Place place : {Place{4095, 0}, Place{0, 0xFFFFF}, Place{1, 0}}) {
    const EntryWord right = entry(3);
    set_entry(3, EntryWord::ready(right.generation(), place));
    EXPECT_NE(found().find("entry 3"), std::string::npos) << found();
    expect_miss(3);
    EXPECT_EQ(entry(3).state(), State::bad);
    set_entry(3, right);
  }
  report_of(cache_);
}

TEST_F(Damaged, EntryAtAWrongGenerationIsFound) {
  set_entry(4, EntryWord::ready(entry(4).generation() + 1, entry(4).place()));
  EXPECT_NE(found().find("entry 4"), std::string::npos) << found();
}

TEST_F(Damaged, EntryOverAnothersExtentIsFound) {
  set_entry(5, EntryWord::ready(entry(5).generation(), entry(6).place()));
  EXPECT_NE(found().find("entry 5"), std::string::npos) << found();
}

TEST_F(Damaged, ExtentOfAnEntryThatDoesNotExistIsFound) {
  segment_.extent_word(entry(7).place()).store(ExtentWord::owned(kLength + 3, 0).bits());
  dc_error error = {};
  dc_cache_report report = {};
  report.struct_size = sizeof report;
  EXPECT_EQ(dc_cache_check(cache_, &report, &error), DC_ERROR_DAMAGED);
  EXPECT_EQ(report.violations, 2u) << "the entry leads to an extent that is not its own, which belongs to nobody";
}

TEST_F(Damaged, ExtentWhoseEntryIsStoredElsewhereIsFound) {
  // A second extent that says it is entry 8's.
  segment_.extent_word(entry(9).place()).store(ExtentWord::owned(8, entry(8).generation()).bits());
  found();
}

TEST_F(Damaged, StepOfNoClassIsFoundAndItsSamplesAreMisses) {
  const uint32_t step = entry(0).place().step;
  const uint64_t right = segment_.step_word(step).load();
  segment_.step_word(step).store(1'000'000);
  found();
  expect_miss(0);
  segment_.step_word(step).store(right);
}

TEST_F(Damaged, FillByNoClientIsFoundAndMayBeTaken) {
  set_entry(30, EntryWord::writing(0, {4000, 1}));
  found();
  EXPECT_EQ(put(cache_, 30, 100), DC_OK);
  report_of(cache_);
}

TEST_F(Damaged, RecordMakesItsEntryBadForGood) {
  record_of(10)[0] ^= 1;
  EXPECT_NE(found().find("entry 10"), std::string::npos);
  expect_miss(10);
  dc_cache_report report = report_of(cache_);
  EXPECT_EQ(report.entries_bad, 1u);
  EXPECT_EQ(report.entries_ready, 19u);
  EXPECT_EQ(stats_of(cache_).resident, 19u);
  EXPECT_EQ(dc_cache_contains(cache_, 10), DC_MISS);
  dc_fill *fill = nullptr;
  EXPECT_EQ(dc_cache_fill_begin(cache_, 10, 0, &fill), DC_FULL);
  // A load decodes for its caller alone, and an index is not loaded from its own loader here either.
  struct Nested {
    dc_cache *cache;
    int runs = 0;
    int32_t inner = 0;
  } nested{cache_};
  const dc_loader loader = [](dc_fill *fill_of_load, int64_t index, void *user) -> int32_t {
    Nested *own = static_cast<Nested *>(user);
    if (++own->runs > 3) return 0;
    dc_view inner_view;
    own->inner = dc_cache_load(own->cache, index, load_pattern, std::make_unique<Errand>().get(), 0, &inner_view);
    dc_array array = byte_array(300);
    EXPECT_EQ(dc_cache_fill_allocate(fill_of_load, &array, 1, nullptr, nullptr), DC_FULL);
    return DC_LOADED;
  };
  dc_view view;
  EXPECT_EQ(dc_cache_load(cache_, 10, loader, &nested, 0, &view), DC_FULL);
  EXPECT_EQ(nested.runs, 1);
  EXPECT_EQ(nested.inner, DC_ERROR_RECURSION);
}

TEST_F(Damaged, RecordThatChangesUnderAViewIsNotReadBeyondItsEnd) {
  dc_view view;
  ASSERT_EQ(dc_cache_view(cache_, 11, &view), DC_OK);
  RecordHead *head = reinterpret_cast<RecordHead *>(record_of(11));
  head->record_bytes = UINT64_MAX;
  dc_array array;
  EXPECT_EQ(dc_view_array(&view, 0, &array), DC_ERROR_RECORD);
  head->record_bytes = 3;
  EXPECT_EQ(dc_view_array(&view, 0, &array), DC_ERROR_RECORD);
  head->structure_bytes = 4096;
  EXPECT_EQ(dc_view_structure(&view, nullptr), nullptr);
  dc_cache_view_release(&view);
}

// A class cursor that leads anywhere costs room, never a hang or a wrong extent.
TEST_F(Damaged, CursorsLeadNobodyAstray) {
  ASSERT_EQ(put(cache_, 20, 10'000), DC_OK);
  const uint32_t small = segment_.layout.class_for(300 + 64);
  for (const uint64_t cursor : {uint64_t{2} << 32, uint64_t{1} << 32 | 0xFFFFF, UINT64_MAX, uint64_t{77} << 32}) {
    segment_.class_line(small).cursor.store(cursor);
    for (int64_t i = 21; i < 30; ++i) {
      const int32_t status = put(cache_, i, 300);
      EXPECT_TRUE(status == DC_OK || status == DC_FULL || status == DC_PRESENT) << status;
      EXPECT_TRUE(status != DC_OK || holds(cache_, i, 300));
    }
  }
  for (int64_t i = 0; i < 20; ++i) EXPECT_TRUE(holds(cache_, i, 300));
  EXPECT_NE(found().find("cursor of size class"), std::string::npos) << found();
  segment_.class_line(small).cursor.store(0);
  report_of(cache_);
}

// Moments that another process wrote may be any number.
TEST_F(Damaged, MomentsAreNeitherBelievedNorSubtractedBlindly) {
  constexpr int64_t kMoments[] = {INT64_MIN, -1, 1, INT64_MAX};
  uint32_t index = 30;
  for (const int64_t moment : kMoments) {
    segment_.control().no_space_ns.store(moment);
    EXPECT_EQ(put(cache_, index, uint64_t{300} << (index - 29)), DC_OK)
        << moment << ": of a new size, so that it must grow";
    FillNote &note = segment_.client(0).fills[63];
    note.since_ns.store(moment);
    note.index_plus_one.store(1);
    EXPECT_GE(stats_of(cache_).oldest_fill_age_ns, 0) << moment;
    note.index_plus_one.store(0);
    ++index;
  }
}

// Random words and random bytes everywhere behind the header, with every function called in between.
TEST_F(Damaged, AnythingAnywhereIsAMissAnErrorOrAValueWithinBounds) {
  const char *wish = std::getenv("DDPCACHE_TEST_SEED");
  const uint64_t seed = wish ? std::strtoull(wish, nullptr, 0) : std::random_device()();
  SCOPED_TRACE(::testing::Message() << "DDPCACHE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  uint8_t *base = reinterpret_cast<uint8_t *>(&segment_.control()) - segment_.layout.control_offset;
  // Only memory that is reserved: touching the rest is what no client does.
  const uint64_t touched = segment_.step_offset(1);
  for (int round = 0; round < 3000; ++round) {
    for (int i = 0; i < 4; ++i) {
      const uint64_t from = segment_.layout.control_offset;
      if (random() % 2) {
        uint64_t at = from + random() % (touched - from - 8);
        if (random() % 2) at = segment_.layout.entries_offset + 8 * (random() % kLength);
        // Not this process's own record: that would be damage to itself.
        if (at >= segment_.layout.clients_offset && at < segment_.layout.entries_offset) continue;
        base[at] = static_cast<uint8_t>(random());
      } else {
        set_entry(static_cast<int64_t>(random() % kLength),
                  EntryWord(random() % 4 ? random() & 0xFF'0000'001Full : random()));
      }
    }
    const int64_t index = static_cast<int64_t>(random() % kLength);
    dc_view view;
    if (dc_cache_view(cache_, index, &view) == DC_OK) {
      uint64_t sum = 0;
      for (uint32_t a = 0; a < view.array_count; ++a) {
        dc_array array;
        if (dc_view_array(&view, a, &array) != DC_OK) continue;
        for (uint64_t i = 0; i < array.bytes; i += 64) sum += array.data[i];
      }
      dc_view_structure(&view, nullptr);
      dc_cache_view_release(&view);
      EXPECT_LT(sum, UINT64_MAX);
    }
    uint8_t buffer[300];
    dc_cache_read(cache_, index, static_cast<uint32_t>(random() % 3), buffer, sizeof buffer, nullptr);
    if (round % 4 == 0) put(cache_, index, 1 + random() % 2000);
    if (round % 50 == 0) {
      dc_cache_check(cache_, nullptr, nullptr);
      stats_of(cache_);
      info_of(cache_);
    }
  }
}

class DamagedKeys : public ::testing::Test {
 protected:
  DamagedKeys() {
    for (int i = 0; i < 40; ++i) EXPECT_EQ(intern(cache_, std::to_string(i), &indices_[i]), DC_OK);
    map_again(name_, &segment_);
    report_of(cache_);
  }
  static dc_cache_options options() {
    dc_cache_options options = options_for(50, 1 << 20, 64);
    options.keyed = 1;
    return options;
  }
  KeySlot &slot(int64_t index) const { return const_cast<KeySlot &>(segment_.key_slot(index)); }
  void move(int64_t from, int64_t to) const {
    slot(to).tag = slot(from).tag.load();
    slot(to).rest = slot(from).rest.load();
  }
  std::string found() const {
    dc_error error = {};
    EXPECT_EQ(dc_cache_check(cache_, nullptr, &error), DC_ERROR_DAMAGED);
    return error.message;
  }

  const CacheName name_;
  const Handle cache_ = open_cache(name_, options());
  Segment segment_;
  int64_t indices_[40];
};

TEST_F(DamagedKeys, KeyBehindAFreeSlotIsFound) {
  // The last key of a run of slots in use, moved on by two.
  int64_t last = 0;
  while (slot(last).tag == 0 || slot((last + 1) % 50).tag != 0 || slot((last + 2) % 50).tag != 0) ++last;
  move(last, (last + 2) % 50);
  slot(last).tag = slot(last).rest = 0;
  EXPECT_NE(found().find("is not to be found"), std::string::npos) << found();
}

TEST_F(DamagedKeys, KeyThatIsThereTwiceIsFound) {
  int64_t last = 0;
  while (slot(last).tag == 0 || slot((last + 1) % 50).tag != 0) ++last;
  move(last, (last + 1) % 50);
  EXPECT_NE(found().find("has index " + std::to_string(last) + " too"), std::string::npos) << found();
}

TEST_F(DamagedKeys, RestWithoutATagIsFound) {
  slot(indices_[7]).tag = 0;
  EXPECT_NE(found().find("the key of index"), std::string::npos) << found();
}

TEST_F(DamagedKeys, NoContentsOfTheTableHurtWhoLooksAndInterns) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    for (int64_t i = 0; i < 50; ++i) {
      slot(i).tag = random() % 3 ? random() : 0;
      slot(i).rest = random() % 3 ? random() : 0;
    }
    int64_t index = 0;
    const int32_t status = intern(cache_, std::to_string(round), &index);
    EXPECT_TRUE(status == DC_OK ? index >= 0 && index < 50 : status == DC_FULL);
    dc_cache_check(cache_, nullptr, nullptr);
  }
}

}  // namespace
}  // namespace ddpcache::test
