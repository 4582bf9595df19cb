// A header that is not as it was, and damage while others read.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../support/segment_file.hpp"
#include "record.hpp"

namespace ddpcache::test {
namespace {

using namespace std::chrono_literals;

// The header of a cache in use, which a test changes in its file.
class LiveHeader : public ::testing::Test {
 protected:
  LiveHeader() {
    EXPECT_EQ(put(cache_, 1, 100), DC_OK);
    EXPECT_EQ(pread(file_.get(), &right_, sizeof right_, 0), static_cast<ssize_t>(sizeof right_));
  }
  ~LiveHeader() override { write(right_); }

  void write(const Header &header) const {
    EXPECT_EQ(pwrite(file_.get(), &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
  }
  // Opens and attaches. An error, or a cache as ever: true.
  bool is_error_or_as_ever(const std::string &what) const {
    const dc_cache_options options = options_for(50, 1 << 20);
    bool error = false;
    for (const bool opens : {true, false}) {
      dc_cache *other = nullptr;
      const int32_t status = opens ? dc_cache_open(name_.c_str(), nullptr, "test", &options, &other, nullptr)
                                   : dc_cache_attach(name_.c_str(), nullptr, kSecond, &other, nullptr);
      error |= status != DC_OK;
      const Handle closes(other);
      if (status == DC_OK) {
        EXPECT_TRUE(holds(other, 1, 100)) << what;
        EXPECT_EQ(dc_cache_contains(other, 2), DC_MISS) << what;
      }
    }
    EXPECT_TRUE(name_.exists()) << what << ": a cache in use was deleted";
    return error;
  }

  const CacheName name_;
  const Handle cache_ = open_cache(name_, options_for(50, 1 << 20));
  const Descriptor file_{open(name_.path().c_str(), O_RDWR | O_CLOEXEC)};
  Header right_;
};

TEST_F(LiveHeader, WithAnyBitFlippedIsAnErrorOrAsEver) {
  size_t errors = 0;
  for (size_t bit = 0; bit < 8 * sizeof(Header); ++bit) {
    Header header = right_;
    reinterpret_cast<uint8_t *>(&header)[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    write(header);
    errors += is_error_or_as_ever("bit " + std::to_string(bit));
  }
  EXPECT_EQ(errors, 8 * sizeof(Header)) << "all of it is under the checksum";
}

// As an enemy does it: nothing but the meaning tells. What another geometry makes of the file is nonsense, within
// bounds.
TEST_F(LiveHeader, WithABitFlippedUnderARightChecksumIsNoCrash) {
  for (size_t bit = 0; bit < 8 * sizeof(Header); bit += 7) {
    Header header = right_;
    reinterpret_cast<uint8_t *>(&header)[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    seal_header(&header);
    write(header);
    dc_cache *other = nullptr;
    if (dc_cache_attach(name_.c_str(), nullptr, kSecond, &other, nullptr) != DC_OK) continue;
    const Handle closes(other);
    dc_view view;
    const int32_t status = dc_cache_view(other, 1, &view);
    EXPECT_TRUE(status == DC_OK || status == DC_MISS || status == DC_ERROR_RANGE) << status;
    dc_cache_view_release(&view);
    dc_cache_check(other, nullptr, nullptr);
  }
}

TEST_F(LiveHeader, OfAnOlderOrNewerFormatIsAnErrorWithBothNumbers) {
  for (const uint32_t version : {DC_FORMAT_VERSION - 1u, DC_FORMAT_VERSION + 1u, 0u, UINT32_MAX}) {
    Header header = right_;
    header.format_version = version;
    write(header);
    for (const bool opens : {true, false}) {
      const dc_cache_options options = options_for(50, 1 << 20);
      dc_cache *other = nullptr;
      dc_error error = {};
      EXPECT_EQ(opens ? dc_cache_open(name_.c_str(), nullptr, "test", &options, &other, &error)
                      : dc_cache_attach(name_.c_str(), nullptr, kSecond, &other, &error),
                DC_ERROR_FORMAT);
      const std::string text = error.message;
      EXPECT_NE(text.find("format version " + std::to_string(version) + ","), std::string::npos) << text;
      EXPECT_NE(text.find("this library has " + std::to_string(DC_FORMAT_VERSION)), std::string::npos) << text;
    }
  }
  EXPECT_TRUE(name_.exists());
}

TEST_F(LiveHeader, OfAnotherLayoutIsAnErrorWithBothHashes) {
  Header header = right_;
  header.layout_hash ^= 1;
  write(header);
  dc_cache *other = nullptr;
  dc_error error = {};
  EXPECT_EQ(dc_cache_attach(name_.c_str(), nullptr, kSecond, &other, &error), DC_ERROR_FORMAT);
  for (const uint64_t hash : {header.layout_hash, right_.layout_hash}) {
    char digits[20];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
    EXPECT_NE(std::string(error.message).find(digits), std::string::npos) << error.message;
  }
  EXPECT_TRUE(name_.exists());
}

// Entries or heads are spoilt while four threads read. What is shown lies in the arena; where each hit compares its
// checksum, an entry that was led to another sample's memory is a miss too.
struct Spoiling {
  const char *name;
  bool heads;
  uint32_t checksums;
};
class SpoiltWhileRead : public ::testing::TestWithParam<Spoiling> {};

INSTANTIATE_TEST_SUITE_P(Damage, SpoiltWhileRead,
                         ::testing::Values(Spoiling{"Entries", false, DC_CHECKSUMS_OFF},
                                           Spoiling{"EntriesWithChecksums", false, DC_CHECKSUMS_READ},
                                           Spoiling{"Heads", true, DC_CHECKSUMS_OFF}),
                         [](const auto &value) { return value.param.name; });

TEST_P(SpoiltWhileRead, IsAMissOrLiesWithinTheCache) {
  const char *wish = std::getenv("DDPCACHE_TEST_SEED");
  const uint64_t seed = wish ? std::strtoull(wish, nullptr, 0) : std::random_device()();
  SCOPED_TRACE(::testing::Message() << "DDPCACHE_TEST_SEED=" << seed);
  constexpr int64_t kLength = 40;
  constexpr uint64_t kBytes = 3000;
  const CacheName name;
  dc_cache_options options = options_for(kLength, 4 << 20);
  options.checksums = GetParam().checksums;
  const bool compared = options.checksums == DC_CHECKSUMS_READ;
  const Handle cache = open_cache(name, options);
  for (int64_t i = 0; i < kLength; ++i) ASSERT_EQ(put(cache, i, kBytes), DC_OK);
  SegmentFile file(name);
  std::vector<EntryWord> entries;
  std::vector<uint8_t *> records;
  std::vector<std::array<uint8_t, sizeof(RecordHead)>> heads;
  for (int64_t i = 0; i < kLength; ++i) {
    entries.push_back(file.entry(i));
    records.push_back(file.record_of(i));
    std::copy_n(records.back(), sizeof(RecordHead), heads.emplace_back().begin());
  }
  const auto set_head = [&](size_t index, size_t byte, uint8_t value) {
    std::atomic_ref<uint8_t>(records[index][byte]).store(value);
  };
  // Where the library's own mapping of the arena is.
  dc_view first = {};
  ASSERT_EQ(dc_cache_view(cache, 0, &first), DC_OK);
  const uint64_t from = reinterpret_cast<uint64_t>(first.data);
  dc_cache_view_release(&first);
  const uint64_t reach = file->layout.arena_bytes();
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> wrong{0}, outside{0}, hits{0}, misses{0};
  std::vector<std::thread> readers;
  for (uint64_t t = 0; t < 4; ++t) {
    readers.emplace_back([&, t] {
      std::mt19937_64 random(seed + t);
      std::vector<uint8_t> buffer(2 * kBytes);
      while (!stop) {
        const int64_t index = static_cast<int64_t>(random() % kLength);
        uint64_t got = 0;
        if (random() % 2) {
          const int32_t status = dc_cache_read(cache, index, 0, buffer.data(), buffer.size(), &got);
          if (compared) wrong += status == DC_OK && !(got == kBytes && has_pattern(buffer.data(), got, index));
          continue;
        }
        dc_view view = {};
        if (dc_cache_view(cache, index, &view) != DC_OK) {
          ++misses;
          continue;
        }
        ++hits;
        const uint64_t at = reinterpret_cast<uint64_t>(view.data);
        outside += at + view.bytes > from + reach || at + reach < from || view.bytes > reach;
        if (compared) wrong += view.bytes != kBytes || !has_pattern(view.data, view.bytes, index);
        uint64_t sum = 0;
        for (uint32_t a = 0; a < view.array_count; ++a) {
          dc_array array;
          if (dc_view_array(&view, a, &array) != DC_OK) continue;
          for (uint64_t i = 0; i < array.bytes; i += 64) sum += array.data[i];
        }
        dc_view_structure(&view, nullptr);
        dc_cache_view_release(&view);
        if (sum == UINT64_MAX) ++hits;
      }
    });
  }
  std::mt19937_64 random(seed);
  const auto end = std::chrono::steady_clock::now() + 2s;
  while (std::chrono::steady_clock::now() < end) {
    const size_t index = random() % kLength;
    const EntryWord right = entries[index];
    if (GetParam().heads) {
      set_head(index, random() % sizeof(RecordHead), static_cast<uint8_t>(random()));
    } else {
      const Place place = {static_cast<uint32_t>(random() % 4096), static_cast<uint32_t>(random() % (1 << 20))};
      const Place near = {right.place().step, static_cast<uint32_t>(random() % 64)};
      const uint32_t generation = static_cast<uint32_t>(random() % (1 << 29));
      const Place far = {right.place().step, place.slot};
      const EntryWord words[] = {EntryWord::ready(right.generation(), place),
                                 EntryWord::ready(right.generation(), near),
                                 EntryWord::ready(right.generation(), far),
                                 EntryWord::ready(generation, near),
                                 EntryWord::writing(generation, {static_cast<uint32_t>(random() % 4096), 1}),
                                 EntryWord(random())};
      file.set_entry(static_cast<int64_t>(index), words[random() % 6]);
    }
    if (random() % 2) std::this_thread::yield();
    if (!GetParam().heads || random() % 2) file.set_entry(static_cast<int64_t>(index), right);
    if (GetParam().heads && random() % 2) {
      for (size_t byte = 0; byte < sizeof(RecordHead); ++byte) set_head(index, byte, heads[index][byte]);
    }
  }
  stop = true;
  for (std::thread &reader : readers) reader.join();
  EXPECT_EQ(outside, 0u);
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(hits, 100u);
  EXPECT_GT(misses, 100u);
}

}  // namespace
}  // namespace ddpcache::test
