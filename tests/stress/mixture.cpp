// Loads, fills, aborts, reads and kills all at once, in caches with too little room, with samples that say what they
// are.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <random>
#include <thread>
#include <vector>

#include "crew.hpp"

namespace ddpcache::test {
namespace {

constexpr int64_t kLength = 400;

// Every index has a size of its own, so that a mix-up of samples shows.
uint64_t size_of(int64_t index) { return 1 + static_cast<uint64_t>(index) * 7919 % 30'000; }

int32_t decode(dc_fill *fill, int64_t index, void *user) {
  std::mt19937_64 &random = *static_cast<std::mt19937_64 *>(user);
  const uint64_t bytes = size_of(index);
  dc_array array = byte_array(bytes);
  const int32_t allocated = dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr);
  if (allocated != DC_OK) return 0;
  if (random() % 8 == 0) {
    std::memset(array.data, 0xDB, bytes);
    return 0;
  }
  write_pattern(array.data, bytes, index);
  return DC_LOADED;
}

// One step of a client that does everything; false where something is wrong.
bool step(dc_cache *cache, std::mt19937_64 &random, std::vector<uint8_t> &buffer) {
  const int64_t index = static_cast<int64_t>(random() % kLength);
  const uint64_t bytes = size_of(index);
  // DC_ERROR_UNSUPPORTED in a cache that does not drop, which then is one read less.
  if (random() % 8 == 0) {
    const int32_t status = dc_cache_remove(cache, index);
    return status == DC_OK || status == DC_MISS || status == DC_ERROR_UNSUPPORTED;
  }
  switch (random() % 8) {
    case 0:
    case 1:
    case 2: {
      dc_view view = {};
      const int32_t status = dc_cache_load(cache, index, decode, &random, 60 * kSecond, &view);
      if (status != DC_OK) return status == DC_FULL || status == DC_ERROR_LOADER;
      const bool right = view.bytes == bytes && has_pattern(view.data, bytes, index);
      dc_cache_view_release(&view);
      return right;
    }
    case 3: {
      dc_fill *fill = nullptr;
      const int32_t begun = dc_cache_fill_begin(cache, index, 0, &fill);
      if (begun != DC_OK) return begun == DC_PRESENT || begun == DC_BUSY;
      dc_array array = byte_array(bytes);
      if (dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr) == DC_OK) std::memset(array.data, 0xDA, bytes);
      return dc_cache_fill_abort(fill) == DC_OK;
    }
    case 4: {
      const int32_t status = put(cache, index, bytes);
      return status == DC_OK || status == DC_PRESENT || status == DC_BUSY || status == DC_FULL;
    }
    case 5: {
      uint64_t got = 0;
      const int32_t status = dc_cache_read(cache, index, 0, buffer.data(), buffer.size(), &got);
      return status == DC_MISS || (status == DC_OK && got == bytes && has_pattern(buffer.data(), got, index));
    }
    default: {
      dc_view view = {};
      const int32_t status = dc_cache_view(cache, index, &view);
      const bool right = status == DC_MISS || (status == DC_OK && has_pattern(view.data, bytes, index));
      dc_cache_view_release(&view);
      return right;
    }
  }
}

// Nothing that is under way, or that a kill has left, is damage.
void expect_sound(dc_cache *cache) {
  dc_error error = {};
  EXPECT_EQ(dc_cache_check(cache, nullptr, &error), DC_OK) << error.message;
}

void expect_all_right(dc_cache *cache) {
  const dc_cache_report report = report_of(cache);
  EXPECT_EQ(report.entries_bad, 0u);
  EXPECT_GT(report.entries_ready, 0u);
  for (int64_t index = 0; index < kLength; ++index) {
    EXPECT_TRUE(dc_cache_contains(cache, index) == DC_MISS || holds(cache, index, size_of(index)));
  }
}

struct Kind {
  uint64_t mebibytes;
  uint32_t droppable;
};

class Mixture : public ::testing::TestWithParam<Kind> {
 protected:
  static dc_cache_options options() {
    dc_cache_options options = options_for(kLength, GetParam().mebibytes << 20, 0, 32'000);
    options.droppable = GetParam().droppable;
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, Mixture, ::testing::Values(Kind{1, 0}, Kind{4, 0}, Kind{64, 0}, Kind{1, 1}, Kind{4, 1}),
                         [](const auto &value) {
                           return std::to_string(value.param.mebibytes) + "MiB" +
                                  (value.param.droppable ? "Droppable" : "");
                         });

TEST_P(Mixture, OfThreadsNeverShowsAWrongValue) {
  const uint64_t seed = stress_seed();
  const CacheName name;
  const Handle cache = open_cache(name, options());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(seed + static_cast<uint64_t>(t));
      std::vector<uint8_t> buffer(32'000);
      for (int i = 0; i < scaled(4000); ++i) wrong += !step(cache, random, buffer);
    });
  }
  std::atomic<bool> over{false};
  std::thread checker([&] {
    while (!over) expect_sound(cache);
  });
  for (std::thread &thread : threads) thread.join();
  over = true;
  checker.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(stats_of(cache).open_fills, 0u);
  EXPECT_EQ(report_of(cache).entries_writing, 0u);
  expect_all_right(cache);
}

// A process is killed every few milliseconds at whatever it is doing, and another takes its place.
TEST_P(Mixture, OfProcessesThatAreKilledNeverShowsAWrongValueOrLosesSpace) {
  const uint64_t seed = stress_seed();
  const CacheName name;
  Handle cache = open_cache(name, options());
  struct Board {
    std::atomic<int> wrong{0};
    std::atomic<uint64_t> steps{0};
  } *board = shared<Board>();
  const auto start = [&](uint64_t number) {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    alarm(watchdog_seconds());
    std::mt19937_64 random(seed + 1000 * number);
    std::vector<uint8_t> buffer(32'000);
    const Handle mine = attach_cache(name.c_str());
    while (true) {
      board->wrong += !step(mine, random, buffer);
      ++board->steps;
    }
  };
  std::vector<pid_t> members;
  uint64_t number = 0;
  for (; number < 6; ++number) members.push_back(start(number));
  std::mt19937_64 random(seed);
  for (int kills = 0; kills < scaled(150); ++kills) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + random() % 10));
    expect_sound(cache);
    pid_t &victim = members[random() % members.size()];
    ASSERT_EQ(kill(victim, SIGKILL), 0);
    ASSERT_EQ(waitpid(victim, nullptr, 0), victim);
    victim = start(++number);
  }
  for (const pid_t pid : members) {
    EXPECT_EQ(kill(pid, SIGKILL), 0);
    EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
  }
  EXPECT_EQ(board->wrong, 0);
  EXPECT_GT(board->steps, 1000u);
  expect_all_right(cache);
  // Whatever the dead held is found again: in the end every piece holds a sample, or every sample is there.
  for (int pass = 0; pass < 200; ++pass) {
    for (int64_t index = 0; index < kLength; ++index) put(cache, index, 1, 60 * kSecond);
    if (report_of(cache).extents_free == 0) break;
  }
  const dc_cache_report report = report_of(cache);
  EXPECT_TRUE(report.extents_free == 0 || report.entries_ready == kLength)
      << report.extents_free << " pieces free, " << report.entries_ready << " samples";
  EXPECT_EQ(report.extents_named, 0u);
  EXPECT_EQ(report.entries_orphaned, 0u);
}

}  // namespace
}  // namespace ddpcache::test
