// A read-only attach: it sees what others store, and changes nothing, not even by mistake.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "../support/segment_file.hpp"
#include "ddpcache/keys.h"

namespace ddpcache::test {
namespace {

constexpr uint64_t kBytes = 3000;

Handle look_only(const CacheName &name) {
  dc_cache *cache = nullptr;
  dc_error error = {};
  EXPECT_EQ(dc_cache_attach_read_only(name.c_str(), nullptr, 10 * kSecond, &cache, &error), DC_OK) << error.message;
  return Handle(cache);
}

std::string bytes_of(const CacheName &name) {
  std::ifstream file(name.path(), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Whether an address lies in a mapping of this cache's file, which then must be one that nobody can write through.
bool lies_in(const CacheName &name, const void *address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uint64_t begin = 0, end = 0;
    char rights[8] = "";
    if (std::sscanf(line.c_str(), "%lx-%lx %7s", &begin, &end, rights) != 3) continue;
    const uint64_t wanted = reinterpret_cast<uint64_t>(address);
    if (line.find(name.path()) == std::string::npos || wanted < begin || wanted >= end) continue;
    EXPECT_STREQ(rights, "r--s");
    return true;
  }
  return false;
}

struct Looking : ::testing::Test {
  void make(uint32_t droppable, uint32_t checksums = DC_CHECKSUMS_OFF) {
    dc_cache_options options = options_for(50, 4 << 20);
    options.droppable = droppable;
    options.keyed = 1;
    options.checksums = checksums;
    cache_ = open_cache(name_, options);
    for (int64_t index = 0; index < 10; ++index) EXPECT_EQ(put(cache_, index, kBytes), DC_OK);
    looking_ = look_only(name_);
  }

  const CacheName name_;
  Handle cache_;
  Handle looking_;
};

class LookingAtBoth : public Looking, public ::testing::WithParamInterface<uint32_t> {
 protected:
  LookingAtBoth() { make(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Droppable, LookingAtBoth, ::testing::Values(0u, 1u));

TEST_P(LookingAtBoth, SeesWhatOthersStoreBeforeAndAfterwards) {
  for (int64_t index = 0; index < 10; ++index) EXPECT_TRUE(holds(looking_, index, kBytes));
  EXPECT_FALSE(holds(looking_, 20, kBytes));
  EXPECT_EQ(put(cache_, 20, kBytes), DC_OK);
  EXPECT_TRUE(holds(looking_, 20, kBytes));
  EXPECT_EQ(dc_cache_contains(looking_, 20), DC_OK);
  EXPECT_EQ(dc_cache_contains(looking_, 21), DC_MISS);
  uint8_t bitmap[7];
  EXPECT_EQ(dc_cache_residency(looking_, 0, 50, bitmap), DC_OK);
  EXPECT_EQ(bitmap[0], 0xFF);
  EXPECT_EQ(bitmap[2], 0x10);
}

TEST_P(LookingAtBoth, CopiesSamplesAndBatches) {
  std::vector<uint8_t> buffer(3 * kBytes);
  uint64_t bytes = 0;
  EXPECT_EQ(dc_cache_read(looking_, 4, 0, buffer.data(), kBytes, &bytes), DC_OK);
  EXPECT_EQ(bytes, kBytes);
  EXPECT_TRUE(has_pattern(buffer.data(), kBytes, 4));
  const int64_t indices[] = {7, 30, 1};
  int32_t statuses[3];
  EXPECT_EQ(dc_cache_read_batch(looking_, indices, 3, 0, buffer.data(), kBytes, statuses, 2), DC_MISS);
  EXPECT_EQ(statuses[1], DC_MISS);
  EXPECT_TRUE(has_pattern(buffer.data(), kBytes, 7));
  EXPECT_TRUE(has_pattern(buffer.data() + 2 * kBytes, kBytes, 1));
}

TEST_P(LookingAtBoth, ChangesNoByteOfTheFile) {
  int64_t index = -1;
  const uint8_t known[] = {'k'}, unknown[] = {'u'};
  ASSERT_EQ(dc_cache_intern(cache_, known, 1, &index), DC_OK);
  const int64_t interned = index;
  const std::string before = bytes_of(name_);
  dc_fill *fill = nullptr;
  for (const int64_t wanted : {0, 40}) {
    EXPECT_EQ(dc_cache_fill_begin(looking_, wanted, 0, &fill), DC_ERROR_UNSUPPORTED);
    EXPECT_EQ(fill, nullptr);
    EXPECT_EQ(dc_cache_remove(looking_, wanted), DC_ERROR_UNSUPPORTED);
  }
  const int64_t indices[] = {1, 2};
  int64_t removed = -1;
  EXPECT_EQ(dc_cache_remove_batch(looking_, indices, 2, &removed), DC_ERROR_UNSUPPORTED);
  EXPECT_EQ(removed, 0);
  EXPECT_EQ(dc_cache_clear(looking_, &removed), DC_ERROR_UNSUPPORTED);
  EXPECT_EQ(dc_cache_intern(looking_, known, 1, &index), DC_OK);
  EXPECT_EQ(index, interned);
  EXPECT_EQ(dc_cache_intern(looking_, unknown, 1, &index), DC_FULL);
  EXPECT_EQ(dc_cache_lookup(looking_, unknown, 1, &index), DC_MISS);
  for (int64_t i = 0; i < 10; ++i) EXPECT_TRUE(holds(looking_, i, kBytes));
  EXPECT_FALSE(holds(looking_, 40, kBytes));
  Errand errand{kBytes};
  dc_view view;
  EXPECT_EQ(dc_cache_load(looking_, 3, load_pattern, &errand, 0, &view), DC_OK);
  dc_cache_view_release(&view);
  EXPECT_EQ(errand.runs, 0);
  EXPECT_EQ(dc_cache_populate(looking_), DC_OK);
  report_of(looking_);
  stats_of(looking_);
  info_of(looking_);
  EXPECT_EQ(bytes_of(name_), before);
}

TEST_P(LookingAtBoth, LoadsAMissForItsCallerAlone) {
  struct Uncached {
    int runs = 0;
    int32_t allocated = DC_OK;
  } seen;
  const dc_loader loader = [](dc_fill *fill, int64_t, void *user) -> int32_t {
    Uncached *own = static_cast<Uncached *>(user);
    ++own->runs;
    dc_array array = byte_array(kBytes);
    own->allocated = dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr);
    return DC_LOADED;
  };
  dc_view view;
  EXPECT_EQ(dc_cache_load(looking_, 40, loader, &seen, 0, &view), DC_FULL);
  EXPECT_EQ(seen.runs, 1);
  EXPECT_EQ(seen.allocated, DC_FULL);
  // The same at once, where another client is filling it.
  dc_fill *fill = nullptr;
  ASSERT_EQ(dc_cache_fill_begin(cache_, 41, 0, &fill), DC_OK);
  EXPECT_EQ(dc_cache_load(looking_, 41, loader, &seen, 60 * kSecond, &view), DC_FULL);
  EXPECT_EQ(seen.runs, 2);
  EXPECT_EQ(dc_cache_fill_abort(fill), DC_OK);
  EXPECT_EQ(dc_cache_contains(cache_, 40), DC_MISS);
}

TEST_P(LookingAtBoth, IsNoClientAndCountsNothing) {
  const dc_cache_stats before = stats_of(cache_);
  for (int64_t index = 0; index < 20; ++index) holds(looking_, index, kBytes);
  const dc_cache_stats own = stats_of(looking_, DC_STATS_CLIENT), all = stats_of(looking_);
  EXPECT_EQ(own.hits + own.misses + own.fills + own.bytes_copied, 0u);
  EXPECT_EQ(all.hits, before.hits);
  EXPECT_EQ(all.misses, before.misses);
  EXPECT_EQ(all.resident, 10u);
  const dc_cache_info info = info_of(looking_);
  EXPECT_EQ(info.clients_attached, 1u);
  EXPECT_EQ(info.read_only, 1u);
  EXPECT_EQ(info.created, 0u);
  EXPECT_EQ(info_of(cache_).read_only, 0u);
  EXPECT_EQ(report_of(looking_).clients, 1u);
}

TEST_P(LookingAtBoth, AViewOutlivesItsHandle) {
  dc_view view;
  ASSERT_EQ(dc_cache_view(looking_, 2, &view), DC_OK);
  EXPECT_EQ(looking_.close(), DC_OK);
  EXPECT_TRUE(has_pattern(view.data, kBytes, 2));
  dc_array array;
  EXPECT_EQ(dc_view_array(&view, 0, &array), DC_OK);
  EXPECT_EQ(reinterpret_cast<uint64_t>(array.data) % 64, 0u);
  dc_cache_view_release(&view);
}

TEST_P(LookingAtBoth, KeepsTheCacheAliveAndRemovesItAsItsLast) {
  cache_.close();
  EXPECT_TRUE(name_.exists());
  EXPECT_TRUE(holds(looking_, 5, kBytes));
  EXPECT_EQ(info_of(looking_).clients_attached, 0u);
  {
    const Handle third = attach_cache(name_.c_str());
    EXPECT_TRUE(holds(third, 5, kBytes));
  }
  EXPECT_TRUE(name_.exists());
  looking_.close();
  EXPECT_FALSE(name_.exists());
}

TEST_P(LookingAtBoth, HoldsNothingThroughWhichItCouldWrite) {
  cache_.close();
  ASSERT_TRUE(holds(looking_, 5, kBytes));
  std::ifstream maps("/proc/self/maps");
  int mapped = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(name_.path()) == std::string::npos) continue;
    ++mapped;
    EXPECT_NE(line.find(" r--s "), std::string::npos) << line;
  }
  EXPECT_EQ(mapped, 1);
  for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    char target[PATH_MAX] = "";
    if (readlink(entry.path().c_str(), target, sizeof target - 1) <= 0 || name_.path() != target) continue;
    EXPECT_EQ(fcntl(std::stoi(entry.path().filename()), F_GETFL) & O_ACCMODE, O_RDONLY);
  }
}

TEST_F(Looking, WithoutACopyWhereNothingDrops) {
  make(0);
  dc_view view;
  ASSERT_EQ(dc_cache_view(looking_, 1, &view), DC_OK);
  EXPECT_TRUE(lies_in(name_, view.data));
  dc_cache_view_release(&view);
}

TEST_F(Looking, ByACopyWhereSamplesCanGo) {
  make(1);
  std::vector<dc_view> views(3000);  // more than a client has names
  for (dc_view &view : views) ASSERT_EQ(dc_cache_view(looking_, 1, &view), DC_OK);
  EXPECT_FALSE(lies_in(name_, views[0].data));
  EXPECT_EQ(report_of(cache_).extents_named, 0u) << "it holds up nobody";
  ASSERT_EQ(dc_cache_remove(cache_, 1), DC_OK);
  for (int64_t index = 10; index < 40; ++index) put(cache_, index, kBytes);
  for (dc_view &view : views) {
    EXPECT_TRUE(has_pattern(view.data, kBytes, 1));
    dc_cache_view_release(&view);
  }
  EXPECT_FALSE(holds(looking_, 1, kBytes));
}

TEST_F(Looking, TakesNoPlaceInAFullTableOfClients) {
  dc_cache_options options = options_for(10, 1 << 20);
  options.clients_max = 1;
  cache_ = open_cache(name_, options);
  dc_cache *refused = nullptr;
  EXPECT_EQ(dc_cache_attach(name_.c_str(), nullptr, 0, &refused, nullptr), DC_ERROR_CLIENTS);
  const Handle first = look_only(name_), second = look_only(name_);
  EXPECT_EQ(put(cache_, 1, 100), DC_OK);
  EXPECT_TRUE(holds(first, 1, 100));
  EXPECT_TRUE(holds(second, 1, 100));
}

TEST_F(Looking, AtAKeptCacheThatNobodyUses) {
  dc_cache_options options = options_for(10, 1 << 20);
  options.keep = 1;
  cache_ = open_cache(name_, options);
  EXPECT_EQ(put(cache_, 1, 100), DC_OK);
  cache_.close();
  looking_ = look_only(name_);
  EXPECT_EQ(info_of(looking_).adopted, 1u);
  EXPECT_TRUE(holds(looking_, 1, 100));
  looking_.close();
  EXPECT_TRUE(name_.exists());
}

TEST_F(Looking, AtNothingIsAnError) {
  dc_cache *cache = reinterpret_cast<dc_cache *>(1);
  dc_error error = {};
  EXPECT_EQ(dc_cache_attach_read_only(name_.c_str(), nullptr, 0, &cache, &error), DC_ERROR_NOT_FOUND);
  EXPECT_EQ(cache, nullptr);
  EXPECT_NE(std::string(error.message).find(name_.c_str()), std::string::npos) << error.message;
  EXPECT_EQ(dc_cache_attach_read_only("a/b", nullptr, 0, &cache, &error), DC_ERROR_NAME);
  EXPECT_EQ(dc_cache_attach_read_only(nullptr, nullptr, 0, &cache, &error), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_attach_read_only("a", nullptr, -1, &cache, &error), DC_ERROR_RANGE);
  EXPECT_EQ(dc_cache_attach_read_only("a", nullptr, 0, nullptr, &error), DC_ERROR_ARGUMENT);
}

TEST_F(Looking, MakesNoLockFileAndNeedsNone) {
  char directory[] = "/dev/shm/test-looking-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  const std::string lock_file = std::string(directory) + "/ddpcache." + std::to_string(geteuid());
  dc_cache *cache = nullptr;
  EXPECT_EQ(dc_cache_attach_read_only("it", directory, 0, &cache, nullptr), DC_ERROR_NOT_FOUND);
  EXPECT_NE(access(lock_file.c_str(), F_OK), 0);
  const dc_cache_options options = options_for(10, 1 << 20);
  ASSERT_EQ(dc_cache_open("it", directory, "test", &options, &cache, nullptr), DC_OK);
  Handle made(cache);
  ASSERT_EQ(put(made, 1, 100), DC_OK);
  ASSERT_EQ(unlink(lock_file.c_str()), 0) << "as a careless person does";
  ASSERT_EQ(dc_cache_attach_read_only("it", directory, 0, &cache, nullptr), DC_OK);
  Handle looking(cache);
  EXPECT_NE(access(lock_file.c_str(), F_OK), 0);
  EXPECT_TRUE(holds(looking, 1, 100));
  looking.close();
  made.close();
  unlink(lock_file.c_str());
  EXPECT_EQ(rmdir(directory), 0) << "something is left";
}

TEST_F(Looking, ADamagedSampleIsAMissAndStaysAsItIs) {
  for (const uint32_t droppable : {0u, 1u}) {
    make(droppable, DC_CHECKSUMS_READ);
    const SegmentFile file(name_);
    file.record_of(3)[kBytes / 2] ^= 1;  // its data
    file.record_of(4)[0] ^= 1;           // its magic
    for (const int64_t index : {3, 4}) {
      EXPECT_FALSE(holds(looking_, index, kBytes));
      EXPECT_EQ(file.entry(index).state(), State::ready);
      EXPECT_FALSE(holds(cache_, index, kBytes));
      EXPECT_EQ(file.entry(index).state(), State::bad);
    }
    EXPECT_TRUE(holds(looking_, 5, kBytes));
    looking_.close();
    cache_.close();
  }
}

// Words and bytes of any value: what is read of them is a miss or within bounds. Under ASan the copies are exact.
TEST_F(Looking, GarbageAnywhereIsReadWithinItsBoundsOnly) {
  const char *wish = std::getenv("DDPCACHE_TEST_SEED");
  const uint64_t seed = wish ? std::strtoull(wish, nullptr, 0) : std::random_device()();
  SCOPED_TRACE(::testing::Message() << "DDPCACHE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  make(1);
  SegmentFile file(name_);
  uint64_t hits = 0;
  for (int round = 0; round < 5000; ++round) {
    const int64_t index = static_cast<int64_t>(random() % 10);
    const EntryWord right = file.entry(index);
    uint8_t *record = file.record_of(index);
    std::vector<uint8_t> saved(record, record + 64);
    if (random() % 2) record[random() % 64] = static_cast<uint8_t>(random());
    if (random() % 4 == 0) file.set_entry(index, EntryWord(random() % 2 ? random() : (random() & 0xFF'0000'001Full)));
    dc_view view;
    if (dc_cache_view(looking_, index, &view) == DC_OK) {
      ++hits;
      uint64_t sum = 0;
      for (uint32_t a = 0; a < view.array_count; ++a) {
        dc_array array;
        if (dc_view_array(&view, a, &array) != DC_OK) continue;
        for (uint64_t i = 0; i < array.bytes; ++i) sum += array.data[i];
      }
      dc_view_structure(&view, nullptr);
      EXPECT_LT(sum, UINT64_MAX);
      dc_cache_view_release(&view);
    }
    uint8_t buffer[kBytes];
    dc_cache_read(looking_, index, static_cast<uint32_t>(random() % 3), buffer, sizeof buffer, nullptr);
    if (round % 50 == 0) dc_cache_check(looking_, nullptr, nullptr);
    file.set_entry(index, right);
    std::copy(saved.begin(), saved.end(), record);
  }
  EXPECT_GT(hits, 500u);
  report_of(cache_);
}

}  // namespace
}  // namespace ddpcache::test
