// Very many callers want one missing sample at the same moment: one decodes it, all others get it. Nobody looks again
// by himself here, so a wake-up that is lost is a hang.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "crew.hpp"

namespace ddpcache::test {
namespace {

constexpr int kProcesses = 16;
constexpr int kThreads = 8;
constexpr uint64_t kBytes = 1000;

struct Board {
  Meeting meeting{kProcesses * kThreads};
  std::atomic<int> decodes{0};
  std::atomic<int> wrong{0};
  std::atomic<int> attempts_failed{0};
};

int32_t decode(dc_fill *fill, int64_t index, void *user) {
  ++static_cast<Board *>(user)->decodes;
  if (index % 10 == 0) usleep(1000);  // most of the others are waiting by then
  dc_array array = byte_array(kBytes);
  if (dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr) != DC_OK) return 0;
  write_pattern(array.data, kBytes, index);
  return DC_LOADED;
}

// One round an index: everybody meets, everybody loads.
void run_rounds(const CacheName &name, int rounds, Board *board, dc_loader loader) {
#ifdef DDPCACHE_FAULTS
  ASSERT_EQ(setenv("DDPCACHE_WAIT_SLICE_NS", std::to_string(1000 * kSecond).c_str(), 1), 0);
#endif
  run_crew(kProcesses, [&](int) {
    const Handle cache = attach_cache(name.c_str());
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (int64_t index = 0; index < rounds; ++index) {
          board->meeting.wait();
          dc_view view = {};
          int32_t status = DC_ERROR_LOADER;
          while (status == DC_ERROR_LOADER) {
            status = dc_cache_load(cache, index, loader, board, 1000 * kSecond, &view);
            board->attempts_failed += status == DC_ERROR_LOADER;
          }
          board->wrong += status != DC_OK || view.bytes != kBytes || !has_pattern(view.data, kBytes, index);
          dc_cache_view_release(&view);
        }
      });
    }
    for (std::thread &thread : threads) thread.join();
    return true;
  });
}

TEST(Waiting, OneOf128CallersDecodesAndAllGetTheSample) {
  const int rounds = scaled(1000);
  const CacheName name;
  const Handle cache = open_cache(name, options_for(rounds, static_cast<uint64_t>(rounds) * 2000 + (1 << 20)));
  Board *board = shared<Board>();
  run_rounds(name, rounds, board, decode);
  EXPECT_EQ(board->decodes, rounds);
  EXPECT_EQ(board->wrong, 0);
  EXPECT_EQ(stats_of(cache).fills, static_cast<uint64_t>(rounds));
  EXPECT_EQ(stats_of(cache).timeouts, 0u);
  EXPECT_GT(stats_of(cache).waits, static_cast<uint64_t>(rounds)) << "hardly anybody had to wait";
  EXPECT_EQ(report_of(cache).entries_ready, static_cast<uint64_t>(rounds));
}

// Two of three loaders fail: a waiter takes its turn each time, nobody is forgotten.
TEST(Waiting, AFailedLoaderPassesTheTurnToAWaiter) {
  const int rounds = scaled(300);
  const CacheName name;
  const Handle cache = open_cache(name, options_for(rounds, static_cast<uint64_t>(rounds) * 2000 + (1 << 20)));
  Board *board = shared<Board>();
  run_rounds(name, rounds, board, [](dc_fill *fill, int64_t index, void *user) -> int32_t {
    Board *own = static_cast<Board *>(user);
    if (own->decodes++ % 3 != 0) return 0;
    dc_array array = byte_array(kBytes);
    if (dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr) != DC_OK) return 0;
    write_pattern(array.data, kBytes, index);
    return DC_LOADED;
  });
  EXPECT_EQ(board->wrong, 0);
  EXPECT_EQ(board->decodes, rounds + board->attempts_failed);
  EXPECT_EQ(report_of(cache).entries_ready, static_cast<uint64_t>(rounds));
}

}  // namespace
}  // namespace ddpcache::test
