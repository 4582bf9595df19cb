// The hunt for torn reads: fillers and droppers, threads and processes, use a few extents again and again flat out,
// while readers copy samples and others hold views of them. Every 8 bytes of a sample say which index it is, in which
// of all fills it was written and where they lie, so that any byte of another sample, or of an unfinished one, shows.
//
//   torn_reads [--seconds N] [--readers N] [--pinners N] [--fillers N] [--droppers N] [--extents N] [--bytes N]
//              [--seed N]
//
// Ends with 1 at the first mismatch, or where a check finds something meanwhile, and says what; else with 0 and what
// was done.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "../support/soak.hpp"
#include "crew.hpp"

namespace ddpcache::test {
namespace {

constexpr int64_t kLength = 4;

struct Wish {
  std::map<std::string, uint64_t> numbers = {{"seconds", soaked<uint64_t>(20, 600)},
                                             {"readers", 6},
                                             {"pinners", 4},
                                             {"fillers", 4},
                                             {"droppers", 2},
                                             {"extents", 1},
                                             {"bytes", 32 << 10},
                                             {"seed", 0}};
  uint64_t operator[](const char *name) const { return numbers.at(name); }
};

// What all processes share.
struct Board {
  std::atomic<uint32_t> over{0};
  std::atomic<uint64_t> fills{0}, drops{0}, copies{0}, views{0}, mismatches{0}, complaints{0};
  char first[400] = "";
};

uint64_t word_of(int64_t index, uint64_t fill, uint64_t place) {
  return static_cast<uint64_t>(index) << 56 | (fill & 0xFFFFFFFF) << 24 | place;
}

class Hunt {
 public:
  Hunt(const Wish &wish, Board &board, const char *name, int member)
      : wish_(wish),
        board_(board),
        random_(wish["seed"] * 1000 + static_cast<uint64_t>(member)),
        buffer_(wish["bytes"]) {
    check(dc_cache_attach(name, nullptr, 10 * kSecond, &cache_, nullptr), DC_OK, "attach");
    check(dc_cache_attach_read_only(name, nullptr, 10 * kSecond, &read_only_, nullptr), DC_OK, "attach_read_only");
  }
  Hunt(const Hunt &) = delete;
  Hunt &operator=(const Hunt &) = delete;
  ~Hunt() {
    dc_cache_close(read_only_);
    dc_cache_close(cache_);
  }

  // Role `number` of its kind, until the hunt is over.
  void read(int number) {
    dc_cache *cache = number % 2 ? read_only_ : cache_;
    while (!board_.over) {
      const int64_t index = any_index();
      uint64_t bytes = 0;
      const int32_t status = number / 2 % 2
                                 ? dc_cache_read_batch(cache, &index, 1, 0, buffer_.data(), buffer_.size(), nullptr, 1)
                                 : dc_cache_read(cache, index, 0, buffer_.data(), buffer_.size(), &bytes);
      if (status == DC_MISS) continue;
      check(status, DC_OK, "read");
      ++board_.copies;
      look_at(buffer_.data(), index, number % 2 ? "a read-only copy" : "a copy");
    }
  }
  // A view that is held while its sample is removed, and looked at again.
  void pin(int number) {
    while (!board_.over) {
      const int64_t index = any_index();
      dc_view view;
      if (dc_cache_view(number % 2 ? read_only_ : cache_, index, &view) != DC_OK) continue;
      ++board_.views;
      const uint64_t fill = look_at(view.data, index, "a view");
      if (random_() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 300));
      if (look_at(view.data, index, "a view that was held") != fill) complain("a view has changed", index, fill, 0, 0);
      dc_cache_view_release(&view);
    }
  }
  void fill(int) {
    while (!board_.over) {
      const int64_t index = any_index();
      dc_fill *fill = nullptr;
      if (dc_cache_fill_begin(cache_, index, 0, &fill) != DC_OK) continue;
      dc_array array = byte_array(buffer_.size());
      if (dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr) != DC_OK) {
        dc_cache_fill_abort(fill);
        continue;
      }
      const uint64_t number = ++board_.fills;
      for (uint64_t at = 0; at < buffer_.size(); at += 8) {
        const uint64_t word = word_of(index, number, at / 8);
        std::memcpy(array.data + at, &word, 8);
      }
      check(random_() % 16 ? dc_cache_fill_commit(fill) : dc_cache_fill_abort(fill), DC_OK, "commit or abort");
    }
  }
  void drop(int) {
    while (!board_.over) board_.drops += dc_cache_remove(cache_, any_index()) == DC_OK;
  }

 private:
  int64_t any_index() { return static_cast<int64_t>(random_() % kLength); }

  // The fill that all of a sample is of.
  uint64_t look_at(const uint8_t *data, int64_t index, const char *what) {
    uint64_t first = 0;
    std::memcpy(&first, data, 8);
    const uint64_t fill = first >> 24 & 0xFFFFFFFF;
    for (uint64_t at = 0; at < buffer_.size(); at += 8) {
      uint64_t word = 0;
      std::memcpy(&word, data + at, 8);
      if (word != word_of(index, fill, at / 8)) {
        complain(what, index, fill, at, word);
        break;
      }
    }
    return fill;
  }
  void complain(const char *what, int64_t index, uint64_t fill, uint64_t at, uint64_t word) {
    if (board_.mismatches++ == 0) {
      std::snprintf(board_.first, sizeof board_.first,
                    "%s of index %lld, fill %llu: byte %llu has %016llx, of index %llu, fill %llu, byte %llu", what,
                    static_cast<long long>(index), static_cast<unsigned long long>(fill),
                    static_cast<unsigned long long>(at), static_cast<unsigned long long>(word),
                    static_cast<unsigned long long>(word >> 56),
                    static_cast<unsigned long long>(word >> 24 & 0xFFFFFFFF),
                    static_cast<unsigned long long>((word & 0xFFFFFF) * 8));
    }
    board_.over = 1;
  }
  void check(int32_t status, int32_t wanted, const char *call) {
    if (status == wanted) return;
    if (board_.complaints++ == 0) std::snprintf(board_.first, sizeof board_.first, "%s: %s", call, dc_strerror(status));
    board_.over = 1;
  }

  const Wish &wish_;
  Board &board_;
  std::mt19937_64 random_;
  std::vector<uint8_t> buffer_;
  dc_cache *cache_ = nullptr, *read_only_ = nullptr;
};

struct Role {
  const char *kind;
  void (Hunt::*play)(int);
};
constexpr Role kRoles[] = {
    {"readers", &Hunt::read}, {"pinners", &Hunt::pin}, {"fillers", &Hunt::fill}, {"droppers", &Hunt::drop}};

// Every other of a kind in a process of its own; the rest are threads of this one.
void play_all(const Wish &wish, Board &board, const char *name, dc_cache *checked) {
  std::vector<pid_t> children;
  std::vector<std::pair<Role, int>> threads;
  for (const Role &role : kRoles) {
    for (int number = 0; number < static_cast<int>(wish[role.kind]); ++number) {
      if (number / 2 % 2 == 0 && (number % 2 == 0 || wish[role.kind] < 4)) {
        threads.emplace_back(role, number);
        continue;
      }
      const pid_t child = fork();
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        {
          Hunt hunt(wish, board, name, 100 + static_cast<int>(children.size()));
          (hunt.*role.play)(number);
        }
        _exit(0);
      }
      children.push_back(child);
    }
  }
  std::vector<std::thread> running;
  for (const auto &[role, number] : threads) {
    running.emplace_back([&, role = role, number = number, member = static_cast<int>(running.size())] {
      Hunt hunt(wish, board, name, member);
      (hunt.*role.play)(number);
    });
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(wish["seconds"]);
  dc_error error = {};
  while (!board.over && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    // Nothing that is under way is damage.
    if (dc_cache_check(checked, nullptr, &error) == DC_OK) continue;
    if (board.complaints++ == 0) std::snprintf(board.first, sizeof board.first, "check: %.380s", error.message);
    break;
  }
  board.over = 1;
  for (std::thread &thread : running) thread.join();
  for (const pid_t child : children) {
    int status = -1;
    if (waitpid(child, &status, 0) != child || status != 0) ++board.complaints;
  }
}

int hunt(Wish wish) {
  alarm(static_cast<unsigned>(wish["seconds"] + 100));
  if (wish["seed"] == 0) wish.numbers["seed"] = std::random_device()();
  Board &board = *shared<Board>();
  const CacheName name;
  dc_cache_options options = options_for(kLength, 0, wish["bytes"]);
  options.droppable = 1;
  // A step for each extent.
  options.capacity_bytes = wish["extents"] * ((wish["bytes"] + 192 + 64 + 4095) / 4096 * 4096);
  dc_cache *cache = nullptr;
  dc_error error = {};
  if (dc_cache_open(name.c_str(), nullptr, "torn", &options, &cache, &error) != DC_OK) {
    std::printf("%s\n", error.message);
    return 2;
  }
  play_all(wish, board, name.c_str(), cache);
  const int32_t sound = dc_cache_check(cache, nullptr, &error);
  if (sound != DC_OK && board.mismatches == 0) std::printf("check: %s\n", error.message);
  dc_cache_close(cache);
  std::printf("seed %llu: %llu fills, %llu removals, %llu copies, %llu views; %llu mismatches%s%s\n",
              static_cast<unsigned long long>(wish["seed"]), static_cast<unsigned long long>(board.fills),
              static_cast<unsigned long long>(board.drops), static_cast<unsigned long long>(board.copies),
              static_cast<unsigned long long>(board.views), static_cast<unsigned long long>(board.mismatches),
              board.first[0] ? ": " : "", board.first);
  return board.mismatches == 0 && board.complaints == 0 && sound == DC_OK && board.fills > 0 ? 0 : 1;
}

}  // namespace
}  // namespace ddpcache::test

int main(int count, char **arguments) {
  ddpcache::test::Wish wish;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string option = arguments[i];
    const auto found = wish.numbers.find(option.rfind("--", 0) == 0 ? option.substr(2) : "");
    char *rest = nullptr;
    const uint64_t value = std::strtoull(arguments[i + 1], &rest, 0);
    if (found == wish.numbers.end() || *rest != '\0') {
      std::fprintf(stderr, "torn_reads: what is %s %s?\n", arguments[i], arguments[i + 1]);
      return 2;
    }
    found->second = value;
  }
  if (count % 2 == 0 || wish["bytes"] % 8 != 0 || wish["bytes"] == 0 || wish["extents"] == 0) {
    std::fprintf(stderr, "torn_reads: options come with a number; bytes is a multiple of 8, and extents at least 1\n");
    return 2;
  }
  return ddpcache::test::hunt(wish);
}
