// Checksums in a cache: who takes them, who compares them, and what damage does in each mode.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../support/segment_file.hpp"
#include "record.hpp"

namespace ddpcache::test {
namespace {

constexpr uint64_t kBytes = 1000;

dc_cache_options with_checksums(uint32_t checksums, uint32_t droppable = 0) {
  dc_cache_options options = options_for(20, 4 << 20);
  options.checksums = checksums;
  options.droppable = droppable;
  return options;
}

// Sample 3 has a name, a structure and two arrays with a gap between; the others are plain.
void put_rich(dc_cache *cache) {
  dc_fill *fill = nullptr;
  ASSERT_EQ(dc_cache_fill_begin(cache, 3, 0, &fill), DC_OK);
  dc_array arrays[2] = {byte_array(kBytes), byte_array(kBytes)};
  std::strcpy(arrays[0].name, "image");
  ASSERT_EQ(dc_cache_fill_allocate(fill, arrays, 2, "[0, 1]", nullptr), DC_OK);
  for (const dc_array &array : arrays) write_pattern(array.data, kBytes, 3);
  ASSERT_EQ(dc_cache_fill_commit(fill), DC_OK);
}

// What dc_cache_check says of a cache that is damaged.
std::string found(dc_cache *cache) {
  dc_error error = {};
  EXPECT_EQ(dc_cache_check(cache, nullptr, &error), DC_ERROR_DAMAGED);
  return error.message;
}

struct Checked : ::testing::Test {
  void open(uint32_t checksums, uint32_t droppable = 0) {
    cache_ = open_cache(name_, with_checksums(checksums, droppable));
    for (const int64_t index : {1, 2}) EXPECT_EQ(put(cache_, index, kBytes), DC_OK);
    put_rich(cache_);
    file_.emplace(name_);
  }
  RecordHead head(int64_t index) const {
    RecordHead head;
    std::memcpy(&head, file_->record_of(index), sizeof head);
    return head;
  }
  // The last byte of a sample's last array.
  uint8_t &last_byte(int64_t index) const { return file_->record_of(index)[head(index).record_bytes - 1]; }

  const CacheName name_;
  Handle cache_;
  std::optional<SegmentFile> file_;
};

TEST_F(Checked, OffTakesNoneAndSeesNoDamage) {
  open(DC_CHECKSUMS_OFF);
  EXPECT_EQ(info_of(cache_).checksums, static_cast<uint32_t>(DC_CHECKSUMS_OFF));
  EXPECT_EQ(head(1).checksum, 0u);
  last_byte(1) ^= 1;
  report_of(cache_);
  EXPECT_FALSE(holds(cache_, 1, kBytes));
}

TEST_F(Checked, FillTakesOneThatCheckComparesAndReadersDoNot) {
  open(DC_CHECKSUMS_FILL);
  EXPECT_EQ(info_of(cache_).checksums, static_cast<uint32_t>(DC_CHECKSUMS_FILL));
  const uint64_t sum = head(2).checksum;
  EXPECT_NE(sum, 0u);
  report_of(cache_);
  last_byte(2) ^= 0x40;
  RecordSums sums;
  ASSERT_TRUE(sum_record(file_->record_of(2), file_->extent_bytes_of(2), 2, &sums));
  const std::string text = found(cache_);
  char wanted[120];
  std::snprintf(wanted, sizeof wanted, "checksum %016lx, whose bytes have %016lx", sum, sums.actual);
  EXPECT_NE(text.find("entry 2 "), std::string::npos) << text;
  EXPECT_NE(text.find(wanted), std::string::npos) << text << "\nbut not: " << wanted;
  dc_view view;
  ASSERT_EQ(dc_cache_view(cache_, 2, &view), DC_OK) << "a hit compares nothing in this mode";
  dc_cache_view_release(&view);
  last_byte(2) ^= 0x40;
  report_of(cache_);
}

TEST_F(Checked, FillFindsDamageOfEveryKindOfByte) {
  open(DC_CHECKSUMS_FILL);
  uint8_t *record = file_->record_of(3);
  const uint64_t bytes = head(3).record_bytes;
  ASSERT_LT(bytes, file_->extent_bytes_of(3)) << "no byte lies behind the record";
  uint64_t counted = 0;
  for (uint64_t at = 0; at < file_->extent_bytes_of(3); ++at) {
    record[at] ^= 0x10;
    dc_cache_report report = {};
    report.struct_size = sizeof report;
    const int32_t status = dc_cache_check(cache_, &report, nullptr);
    EXPECT_EQ(status, at < bytes ? DC_ERROR_DAMAGED : DC_OK) << "byte " << at << " of " << bytes;
    counted += report.violations;
    record[at] ^= 0x10;
  }
  EXPECT_EQ(counted, bytes) << "each is one violation";
  report_of(cache_);
}

TEST_F(Checked, ASampleWithoutASumIsAViolationWhereAllHaveOne) {
  open(DC_CHECKSUMS_FILL);
  RecordHead bare = head(1);
  bare.checksum = 0;
  std::memcpy(file_->record_of(1), &bare, sizeof bare);
  EXPECT_NE(found(cache_).find("checksum 0000000000000000"), std::string::npos) << found(cache_);
}

TEST_F(Checked, ASampleWithASumIsComparedWhereNoneNeedsOne) {
  open(DC_CHECKSUMS_OFF);
  ASSERT_TRUE(seal_record(file_->record_of(1), file_->extent_bytes_of(1), 1));
  report_of(cache_);
  last_byte(1) ^= 1;
  EXPECT_NE(found(cache_).find("entry 1 "), std::string::npos) << found(cache_);
}

TEST_F(Checked, ReadMakesADamagedSampleAMissForEveryKindOfReader) {
  using Reader = int32_t (*)(dc_cache *);
  const Reader readers[] = {
      [](dc_cache *cache) {
        dc_view view;
        return dc_cache_view(cache, 2, &view);
      },
      [](dc_cache *cache) {
        uint8_t buffer[kBytes];
        return dc_cache_read(cache, 2, 0, buffer, sizeof buffer, nullptr);
      },
      [](dc_cache *cache) {
        std::vector<uint8_t> buffer(2 * kBytes);
        const int64_t indices[] = {1, 2};
        int32_t statuses[2] = {-1, -1};
        dc_cache_read_batch(cache, indices, 2, 0, buffer.data(), kBytes, statuses, 2);
        EXPECT_EQ(statuses[0], DC_OK);
        return statuses[1];
      },
      [](dc_cache *cache) {
        Errand errand{kBytes};
        dc_view view;
        const int32_t status = dc_cache_load(cache, 2, load_pattern, &errand, 0, &view);
        EXPECT_EQ(status, DC_FULL) << "where nothing drops, its entry is given up for good";
        EXPECT_EQ(errand.runs, 1);
        return status == DC_FULL ? static_cast<int32_t>(DC_MISS) : status;
      },
  };
  for (const Reader reader : readers) {
    cache_.close();
    open(DC_CHECKSUMS_READ);
    for (const int64_t index : {1, 2}) EXPECT_TRUE(holds(cache_, index, kBytes));
    last_byte(2) ^= 1;
    EXPECT_EQ(stats_of(cache_).damaged, 0u);
    EXPECT_EQ(reader(cache_), DC_MISS);
    EXPECT_EQ(reader(cache_), DC_MISS);
    EXPECT_EQ(dc_cache_contains(cache_, 2), DC_MISS);
    EXPECT_EQ(stats_of(cache_).damaged, 1u);
    EXPECT_EQ(stats_of(cache_).resident, 2u);
    EXPECT_EQ(report_of(cache_).entries_bad, 1u);
    EXPECT_TRUE(holds(cache_, 1, kBytes));
  }
}

TEST_F(Checked, ReadFindsDamageOfEveryKindOfByte) {
  open(DC_CHECKSUMS_READ);
  const EntryWord right = file_->entry(3);
  uint8_t *record = file_->record_of(3);
  const uint64_t bytes = head(3).record_bytes, room = file_->extent_bytes_of(3);
  for (uint64_t at = 0; at < room; at += at < 200 || at > bytes - 70 ? 1 : 37) {
    record[at] ^= 0x02;
    dc_view view;
    EXPECT_EQ(dc_cache_view(cache_, 3, &view), at < bytes ? DC_MISS : DC_OK) << "byte " << at << " of " << bytes;
    dc_cache_view_release(&view);
    EXPECT_EQ(file_->entry(3).state(), at < bytes ? State::bad : State::ready);
    record[at] ^= 0x02;
    file_->set_entry(3, right);
  }
}

TEST_F(Checked, ADamagedSampleOfADroppableCacheIsRemovedAndStoredAnew) {
  open(DC_CHECKSUMS_READ, 1);
  last_byte(2) ^= 1;
  dc_view view;
  EXPECT_EQ(dc_cache_view(cache_, 2, &view), DC_MISS);
  EXPECT_EQ(put(cache_, 2, kBytes), DC_FULL);
  EXPECT_EQ(dc_cache_remove(cache_, 2), DC_MISS) << "it was no sample any more";
  EXPECT_EQ(put(cache_, 2, kBytes), DC_OK);
  EXPECT_TRUE(holds(cache_, 2, kBytes));
  EXPECT_EQ(stats_of(cache_).damaged, 1u);
  report_of(cache_);
}

// Extents change hands all the time: a reader that summed one that is not its own any more would give a good sample up.
TEST_F(Checked, ReadNeverTakesARemovedSampleForADamagedOne) {
  dc_cache_options options = with_checksums(DC_CHECKSUMS_READ, 1);
  options.capacity_bytes = 64 << 10;
  options.sample_bytes = 4096;
  cache_ = open_cache(name_, options);
  std::atomic<bool> over{false};
  std::atomic<int64_t> hits{0};
  const auto read = [&] {
    while (!over) {
      for (int64_t index = 0; index < 20; ++index) {
        dc_view view;
        if (dc_cache_view(cache_, index, &view) != DC_OK) continue;
        ++hits;
        EXPECT_TRUE(has_pattern(view.data, view.bytes, index));
        dc_cache_view_release(&view);
      }
    }
  };
  std::thread first(read), second(read);
  for (int round = 0; round < 3000 || (hits < 1000 && round < 1'000'000); ++round) {
    const int64_t index = round * 7 % 20;
    if (put(cache_, index, 4096) == DC_FULL) dc_cache_remove(cache_, (index + 5) % 20);
    if (round % 3 == 0) dc_cache_remove(cache_, index);
  }
  over = true;
  first.join();
  second.join();
  EXPECT_GE(hits, 1000);
  EXPECT_EQ(stats_of(cache_).damaged, 0u);
  report_of(cache_);
}

TEST_F(Checked, AreAPartOfTheIdentity) {
  constexpr const char *kWords[] = {"off", "fill", "read"};
  for (uint32_t there = DC_CHECKSUMS_OFF; there <= DC_CHECKSUMS_READ; ++there) {
    const CacheName name;
    const Handle held = open_cache(name, with_checksums(there));
    for (uint32_t asked = DC_CHECKSUMS_OFF; asked <= DC_CHECKSUMS_READ; ++asked) {
      const dc_cache_options options = with_checksums(asked);
      dc_cache *cache = nullptr;
      dc_error error = {};
      const int32_t status = dc_cache_open(name.c_str(), nullptr, "test", &options, &cache, &error);
      EXPECT_EQ(status, there == asked ? DC_OK : DC_ERROR_MISMATCH);
      const std::string both =
          std::string("checksums \"") + kWords[there] + "\", asked for was \"" + kWords[asked] + "\"";
      if (there != asked) {
        EXPECT_NE(std::string(error.message).find(both), std::string::npos) << error.message;
      }
      dc_cache_close(cache);
    }
  }
}

// A loader that writes over the head of its own record: the commit must not read by what it says.
TEST_F(Checked, ACommitOfARecordWhoseHeadWasOverwrittenStaysWithinItsExtent) {
  for (const uint32_t checksums : {DC_CHECKSUMS_FILL, DC_CHECKSUMS_READ}) {
    cache_.close();
    cache_ = open_cache(name_, with_checksums(checksums));
    dc_fill *fill = nullptr;
    ASSERT_EQ(dc_cache_fill_begin(cache_, 5, 0, &fill), DC_OK);
    dc_array array = byte_array(kBytes);
    ASSERT_EQ(dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr), DC_OK);
    std::memset(array.data - 64, 0xFF, 64);
    EXPECT_EQ(dc_cache_fill_commit(fill), DC_OK);
    dc_view view;
    EXPECT_EQ(dc_cache_view(cache_, 5, &view), DC_MISS);
    EXPECT_EQ(stats_of(cache_).damaged, 1u);
  }
}

}  // namespace
}  // namespace ddpcache::test
