#include "support.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <numeric>
#include <random>

namespace bench {
namespace {

constexpr uint64_t kPageBytes = 4096;

clockid_t chosen_clock() {
  const char *name = std::getenv("DDPCACHE_BENCH_CLOCK");
  return name && std::strcmp(name, "cpu") == 0 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
}

}  // namespace

double clock_seconds() {
  static const clockid_t clock = chosen_clock();
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

void stop(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::fputs("ddpcache_bench: ", stderr);
  std::vfprintf(stderr, format, arguments);
  std::fputs("\n", stderr);
  va_end(arguments);
  std::exit(1);
}

void require(int32_t status, const char *call, const dc_error &error) {
  if (status != DC_OK) stop("%s: %s (%d) %s", call, dc_strerror(status), status, error.message);
}

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

void print_row(const std::string &row, const std::string &unit, const std::vector<std::string> &sides,
               const std::vector<std::vector<double>> &values,
               const std::vector<std::pair<std::string, std::string>> &facts) {
  std::string text = "{\"row\": \"" + row + "\", \"unit\": \"" + unit + "\", \"sides\": {";
  for (size_t side = 0; side < sides.size(); ++side) {
    text += (side ? ", \"" : "\"") + sides[side] + "\": [";
    for (size_t i = 0; i < values[side].size(); ++i) text += (i ? ", " : "") + number(values[side][i]);
    text += "]";
  }
  text += "}, \"facts\": {";
  for (size_t i = 0; i < facts.size(); ++i) {
    text += (i ? ", \"" : "\"") + facts[i].first + "\": \"" + facts[i].second + "\"";
  }
  std::puts((text + "}}").c_str());
  std::fflush(stdout);
}

void measure(const std::string &row, const std::string &unit, const std::vector<Side> &sides,
             const std::vector<std::pair<std::string, std::string>> &facts, int rounds) {
  std::vector<std::string> names;
  for (const Side &side : sides) names.push_back(side.name);
  std::vector<std::vector<double>> values(sides.size());
  for (int round = -1; round < rounds; ++round) {
    for (size_t turn = 0; turn < sides.size(); ++turn) {
      const size_t side = (turn + static_cast<size_t>(round + 1)) % sides.size();
      const double value = sides[side].run();
      if (round >= 0) values[side].push_back(value);
    }
  }
  print_row(row, unit, names, values, facts);
}

Cache::Cache(const dc_cache_options &options, const char *directory) {
  static int caches = 0;
  name_ = "bench-" + std::to_string(getpid()) + "-" + std::to_string(caches++);
  dc_error error = {};
  require(dc_cache_open(name_.c_str(), directory, nullptr, &options, &cache_, &error), "dc_cache_open", error);
}

dc_cache_info Cache::info() const {
  dc_cache_info info = {};
  info.struct_size = sizeof info;
  require(dc_cache_info_get(cache_, &info), "dc_cache_info_get");
  return info;
}

dc_array Cache::byte_array(int64_t bytes) {
  dc_array array = {};
  array.dtype_code = 1;  // DLPack: unsigned integer
  array.dtype_bits = 8;
  array.dtype_lanes = 1;
  array.dimensions = 1;
  array.shape[0] = bytes;
  return array;
}

dc_cache_options options_for(int64_t length, uint64_t sample_bytes) {
  dc_cache_options options;
  dc_cache_options_init(&options, sizeof options);
  options.length = length;
  options.sample_bytes = sample_bytes;
  dc_error error = {};
  uint64_t total_bytes = 0;
  require(dc_cache_estimate(&options, sample_bytes, &options.capacity_bytes, &total_bytes, &error), "dc_cache_estimate",
          error);
  return options;
}

TmpfsMapping::TmpfsMapping(uint64_t bytes) : bytes_(bytes) {
  fd_ = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd_ < 0 || ftruncate(fd_, static_cast<off_t>(bytes)) != 0) stop("a file in /dev/shm: %s", std::strerror(errno));
  void *data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (data == MAP_FAILED) stop("mmap of %llu bytes: %s", static_cast<unsigned long long>(bytes), std::strerror(errno));
  data_ = static_cast<uint8_t *>(data);
}

TmpfsMapping::~TmpfsMapping() {
  munmap(data_, bytes_);
  close(fd_);
}

void TmpfsMapping::reserve(uint64_t offset, uint64_t bytes) {
  if (fallocate(fd_, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    stop("fallocate: %s", std::strerror(errno));
  }
}

void TmpfsMapping::populate(uint64_t offset, uint64_t bytes) {
  const uint64_t begin = offset & ~(kPageBytes - 1);
  if (madvise(data_ + begin, offset + bytes - begin, MADV_POPULATE_WRITE) != 0) {
    stop("madvise(MADV_POPULATE_WRITE): %s", std::strerror(errno));
  }
}

std::vector<int64_t> shuffled(int64_t length) {
  std::vector<int64_t> order(static_cast<size_t>(length));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
  return order;
}

}  // namespace bench
