// Very many processes give the same keys their indices, and are killed at it.
#include "keys.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "crew.hpp"

namespace ddpcache::test {
namespace {

constexpr int kProcesses = 6;
constexpr size_t kKeys = 1000;

// What was said of each key, by whoever was first: -1 nothing yet.
struct Board {
  std::array<std::atomic<int64_t>, kKeys> indices;
  std::atomic<int> contradictions{0};
  std::atomic<int> kills{0};

  Board() {
    for (auto &index : indices) index = -1;
  }
  void say(size_t key, int64_t index) {
    int64_t said = -1;
    if (!indices[key].compare_exchange_strong(said, index) && said != index) ++contradictions;
  }
};

// Runs `work` in a process of its own that dies at it: in half of the cases between the two halves of the NTH slot that
// it takes, else when it is killed from outside. Where it takes too few slots it lives.
void run_doomed(std::mt19937_64 &random, Board *board, const std::function<void()> &work) {
  const bool inside = random() % 2 == 0;
  const std::string fault = "key-tagged:kill:" + std::to_string(1 + random() % 40);
  const auto patience = static_cast<useconds_t>(random() % 2000);
  const pid_t pid = fork();
  if (pid == 0) {
    if (inside) setenv("DDPCACHE_FAULT", fault.c_str(), 1);
    work();
    _exit(0);
  }
  if (!inside) {
    usleep(patience);
    kill(pid, SIGKILL);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  board->kills += WIFSIGNALED(status);
}

// Every member has doomed processes intern shuffled keys, then interns all itself; `intern` gives a key's index, or -1.
void run_all(Board *board, const std::function<int64_t(size_t)> &intern) {
  const uint64_t seed = stress_seed();
  const int rounds = scaled(40);
  run_crew(kProcesses, [&](int member) {
    std::mt19937_64 random(seed + static_cast<uint64_t>(member));
    std::vector<size_t> order(kKeys);
    for (size_t i = 0; i < kKeys; ++i) order[i] = i;
    const auto say_some = [&](size_t count) {
      for (size_t i = 0; i < count; ++i) board->say(order[i], intern(order[i]));
    };
    for (int round = 0; round < rounds; ++round) {
      std::shuffle(order.begin(), order.end(), random);
      // More keys each round, so that the last ones are still new to the last rounds.
      run_doomed(random, board,
                 [&] { say_some(kKeys * static_cast<size_t>(round + 1) / static_cast<size_t>(rounds)); });
    }
    say_some(kKeys);
    return true;
  });
  EXPECT_EQ(board->contradictions, 0);
  EXPECT_GT(board->kills, kProcesses);
  std::set<int64_t> different;
  for (const auto &index : board->indices) different.insert(index);
  EXPECT_EQ(different.size(), kKeys) << "two keys have one index";
  EXPECT_GE(*different.begin(), 0);
}

TEST(Keys, ProcessesThatAreKilledAgreeWithAllOthersInATableThatIsFullInTheEnd) {
  for (int tables = scaled(5); tables > 0; --tables) {
    const CacheName name;
    dc_cache_options options = options_for(kKeys, 1 << 20, 64);
    options.keyed = 1;
    const Handle cache = open_cache(name, options);
    run_all(shared<Board>(), [&](size_t key) {
      int64_t index = -1;
      EXPECT_EQ(intern(cache, "train/" + std::to_string(key), &index), DC_OK);
      return index;
    });
    const dc_cache_report report = report_of(cache);
    EXPECT_EQ(report.keys, kKeys);
    EXPECT_EQ(report.keys_unfinished, 0u) << "every key has come again";
    EXPECT_LE(info_of(cache).keys, kKeys);
    int64_t index = -1;
    EXPECT_EQ(intern(cache, "val/0", &index), DC_FULL);
  }
}

// Three tags and four homes: whoever is killed leaves a slot that many other keys may take.
TEST(Keys, ProcessesAgreeOnKeysWhoseHashesAreAlmostTheSame) {
  for (int tables = scaled(5); tables > 0; --tables) {
    const KeyTable table({static_cast<KeySlot *>(shared_memory(kKeys * sizeof(KeySlot))), kKeys});
    run_all(shared<Board>(), [&](size_t key) {
      int64_t index = -1;
      bool fresh = false;
      const KeyHash hash = KeyHash::of_halves(1 + key % 3, uint64_t{key % 4} << 62 | (key + 1));
      EXPECT_EQ(table.intern(hash, &index, &fresh), DC_OK);
      return index;
    });
  }
}

}  // namespace
}  // namespace ddpcache::test
