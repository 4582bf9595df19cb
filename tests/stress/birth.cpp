// Very many processes and threads create or open one name at the same moment.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "crew.hpp"

namespace ddpcache::test {
namespace {

constexpr int kProcesses = 64;

struct Board {
  Meeting opening{kProcesses};
  Meeting opened{kProcesses};
  std::array<std::array<char, 40>, kProcesses> uuids;
  std::atomic<int> rounds_with_several{0};
  std::atomic<int> created{0};
};

TEST(Birth, SixtyFourProcessesShareOneCacheInEveryRound) {
  const int rounds = scaled(200);
  const CacheName name;
  Board *board = shared<Board>();
  run_crew(kProcesses, [&](int member) {
    bool fine = true;
    for (int round = 0; round < rounds; ++round) {
      board->opening.wait();
      dc_cache *cache = nullptr;
      dc_cache_options options = options_for(100, 1 << 20);
      options.clients_max = 2 * kProcesses;
      options.timeout_ns = 60 * kSecond;
      dc_error error = {};
      const int32_t status = dc_cache_open(name.c_str(), nullptr, "birth", &options, &cache, &error);
      EXPECT_EQ(status, DC_OK) << error.message;
      fine &= status == DC_OK;
      if (cache) {
        const dc_cache_info info = info_of(cache);
        std::memcpy(board->uuids[static_cast<size_t>(member)].data(), info.uuid, sizeof info.uuid);
        board->created += info.created;
        fine &= put(cache, member, 100) == DC_OK;
      }
      board->opened.wait();
      if (member == 0) {
        std::set<std::string> different;
        for (const auto &uuid : board->uuids) different.insert(uuid.data());
        board->rounds_with_several += different.size() != 1;
        for (int i = 0; i < kProcesses; ++i) fine &= static_cast<bool>(holds(cache, i, 100));
        report_of(cache);
      }
      board->opened.wait();
      dc_cache_close(cache);
    }
    return fine;
  });
  EXPECT_EQ(board->rounds_with_several, 0);
  // A cache that its last client could not remove at once is adopted by the next round.
  EXPECT_LE(board->created, rounds);
  EXPECT_GE(board->created, 1);
  EXPECT_EQ(dc_cache_gc(nullptr, nullptr, nullptr), DC_OK);
  EXPECT_FALSE(name.exists());
}

// Opens, closes and unlinks of a few names in any order: always a sound cache or a named outcome.
TEST(Birth, OpensClosesAndUnlinksByTwoJobsInAnyOrderEndInSoundCachesOfTheirOwn) {
  const uint64_t seed = stress_seed();
  const CacheName names[3];
  const int rounds = scaled(300);
  run_crew(12, [&](int member) {
    uint64_t x = seed * 12 + static_cast<uint64_t>(member);
    const auto next = [&x] { return (x = x * 6364136223846793005u + 1442695040888963407u) >> 33; };
    for (int round = 0; round < rounds; ++round) {
      const CacheName &name = names[next() % 3];
      if (next() % 8 == 0) {
        const int32_t status = dc_cache_unlink(name.c_str(), nullptr, nullptr);
        EXPECT_TRUE(status == DC_OK || status == DC_ERROR_NOT_FOUND) << status;
        continue;
      }
      dc_cache_options options = options_for(100, 1 << 20);
      options.timeout_ns = 60 * kSecond;
      options.keep = next() % 4 == 0;
      dc_error error = {};
      dc_cache *cache = nullptr;
      const char *fingerprint = next() % 4 ? "a" : "b";
      const int32_t status = dc_cache_open(name.c_str(), nullptr, fingerprint, &options, &cache, &error);
      EXPECT_TRUE(status == DC_OK || status == DC_ERROR_FINGERPRINT) << error.message;
      if (status != DC_OK) continue;
      EXPECT_STREQ(info_of(cache).fingerprint, fingerprint);
      const int64_t index = static_cast<int64_t>(next() % 100);
      const uint64_t bytes = *fingerprint == 'a' ? 50 : 60;  // a sample says whose it is
      const int32_t stored = put(cache, index, bytes, 60 * kSecond);
      EXPECT_TRUE(stored == DC_OK || stored == DC_PRESENT) << stored;
      EXPECT_TRUE(holds(cache, index, bytes));
      EXPECT_EQ(dc_cache_close(cache), DC_OK);
    }
    return true;
  });
}

int mapped_caches() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find(" /dev/shm/") != std::string::npos;
  return count;
}

// Who loses the race has made a file for nothing: its memory must not stay.
TEST(Birth, LostRacesLeaveNoMemoryMapped) {
  const int before = mapped_caches();
  const CacheName name;
  for (int round = 0; round < scaled(50); ++round) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        dc_cache_options options = options_for(100, 1 << 20);
        options.timeout_ns = 60 * kSecond;
        const Handle cache = open_cache(name, options);
      });
    }
    for (std::thread &thread : threads) thread.join();
  }
  EXPECT_EQ(mapped_caches(), before);
}

}  // namespace
}  // namespace ddpcache::test
