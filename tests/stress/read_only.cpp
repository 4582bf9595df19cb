// Processes that only look at a cache whose extents change hands all the time: every value that they get is right.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <vector>

#include "crew.hpp"

namespace ddpcache::test {
namespace {

constexpr int64_t kLength = 60;
constexpr int kWriters = 2;
constexpr int kReaders = 2;

// Sizes of the same few classes, so that extents are taken by samples of other sizes.
uint64_t size_of(int64_t index) { return 1000 + static_cast<uint64_t>(index) * 7919 % 9000; }

struct Totals {
  std::atomic<int> writing{0};
  std::atomic<uint64_t> hits{0};
  std::atomic<uint64_t> misses{0};
};

bool write_and_remove(dc_cache *cache, std::mt19937_64 &random, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const int64_t index = static_cast<int64_t>(random() % kLength);
    const int32_t status = put(cache, index, size_of(index));
    if (status == DC_OK || status == DC_BUSY) continue;
    if (status != DC_PRESENT && status != DC_FULL) return false;
    const int32_t removed = dc_cache_remove(cache, static_cast<int64_t>(random() % kLength));
    if (removed != DC_OK && removed != DC_MISS) return false;
  }
  return true;
}

bool look(dc_cache *cache, int64_t index, std::vector<uint8_t> &buffer, bool by_view, Totals *totals) {
  const uint64_t bytes = size_of(index);
  bool right = true;
  int32_t status;
  if (by_view) {
    dc_view view = {};
    status = dc_cache_view(cache, index, &view);
    right = status != DC_OK || (view.bytes == bytes && has_pattern(view.data, bytes, index));
    dc_cache_view_release(&view);
  } else {
    status = dc_cache_read_batch(cache, &index, 1, 0, buffer.data(), bytes, nullptr, 1);
    right = status != DC_OK || has_pattern(buffer.data(), bytes, index);
  }
  ++(status == DC_OK ? totals->hits : totals->misses);
  return right && (status == DC_OK || status == DC_MISS);
}

TEST(ReadOnlyStress, EveryValueIsRightWhileSamplesComeAndGo) {
  const uint64_t seed = stress_seed();
  const CacheName name;
  dc_cache_options options = options_for(kLength, 96 << 10, 0, 16 << 10);
  options.droppable = 1;
  const Handle cache = open_cache(name, options);
  Totals *totals = shared<Totals>();
  totals->writing = kWriters;
  const int rounds = scaled(20'000);
  run_crew(kWriters + kReaders, [&](int member) {
    std::mt19937_64 random(seed + static_cast<uint64_t>(member));
    if (member < kWriters) {
      const Handle own = attach_cache(name.c_str());
      const bool fine = write_and_remove(own, random, rounds);
      --totals->writing;
      return fine;
    }
    dc_cache *looking = nullptr;
    if (dc_cache_attach_read_only(name.c_str(), nullptr, 10 * kSecond, &looking, nullptr) != DC_OK) return false;
    const Handle own(looking);
    std::vector<uint8_t> buffer(16 << 10);
    while (totals->writing > 0) {
      const int64_t index = static_cast<int64_t>(random() % kLength);
      if (!look(own, index, buffer, random() % 2, totals)) return false;
    }
    return true;
  });
  EXPECT_GT(totals->hits, 100u);
  EXPECT_GT(totals->misses, 100u);
  EXPECT_EQ(stats_of(cache).damaged, 0u);
  report_of(cache);
}

}  // namespace
}  // namespace ddpcache::test
