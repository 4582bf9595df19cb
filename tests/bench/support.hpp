// What the rows share: paired timing, a cache and a plain mapping to compare it with, and the report that `run` reads.
//
// Google Benchmark times each function by itself; here it lends DoNotOptimize only, since a ratio is trusted where both
// sides run turn by turn, so that whatever disturbs the machine disturbs both.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ddpcache/batch.h"
#include "ddpcache/cache.h"
#include "ddpcache/report.h"

namespace bench {

inline constexpr int kRounds = 21;

// Ends the program with a sentence: a benchmark that cannot run is a failure, never a row left out.
[[noreturn, gnu::format(printf, 1, 2)]] void stop(const char *format, ...);
void require(int32_t status, const char *call, const dc_error &error = {});

// The time now, of the wall, or with DDPCACHE_BENCH_CLOCK=cpu the CPU time that this thread has had: on a machine that
// others use, the rows tell more by it, since none of them waits for anything.
double clock_seconds();

template <typename Body>
double seconds(Body &&body) {
  const double begin = clock_seconds();
  body();
  return clock_seconds() - begin;
}

// One of the things compared: it runs once and returns what it measured.
struct Side {
  std::string name;
  std::function<double()> run;
};

// Prints one line of JSON: {"row": ..., "unit": ..., "sides": {name: [values]}, "facts": {...}}.
void print_row(const std::string &row, const std::string &unit, const std::vector<std::string> &sides,
               const std::vector<std::vector<double>> &values,
               const std::vector<std::pair<std::string, std::string>> &facts);

// Runs all sides in turn, `rounds` times after one round that is thrown away, and each round beginning with the next
// side, and prints the row.
void measure(const std::string &row, const std::string &unit, const std::vector<Side> &sides,
             const std::vector<std::pair<std::string, std::string>> &facts, int rounds = kRounds);

// A cache with a name of this process's own, gone when the object is.
class Cache {
 public:
  Cache(const dc_cache_options &options, const char *directory = nullptr);
  ~Cache() { dc_cache_close(cache_); }
  Cache(const Cache &) = delete;
  Cache &operator=(const Cache &) = delete;

  dc_cache *get() const { return cache_; }
  const std::string &name() const { return name_; }
  dc_cache_info info() const;
  static dc_array byte_array(int64_t bytes);
  // Stores one array of bytes, which `write` writes.
  template <typename Write>
  void fill(int64_t index, int64_t bytes, Write &&write) {
    dc_fill *fill = nullptr;
    require(dc_cache_fill_begin(cache_, index, 0, &fill), "dc_cache_fill_begin");
    dc_array array = byte_array(bytes);
    dc_error error = {};
    require(dc_cache_fill_allocate(fill, &array, 1, nullptr, &error), "dc_cache_fill_allocate", error);
    write(array.data);
    require(dc_cache_fill_commit(fill), "dc_cache_fill_commit");
  }

 private:
  std::string name_;
  dc_cache *cache_ = nullptr;
};

// The options of a cache that has room for `length` samples of one size.
dc_cache_options options_for(int64_t length, uint64_t sample_bytes);

// A shared, writable mapping of a new file on the tmpfs that caches are on.
class TmpfsMapping {
 public:
  explicit TmpfsMapping(uint64_t bytes);
  ~TmpfsMapping();
  TmpfsMapping(const TmpfsMapping &) = delete;
  TmpfsMapping &operator=(const TmpfsMapping &) = delete;

  void reserve(uint64_t offset, uint64_t bytes);   // fallocate
  void populate(uint64_t offset, uint64_t bytes);  // madvise(MADV_POPULATE_WRITE), of the pages that hold these bytes
  uint8_t *data() const { return data_; }

 private:
  int fd_ = -1;
  uint64_t bytes_ = 0;
  uint8_t *data_ = nullptr;
};

// 0..length-1 in an order that is the same in every run.
std::vector<int64_t> shuffled(int64_t length);

std::string number(double value);

void hit();
void read_batch();
void gather();
void first_pass();
// The part of `first_pass` that runs in a process of its own: prints the gigabytes a second of one pass, which is the
// first, the first with `populate`, or the second where `mode` is "warm".
void first_pass_once(const char *name, const char *mode);
void fill();
void checksums();
void saving();
void attach();
void arena();
void sampler_cost();
void hit_rate();
// The part of `attach` that runs in a process of its own: prints the CPU seconds of one attach.
void attach_once(const char *name, const char *directory);

}  // namespace bench
