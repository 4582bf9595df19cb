// What the cache's tests share: names that nobody else uses, handles that close themselves, and samples that say which
// index they belong to.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "ddpcache/batch.h"
#include "ddpcache/cache.h"
#include "ddpcache/keys.h"
#include "ddpcache/report.h"

namespace ddpcache::test {

inline constexpr int64_t kMillisecond = 1'000'000;
inline constexpr int64_t kSecond = 1'000'000'000;

// Set by programs whose every test must end with a sound cache, and with none in /dev/shm: those of tests/process.
inline bool ends_are_checked = false;

// A name of this test's own; what has it is removed at the end, in the process that made it only.
class CacheName {
 public:
  explicit CacheName(const char *directory = nullptr) : directory_(directory ? directory : "") {
    static std::atomic<int> last{0};
    text_ = "test-" + std::to_string(getpid()) + "-" + std::to_string(++last);
  }
  CacheName(const CacheName &) = delete;
  CacheName &operator=(const CacheName &) = delete;
  ~CacheName() {
    if (maker_ != getpid() || !exists()) return;
    if (ends_are_checked && directory_.empty() && !may_stay_) expect_garbage();
    dc_cache_unlink(text_.c_str(), directory(), nullptr);
  }
  const char *c_str() const { return text_.c_str(); }
  const char *directory() const { return directory_.empty() ? nullptr : directory_.c_str(); }
  std::string path() const {
    return (directory_.empty() ? "/dev/shm" : directory_) + "/ddpcache." + std::to_string(geteuid()) + "." + text_;
  }
  bool exists() const { return access(path().c_str(), F_OK) == 0; }
  // For a cache that is kept.
  void may_stay() { may_stay_ = true; }

 private:
  // What the test's killed processes left is found to be in nobody's use as soon as they are gone.
  void expect_garbage() const {
    for (int i = 0; i < 1000 && exists(); ++i) {
      EXPECT_EQ(dc_cache_gc(directory(), nullptr, nullptr), DC_OK);
      if (exists()) usleep(10'000);
    }
    EXPECT_FALSE(exists()) << "the test left " << path();
  }

  const pid_t maker_ = getpid();
  bool may_stay_ = false;
  const std::string directory_;
  std::string text_;
};

inline dc_cache_options options_for(int64_t length, uint64_t capacity_bytes, uint64_t sample_bytes = 0,
                                    uint64_t sample_bytes_max = 0) {
  dc_cache_options options;
  dc_cache_options_init(&options, sizeof options);
  options.length = length;
  options.capacity_bytes = capacity_bytes;
  options.sample_bytes = sample_bytes;
  options.sample_bytes_max = sample_bytes_max;
  options.clients_max = 64;
  return options;
}

// A handle that closes itself.
class Handle {
 public:
  Handle() = default;
  explicit Handle(dc_cache *cache) : cache_(cache) {}
  Handle(Handle &&other) noexcept : cache_(std::exchange(other.cache_, nullptr)) {}
  Handle &operator=(Handle &&other) noexcept {
    if (this != &other) {
      close();
      cache_ = std::exchange(other.cache_, nullptr);
    }
    return *this;
  }
  ~Handle() {
    if (cache_ && ends_are_checked) {
      dc_error error = {};
      EXPECT_EQ(dc_cache_check(cache_, nullptr, &error), DC_OK) << error.message;
    }
    close();
  }
  operator dc_cache *() const { return cache_; }  // NOLINT(google-explicit-constructor): it stands for the handle
  int32_t close() { return dc_cache_close(std::exchange(cache_, nullptr)); }
  dc_cache *release() { return std::exchange(cache_, nullptr); }

 private:
  dc_cache *cache_ = nullptr;
};

// Opens or creates; a failure is the test's.
inline Handle open_cache(const CacheName &name, const dc_cache_options &options, const char *fingerprint = "test") {
  dc_cache *cache = nullptr;
  dc_error error = {};
  EXPECT_EQ(dc_cache_open(name.c_str(), name.directory(), fingerprint, &options, &cache, &error), DC_OK)
      << error.message;
  return Handle(cache);
}

inline Handle attach_cache(const char *name) {
  dc_cache *cache = nullptr;
  dc_error error = {};
  EXPECT_EQ(dc_cache_attach(name, nullptr, 10 * kSecond, &cache, &error), DC_OK) << error.message;
  return Handle(cache);
}

// Sample `index` of `bytes` bytes: every word says the index, the size and its own place.
inline uint64_t pattern_word(int64_t index, uint64_t bytes, uint64_t place) {
  uint64_t x = (static_cast<uint64_t>(index) + 1) * 0x9E3779B97F4A7C15 ^ bytes * 0xD1B54A32D192ED03 ^ place;
  x = (x ^ x >> 31) * 0xBF58476D1CE4E5B9;
  return x ^ x >> 29;
}

inline void write_pattern(uint8_t *data, uint64_t bytes, int64_t index) {
  for (uint64_t at = 0; at < bytes; at += 8) {
    const uint64_t word = pattern_word(index, bytes, at);
    std::memcpy(data + at, &word, std::min<uint64_t>(8, bytes - at));
  }
}

inline bool has_pattern(const uint8_t *data, uint64_t bytes, int64_t index) {
  for (uint64_t at = 0; at < bytes; at += 8) {
    const uint64_t word = pattern_word(index, bytes, at);
    if (std::memcmp(data + at, &word, std::min<uint64_t>(8, bytes - at)) != 0) return false;
  }
  return true;
}

inline dc_array byte_array(uint64_t bytes) {
  dc_array array = {};
  array.shape[0] = static_cast<int64_t>(bytes);
  array.dimensions = 1;
  array.dtype_code = 1;
  array.dtype_bits = 8;
  array.dtype_lanes = 1;
  return array;
}

inline int32_t intern(dc_cache *cache, const std::string &key, int64_t *index) {
  return dc_cache_intern(cache, reinterpret_cast<const uint8_t *>(key.data()), key.size(), index);
}

// Stores one sample, and says what the first call that was not DC_OK said.
inline int32_t put(dc_cache *cache, int64_t index, uint64_t bytes, int64_t timeout_ns = 0) {
  dc_fill *fill = nullptr;
  if (const int32_t status = dc_cache_fill_begin(cache, index, timeout_ns, &fill)) return status;
  dc_array array = byte_array(bytes);
  if (const int32_t status = dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr)) {
    EXPECT_EQ(dc_cache_fill_abort(fill), DC_OK);
    return status;
  }
  write_pattern(array.data, bytes, index);
  return dc_cache_fill_commit(fill);
}

// Whether the cache holds this sample, complete and right.
inline ::testing::AssertionResult holds(dc_cache *cache, int64_t index, uint64_t bytes) {
  dc_view view = {};
  const int32_t status = dc_cache_view(cache, index, &view);
  if (status != DC_OK) return ::testing::AssertionFailure() << "sample " << index << ": " << dc_strerror(status);
  const bool right = view.index == index && view.bytes == bytes && has_pattern(view.data, bytes, index);
  const uint64_t seen = view.bytes;
  dc_cache_view_release(&view);
  if (right) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "sample " << index << " has wrong bytes, or " << seen << " instead of "
                                       << bytes;
}

inline dc_cache_stats stats_of(dc_cache *cache, int32_t scope = DC_STATS_CACHE) {
  dc_cache_stats stats = {};
  stats.struct_size = sizeof stats;
  EXPECT_EQ(dc_cache_stats_get(cache, scope, &stats), DC_OK);
  return stats;
}

inline dc_cache_info info_of(dc_cache *cache) {
  dc_cache_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(dc_cache_info_get(cache, &info), DC_OK);
  return info;
}

// The report of a cache that must be sound.
inline dc_cache_report report_of(dc_cache *cache) {
  dc_cache_report report = {};
  report.struct_size = sizeof report;
  dc_error error = {};
  EXPECT_EQ(dc_cache_check(cache, &report, &error), DC_OK) << error.message;
  EXPECT_EQ(report.violations, 0u);
  return report;
}

// A loader's errand: how large its sample shall be, and how often it ran.
struct Errand {
  uint64_t bytes = 64;
  std::atomic<int> runs{0};
};

inline int32_t load_pattern(dc_fill *fill, int64_t index, void *user) {
  Errand *errand = static_cast<Errand *>(user);
  ++errand->runs;
  dc_array array = byte_array(errand->bytes);
  if (dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr) != DC_OK) return 0;
  write_pattern(array.data, errand->bytes, index);
  return DC_LOADED;
}

}  // namespace ddpcache::test
