// The key table: one index a key, one key an index, in a table that may be full to the last slot.
#include "../../src/cache/keys.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <ddpcache/ddpcache.hpp>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../support/caches.hpp"
#include "ddpcache/keys.h"

namespace ddpcache::test {
namespace {

constexpr size_t kSlots = 8;

// A table in memory of its own, for hashes of the test's choice.
class Table : public ::testing::Test {
 protected:
  // A key with this tag whose search begins at this slot; `number` tells apart those that agree in both.
  static KeyHash at_home(int64_t slot, uint64_t tag, uint64_t number = 1) {
    const uint64_t step = UINT64_MAX / kSlots + 1;
    return KeyHash::of_halves(tag, static_cast<uint64_t>(slot) * step + number);
  }
  int64_t intern(KeyHash key) {
    int64_t index = -1;
    const int32_t status = table_.intern(key, &index, &fresh_);
    EXPECT_TRUE(status == DC_OK || (status == DC_FULL && !fresh_));
    return status == DC_OK ? index : -1;
  }
  int64_t lookup(KeyHash key) const {
    int64_t index = -1;
    return table_.lookup(key, &index) == DC_OK ? index : -1;
  }

  std::vector<KeySlot> slots_ = std::vector<KeySlot>(kSlots);
  const KeyTable table_{slots_};
  bool fresh_ = false;
};

TEST_F(Table, AKeyHasTheIndexOfItsHomeAndKeepsIt) {
  const KeyHash key = at_home(3, 7);
  EXPECT_EQ(table_.home(key), 3);
  EXPECT_EQ(lookup(key), -1);
  EXPECT_EQ(intern(key), 3);
  EXPECT_TRUE(fresh_);
  EXPECT_EQ(intern(key), 3);
  EXPECT_FALSE(fresh_);
  EXPECT_EQ(lookup(key), 3);
}

TEST_F(Table, KeysOfOneHomeGoOnPastTheEnd) {
  EXPECT_EQ(intern(at_home(6, 1)), 6);
  EXPECT_EQ(intern(at_home(6, 2)), 7);
  EXPECT_EQ(intern(at_home(6, 3)), 0);
  EXPECT_EQ(intern(at_home(7, 4)), 1);
  EXPECT_EQ(lookup(at_home(6, 3)), 0);
  EXPECT_EQ(lookup(at_home(7, 4)), 1);
  EXPECT_EQ(lookup(at_home(6, 5)), -1);
}

TEST_F(Table, KeysThatDifferInTheRestAloneAreTwo) {
  EXPECT_EQ(intern(at_home(2, 9, 1)), 2);
  EXPECT_EQ(intern(at_home(2, 9, 2)), 3);
  EXPECT_EQ(intern(at_home(2, 9, 1)), 2);
  EXPECT_EQ(lookup(at_home(2, 9, 2)), 3);
  EXPECT_EQ(lookup(at_home(2, 9, 3)), -1);
}

TEST_F(Table, KeysThatDifferInTheTagAloneAreTwo) {
  EXPECT_EQ(intern(at_home(2, 9)), 2);
  EXPECT_EQ(intern(at_home(2, 8)), 3);
  EXPECT_EQ(lookup(at_home(2, 9)), 2);
}

TEST_F(Table, HalvesOfZeroAreTakenAsOne) {
  const KeyHash zeros = KeyHash::of_halves(0, 0);
  EXPECT_EQ(zeros, (KeyHash{1, 1}));
  EXPECT_EQ(intern(zeros), 0);
  EXPECT_EQ(lookup(zeros), 0);
}

TEST_F(Table, EveryKeyOfAFullTableIsFoundAndNoFurtherOneIsTakenIn) {
  std::set<int64_t> indices;
  for (uint64_t i = 0; i < kSlots; ++i) indices.insert(intern(at_home(5, 1 + i / 2, 1 + i)));
  EXPECT_EQ(indices.size(), kSlots);
  EXPECT_EQ(*indices.begin(), 0);
  EXPECT_EQ(intern(at_home(5, 1, 100)), -1);
  EXPECT_EQ(intern(at_home(0, 100)), -1);
  EXPECT_EQ(lookup(at_home(0, 100)), -1);
  for (uint64_t i = 0; i < kSlots; ++i) {
    EXPECT_EQ(intern(at_home(5, 1 + i / 2, 1 + i)), lookup(at_home(5, 1 + i / 2, 1 + i)));
    EXPECT_FALSE(fresh_);
  }
}

TEST_F(Table, ATableOfOneSlotHoldsOneKey) {
  KeySlot slot = {};
  const KeyTable table({&slot, 1});
  int64_t index = -1;
  EXPECT_EQ(table.intern({1, UINT64_MAX}, &index, &fresh_), DC_OK);
  EXPECT_EQ(index, 0);
  EXPECT_EQ(table.intern({1, 1}, &index, &fresh_), DC_FULL);
  EXPECT_EQ(table.lookup({1, UINT64_MAX}, &index), DC_OK);
}

// What a process leaves that is killed between its two CASes.
class Unfinished : public Table {
 protected:
  Unfinished() { slots_[2].tag = 9; }
};

TEST_F(Unfinished, IsCompletedByTheNextWhoHasTheKey) {
  EXPECT_EQ(lookup(at_home(2, 9)), -1);
  EXPECT_EQ(intern(at_home(2, 9)), 2);
  EXPECT_TRUE(fresh_);
}

TEST_F(Unfinished, IsTakenByAnotherKeyOfTheTag) {
  EXPECT_EQ(intern(at_home(2, 9, 2)), 2);
  EXPECT_EQ(intern(at_home(2, 9, 1)), 3) << "whose process was killed, if it comes again";
  EXPECT_EQ(lookup(at_home(2, 9, 2)), 2);
}

TEST_F(Unfinished, IsPassedByKeysOfOtherTags) {
  EXPECT_EQ(intern(at_home(2, 8)), 3);
  EXPECT_EQ(lookup(at_home(2, 8)), 3);
  EXPECT_EQ(intern(at_home(1, 9)), 1);
  EXPECT_EQ(intern(at_home(1, 9, 2)), 2) << "a key from elsewhere may take it";
}

TEST_F(Table, LookupNeverWrites) {
  // In memory that may only be read.
  void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  const KeyTable table({static_cast<KeySlot *>(page), kSlots});
  int64_t index = -1;
  ASSERT_EQ(table.intern(at_home(4, 1), &index, &fresh_), DC_OK);
  table.intern(at_home(5, 1), &index, &fresh_);
  static_cast<KeySlot *>(page)[6].tag = 3;
  ASSERT_EQ(mprotect(page, 4096, PROT_READ), 0);
  EXPECT_EQ(table.lookup(at_home(4, 1), &index), DC_OK);
  EXPECT_EQ(index, 4);
  EXPECT_EQ(table.lookup(at_home(4, 3), &index), DC_MISS);
  EXPECT_EQ(table.lookup(at_home(0, 3), &index), DC_MISS);
  munmap(page, 4096);
}

// Few homes, few tags, many threads: every collision that there can be.
TEST(KeyTable, ThreadsThatInternTheSameFewHashesAgree) {
  constexpr int kThreads = 8;
  std::mt19937_64 random(20240607);
  for (int round = 0; round < 300; ++round) {
    std::vector<KeySlot> slots(64);
    const KeyTable table(slots);
    std::vector<KeyHash> keys;
    for (uint64_t i = 0; i < 64; ++i) keys.push_back(KeyHash::of_halves(random() % 4, (random() % 4) << 62 | (i + 1)));
    std::vector<std::vector<int64_t>> seen(kThreads, std::vector<int64_t>(keys.size(), -1));
    std::atomic<int> fresh_in_all{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = 0; i < keys.size(); ++i) {
          const size_t k = (i + static_cast<size_t>(t) * 8) % keys.size();
          bool fresh = false;
          EXPECT_EQ(table.intern(keys[k], &seen[static_cast<size_t>(t)][k], &fresh), DC_OK);
          fresh_in_all += fresh;
        }
      });
    }
    for (std::thread &thread : threads) thread.join();
    EXPECT_EQ(std::set<int64_t>(seen[0].begin(), seen[0].end()).size(), keys.size());
    for (const auto &indices : seen) ASSERT_EQ(indices, seen[0]);
    EXPECT_EQ(fresh_in_all, static_cast<int>(keys.size()));
  }
}

const uint8_t *bytes_of(const std::string &text) { return reinterpret_cast<const uint8_t *>(text.data()); }

class Keyed : public ::testing::Test {
 protected:
  static dc_cache_options options(int64_t length) {
    dc_cache_options options = options_for(length, 1 << 20, 64);
    options.keyed = 1;
    return options;
  }
  int64_t intern(const std::string &key) {
    int64_t index = -1;
    EXPECT_EQ(dc_cache_intern(cache_, bytes_of(key), key.size(), &index), DC_OK);
    return index;
  }

  const CacheName name_;
  Handle cache_ = open_cache(name_, options(1300));
};

// Of files that are kept, and of programs in other languages: no release may hash otherwise.
TEST_F(Keyed, AKeysHashAndHomeAreWhatTheFormatSays) {
  EXPECT_EQ(KeyHash::of(nullptr, 0), (KeyHash{0x6001c324468d497f, 0x99aa06d3014798d8}));
  EXPECT_EQ(intern(""), 780) << "floor(0x99aa06d3014798d8 * 1300 / 2^64)";
}

TEST_F(Keyed, EveryHandleGivesAKeyTheSameIndex) {
  std::map<std::string, int64_t> indices;
  for (int i = 0; i < 1000; ++i) indices["train/" + std::to_string(i)] = -1;
  for (auto &[key, index] : indices) index = intern(key);
  std::set<int64_t> different;
  const Handle other = attach_cache(name_.c_str());
  for (const auto &[key, index] : indices) {
    int64_t found = -1;
    ASSERT_EQ(dc_cache_lookup(other, bytes_of(key), key.size(), &found), DC_OK);
    ASSERT_EQ(found, index);
    ASSERT_GE(index, 0);
    ASSERT_LT(index, 1300);
    different.insert(index);
  }
  EXPECT_EQ(different.size(), indices.size());
  EXPECT_EQ(report_of(cache_).keys, 1000u);
  EXPECT_EQ(report_of(cache_).keys_unfinished, 0u);
  EXPECT_EQ(info_of(other).keys, 1000u);
  EXPECT_EQ(info_of(other).keyed, 1u);
}

TEST_F(Keyed, AnyBytesAreAKey) {
  const std::set<int64_t> different = {intern(""), intern(std::string(1, '\0')), intern(std::string(2, '\0')),
                                       intern(std::string(100'000, 'x')), intern("x")};
  EXPECT_EQ(different.size(), 5u);
  int64_t index = -1;
  EXPECT_EQ(dc_cache_intern(cache_, nullptr, 0, &index), DC_OK);
  EXPECT_EQ(index, intern(""));
}

TEST_F(Keyed, TwoDataSetsOfOneCacheReadTheirOwnSamples) {
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(put(cache_, intern("train/" + std::to_string(i)), 64), DC_OK);
    ASSERT_EQ(put(cache_, intern("val/" + std::to_string(i)), 64), DC_OK) << "taken by a sample of the other";
  }
  EXPECT_EQ(report_of(cache_).entries_ready, 400u);
}

TEST_F(Keyed, LookingAtAKeyFindsItsSample) {
  const std::string key = "val/17";
  dc_view view;
  EXPECT_EQ(dc_cache_view_key(cache_, bytes_of(key), key.size(), &view), DC_MISS);
  EXPECT_EQ(view.owner, nullptr);
  EXPECT_EQ(report_of(cache_).keys, 0u) << "a look gives no index";
  EXPECT_EQ(stats_of(cache_).misses, 1u);
  int64_t index = -7;
  EXPECT_EQ(dc_cache_lookup(cache_, bytes_of(key), key.size(), &index), DC_MISS);
  EXPECT_EQ(index, -7);
  index = intern(key);
  EXPECT_EQ(dc_cache_view_key(cache_, bytes_of(key), key.size(), &view), DC_MISS);
  ASSERT_EQ(put(cache_, index, 64), DC_OK);
  ASSERT_EQ(dc_cache_view_key(cache_, bytes_of(key), key.size(), &view), DC_OK);
  EXPECT_EQ(view.index, index);
  EXPECT_TRUE(has_pattern(view.data, view.bytes, index));
  dc_cache_view_release(&view);
  EXPECT_EQ(stats_of(cache_).misses, 2u);
  EXPECT_EQ(stats_of(cache_).hits, 1u);
}

TEST_F(Keyed, KeysOutliveTheirSamples) {
  const CacheName name;
  dc_cache_options droppable = options(10);
  droppable.droppable = 1;
  const Handle cache = open_cache(name, droppable);
  int64_t index = -1, again = -1;
  ASSERT_EQ(dc_cache_intern(cache, bytes_of("a"), 1, &index), DC_OK);
  ASSERT_EQ(put(cache, index, 64), DC_OK);
  EXPECT_EQ(dc_cache_remove(cache, index), DC_OK);
  EXPECT_EQ(dc_cache_clear(cache, nullptr), DC_OK);
  EXPECT_EQ(dc_cache_lookup(cache, bytes_of("a"), 1, &again), DC_OK);
  EXPECT_EQ(again, index);
}

TEST_F(Keyed, AFullTableIsFullForNewKeysOnly) {
  const CacheName name;
  const Handle cache = open_cache(name, options(50));
  std::set<int64_t> indices;
  for (int i = 0; i < 50; ++i) {
    const std::string key = std::to_string(i);
    int64_t index = -1;
    ASSERT_EQ(dc_cache_intern(cache, bytes_of(key), key.size(), &index), DC_OK);
    indices.insert(index);
  }
  EXPECT_EQ(indices.size(), 50u);
  int64_t index = -7;
  EXPECT_EQ(dc_cache_intern(cache, bytes_of("x"), 1, &index), DC_FULL);
  EXPECT_EQ(dc_cache_lookup(cache, bytes_of("x"), 1, &index), DC_MISS);
  EXPECT_EQ(index, -7);
  EXPECT_EQ(dc_cache_intern(cache, bytes_of("7"), 1, &index), DC_OK);
  EXPECT_EQ(report_of(cache).keys, 50u);
}

TEST_F(Keyed, ACacheWithoutKeysSaysSo) {
  const CacheName name;
  const Handle cache = open_cache(name, options_for(10, 1 << 20, 64));
  int64_t index = -7;
  dc_view view;
  EXPECT_EQ(dc_cache_intern(cache, bytes_of("a"), 1, &index), DC_ERROR_UNSUPPORTED);
  EXPECT_EQ(dc_cache_lookup(cache, bytes_of("a"), 1, &index), DC_ERROR_UNSUPPORTED);
  EXPECT_EQ(dc_cache_view_key(cache, bytes_of("a"), 1, &view), DC_ERROR_UNSUPPORTED);
  EXPECT_EQ(index, -7);
  EXPECT_EQ(info_of(cache).keyed, 0u);
}

TEST_F(Keyed, ArgumentsAreChecked) {
  int64_t index = -7;
  dc_view view;
  EXPECT_EQ(dc_cache_intern(nullptr, bytes_of("a"), 1, &index), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_intern(cache_, nullptr, 1, &index), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_intern(cache_, bytes_of("a"), 1, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_lookup(nullptr, bytes_of("a"), 1, &index), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_lookup(cache_, nullptr, 1, &index), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_lookup(cache_, bytes_of("a"), 1, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_view_key(cache_, bytes_of("a"), 1, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_view_key(cache_, nullptr, 1, &view), DC_ERROR_ARGUMENT);
  dc_cache_options twice = options(10);
  twice.keyed = 2;
  const CacheName name;
  dc_cache *cache = nullptr;
  dc_error error = {};
  EXPECT_EQ(dc_cache_open(name.c_str(), nullptr, nullptr, &twice, &cache, &error), DC_ERROR_RANGE);
  EXPECT_STREQ(error.message, "keyed 2 is not in 0..1");
}

TEST_F(Keyed, KeysArePartOfTheIdentity) {
  dc_cache *cache = nullptr;
  dc_error error = {};
  const dc_cache_options unkeyed = options_for(1300, 1 << 20, 64);
  EXPECT_EQ(dc_cache_open(name_.c_str(), nullptr, "test", &unkeyed, &cache, &error), DC_ERROR_MISMATCH);
  EXPECT_NE(std::string(error.message).find("has keyed 1, asked for was 0"), std::string::npos) << error.message;
}

TEST_F(Keyed, AnEstimateCountsSixteenBytesAKey) {
  uint64_t capacity = 0, with = 0, without = 0;
  dc_cache_options keyed = options(1'000'000);
  ASSERT_EQ(dc_cache_estimate(&keyed, 64, &capacity, &with, nullptr), DC_OK);
  keyed.keyed = 0;
  ASSERT_EQ(dc_cache_estimate(&keyed, 64, &capacity, &without, nullptr), DC_OK);
  EXPECT_NEAR(static_cast<double>(with - without), 16e6, 4096);
}

TEST_F(Keyed, CxxInternsLooksUpAndViews) {
  cxx::Cache cache = cxx::Cache::attach(name_.c_str());
  EXPECT_EQ(cache.lookup("a"), std::nullopt);
  const int64_t index = cache.intern("a");
  EXPECT_EQ(cache.lookup("a"), index);
  EXPECT_FALSE(cache.view("a"));
  ASSERT_EQ(put(cache_, index, 64), DC_OK);
  EXPECT_TRUE(cache.view("a"));
  EXPECT_TRUE(cache.view(index));
  EXPECT_EQ(cache.check().keys, 1u);
  const CacheName name;
  cxx::Cache small(name.c_str(), "", [] {
    cxx::CacheOptions options(1);
    options.capacity_bytes = 1 << 20;
    options.keyed = 1;
    return options;
  }());
  small.intern("a");
  EXPECT_THROW(small.intern("b"), cxx::Full);
}

}  // namespace
}  // namespace ddpcache::test
