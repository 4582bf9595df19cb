// A cache to a file and back: what a round trip keeps, and what becomes of other files.
#include "ddpcache/saving.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../support/caches.hpp"
#include "ddpcache/keys.h"
#include "hash.hpp"
#include "record.hpp"
#include "replacement.hpp"
#include "saved.hpp"
#include "segment.hpp"

namespace ddpcache::test {
namespace {

namespace fs = std::filesystem;

// A directory of the test's own.
class Folder {
 public:
  explicit Folder(const fs::path &in = fs::temp_directory_path()) {
    std::string pattern = (in / "ddpcache-saving-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
  }
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;
  ~Folder() { fs::remove_all(path_); }
  std::string file(const std::string &name) const { return path_ + "/" + name; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto &entry : fs::directory_iterator(path_)) names.push_back(entry.path().filename());
    return names;
  }

 private:
  std::string path_;
};

std::string bytes_of(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

int64_t save(dc_cache *cache, const std::string &path) {
  int64_t saved = -1;
  dc_error error = {};
  EXPECT_EQ(dc_cache_save(cache, path.c_str(), nullptr, nullptr, &saved, &error), DC_OK) << error.message;
  return saved;
}

struct Restored {
  int32_t status;
  std::string message;
  Handle cache;
};

Restored restore(const std::string &path, const CacheName &name, const dc_cache_options *options = nullptr,
                 const char *fingerprint = nullptr) {
  dc_cache *cache = nullptr;
  dc_error error = {};
  const int32_t status =
      dc_cache_restore(path.c_str(), name.c_str(), nullptr, fingerprint, options, nullptr, nullptr, &cache, &error);
  EXPECT_EQ(status == DC_OK, cache != nullptr);
  return {status, error.message, Handle(cache)};
}

dc_saved_info saved_info(const std::string &path) {
  dc_saved_info info = {};
  info.struct_size = sizeof info;
  dc_error error = {};
  EXPECT_EQ(dc_saved_info_get(path.c_str(), &info, &error), DC_OK) << error.message;
  return info;
}

class Saving : public ::testing::Test {
 protected:
  const Folder folder_;
  const CacheName name_, other_;
  const std::string path_ = folder_.file("saved.cache");
};

TEST_F(Saving, ACacheComesBackWithItsSamplesOptionsAndFingerprint) {
  Handle cache = open_cache(name_, options_for(100, 8 << 20, 0, 100'000), "digits v1");
  for (int64_t i = 0; i < 100; i += 3) ASSERT_EQ(put(cache, i, static_cast<uint64_t>(i * i * 9)), DC_OK);
  EXPECT_EQ(save(cache, path_), 34);
  const dc_cache_info before = info_of(cache);
  EXPECT_EQ(cache.close(), DC_OK);

  const Restored back = restore(path_, other_, nullptr, "digits v1");
  ASSERT_EQ(back.status, DC_OK) << back.message;
  const dc_cache_info after = info_of(back.cache);
  EXPECT_EQ(after.created, 1u);
  EXPECT_EQ(after.length, before.length);
  EXPECT_EQ(after.sample_bytes_max, before.sample_bytes_max);
  EXPECT_GE(after.capacity_bytes, before.capacity_bytes);
  EXPECT_STREQ(after.fingerprint, "digits v1");
  EXPECT_STREQ(after.name, other_.c_str());
  EXPECT_STRNE(after.uuid, before.uuid);
  for (int64_t i = 0; i < 100; ++i) {
    if (i % 3 == 0) {
      EXPECT_TRUE(holds(back.cache, i, static_cast<uint64_t>(i * i * 9)));
    } else {
      EXPECT_EQ(dc_cache_contains(back.cache, i), DC_MISS);
    }
  }
  EXPECT_EQ(report_of(back.cache).entries_ready, 34u);
  EXPECT_EQ(stats_of(back.cache).resident, 34u);
  EXPECT_EQ(put(back.cache, 1, 500), DC_OK) << "it goes on like any cache";
}

// One array for each dtype, scalars and empty ones among them, with names and a structure.
TEST_F(Saving, RecordsComeBackByteForByte) {
  struct DType {
    uint8_t code, bits;
    uint16_t lanes;
  };
  const std::vector<DType> dtypes = {{0, 8, 1},  {0, 64, 1}, {1, 16, 1},  {2, 16, 1}, {2, 32, 4},
                                     {2, 64, 1}, {4, 16, 1}, {5, 128, 1}, {6, 8, 1},  {2, 32, 1}};
  const std::vector<std::vector<int64_t>> shapes = {{}, {0}, {7}, {3, 0, 2}, {2, 3, 5}, {1, 1, 1, 1, 1, 1, 1, 9}};
  Handle cache = open_cache(name_, options_for(64, 4 << 20, 0, 64 << 10));
  const std::string structure(DC_STRUCTURE_BYTES_MAX, 's');
  int64_t stored = 0;
  for (const uint32_t count : {1u, 2u, 64u}) {
    for (size_t first = 0; first < dtypes.size(); ++first, ++stored) {
      std::vector<dc_array> arrays(count);
      for (uint32_t a = 0; a < count; ++a) {
        const DType &dtype = dtypes[(first + a) % dtypes.size()];
        const auto &shape = shapes[(first + a) % shapes.size()];
        arrays[a].dtype_code = dtype.code;
        arrays[a].dtype_bits = dtype.bits;
        arrays[a].dtype_lanes = dtype.lanes;
        arrays[a].dimensions = static_cast<uint32_t>(shape.size());
        std::copy(shape.begin(), shape.end(), arrays[a].shape);
        if (a % 2 == 0) std::snprintf(arrays[a].name, sizeof arrays[a].name, "array %u of %zu", a, first);
      }
      dc_fill *fill = nullptr;
      ASSERT_EQ(dc_cache_fill_begin(cache, stored, 0, &fill), DC_OK);
      const char *text = first % 3 == 0 ? nullptr : first % 3 == 1 ? "{\"v\":1}" : structure.c_str();
      dc_error error = {};
      ASSERT_EQ(dc_cache_fill_allocate(fill, arrays.data(), count, text, &error), DC_OK) << error.message;
      for (const dc_array &array : arrays) write_pattern(array.data, array.bytes, stored);
      ASSERT_EQ(dc_cache_fill_commit(fill), DC_OK);
    }
  }
  EXPECT_EQ(save(cache, path_), stored);
  const Restored back = restore(path_, other_);
  ASSERT_EQ(back.status, DC_OK) << back.message;
  for (int64_t i = 0; i < stored; ++i) {
    dc_view ours, theirs;
    ASSERT_EQ(dc_cache_view(cache, i, &ours), DC_OK);
    ASSERT_EQ(dc_cache_view(back.cache, i, &theirs), DC_OK);
    ASSERT_EQ(theirs.record_bytes, ours.record_bytes);
    // All but the checksum in the head, which the file's has and the cache's need not have.
    const size_t head = offsetof(RecordHead, checksum), rest = sizeof(RecordHead);
    EXPECT_EQ(std::memcmp(ours.record, theirs.record, head), 0) << i;
    EXPECT_EQ(std::memcmp(ours.record + rest, theirs.record + rest, ours.record_bytes - rest), 0) << i;
    dc_cache_view_release(&ours);
    dc_cache_view_release(&theirs);
  }
  EXPECT_EQ(stats_of(back.cache).bytes_filled, stats_of(cache).bytes_filled);
}

TEST_F(Saving, AnEmptyCacheComesBackEmpty) {
  Handle cache = open_cache(name_, options_for(5, 1 << 20));
  EXPECT_EQ(save(cache, path_), 0);
  const Restored back = restore(path_, other_);
  ASSERT_EQ(back.status, DC_OK) << back.message;
  EXPECT_EQ(report_of(back.cache).entries_ready, 0u);
}

// A restored cache checks as its options say, by the checksums that were saved.
TEST_F(Saving, ChecksumsAreTakenOver) {
  Handle cache = open_cache(name_, options_for(20, 4 << 20));
  for (int64_t i = 0; i < 20; ++i) ASSERT_EQ(put(cache, i, 1000), DC_OK);
  save(cache, path_);
  dc_cache_options options = options_for(0, 0);
  options.checksums = DC_CHECKSUMS_READ;
  const Restored back = restore(path_, other_, &options);
  ASSERT_EQ(back.status, DC_OK) << back.message;
  EXPECT_EQ(info_of(back.cache).checksums, DC_CHECKSUMS_READ);
  for (int64_t i = 0; i < 20; ++i) EXPECT_TRUE(holds(back.cache, i, 1000));
  EXPECT_EQ(stats_of(back.cache).damaged, 0u);
  report_of(back.cache);
}

// Larger than every buffer on the way.
TEST_F(Saving, LargeSamplesComeBack) {
  Handle cache = open_cache(name_, options_for(4, 300 << 20, 0, 72 << 20));
  ASSERT_EQ(put(cache, 0, (5 << 20) + 1), DC_OK);
  ASSERT_EQ(put(cache, 1, 10), DC_OK);
  ASSERT_EQ(put(cache, 3, (70 << 20) + 3), DC_OK);
  EXPECT_EQ(save(cache, path_), 3);
  cache.close();
  const Restored back = restore(path_, other_);
  ASSERT_EQ(back.status, DC_OK) << back.message;
  EXPECT_TRUE(holds(back.cache, 0, (5 << 20) + 1));
  EXPECT_TRUE(holds(back.cache, 1, 10));
  EXPECT_TRUE(holds(back.cache, 3, (70 << 20) + 3));
}

TEST_F(Saving, ADroppableCacheComesBackWithoutWhatWasRemoved) {
  dc_cache_options options = options_for(50, 4 << 20);
  options.droppable = 1;
  Handle cache = open_cache(name_, options);
  for (int64_t i = 0; i < 50; ++i) ASSERT_EQ(put(cache, i, 1000), DC_OK);
  for (int64_t i = 0; i < 50; i += 2) ASSERT_EQ(dc_cache_remove(cache, i), DC_OK);
  EXPECT_EQ(save(cache, path_), 25);
  EXPECT_EQ(report_of(cache).extents_named, 0u) << "no name is left";
  const Restored back = restore(path_, other_);
  ASSERT_EQ(back.status, DC_OK) << back.message;
  EXPECT_EQ(info_of(back.cache).droppable, 1u);
  for (int64_t i = 0; i < 50; ++i) EXPECT_EQ(dc_cache_contains(back.cache, i), i % 2 ? DC_OK : DC_MISS);
  EXPECT_EQ(dc_cache_remove(back.cache, 1), DC_OK);
}

TEST_F(Saving, AHandleThatOnlyReadsSavesToo) {
  for (const uint32_t droppable : {0u, 1u}) {
    const CacheName name, fresh;
    dc_cache_options options = options_for(50, 4 << 20);
    options.droppable = droppable;
    const Handle cache = open_cache(name, options);
    for (int64_t i = 0; i < 30; ++i) ASSERT_EQ(put(cache, i, 1000), DC_OK);
    dc_cache *attached = nullptr;
    ASSERT_EQ(dc_cache_attach_read_only(name.c_str(), nullptr, 10 * kSecond, &attached, nullptr), DC_OK);
    const Handle reader(attached);
    EXPECT_EQ(save(reader, path_), 30);
    const Restored back = restore(path_, fresh);
    ASSERT_EQ(back.status, DC_OK) << back.message;
    for (int64_t i = 0; i < 30; ++i) EXPECT_TRUE(holds(back.cache, i, 1000));
  }
}

TEST_F(Saving, EveryKeyComesBackAtItsIndex) {
  dc_cache_options options = options_for(700, 4 << 20);
  options.keyed = 1;
  Handle cache = open_cache(name_, options);
  std::vector<int64_t> indices;
  for (int i = 0; i < 600; ++i) {
    const std::string key = "image " + std::to_string(i);
    int64_t index = -1;
    ASSERT_EQ(dc_cache_intern(cache, reinterpret_cast<const uint8_t *>(key.data()), key.size(), &index), DC_OK);
    indices.push_back(index);
    ASSERT_TRUE(i % 2 != 0 || put(cache, index, 100) == DC_OK);
  }
  EXPECT_EQ(save(cache, path_), 300);
  EXPECT_EQ(saved_info(path_).keys, 600u);
  cache.close();
  const Restored back = restore(path_, other_);
  ASSERT_EQ(back.status, DC_OK) << back.message;
  for (int i = 0; i < 600; ++i) {
    const std::string key = "image " + std::to_string(i);
    int64_t index = -1;
    ASSERT_EQ(dc_cache_lookup(back.cache, reinterpret_cast<const uint8_t *>(key.data()), key.size(), &index), DC_OK);
    EXPECT_EQ(index, indices[static_cast<size_t>(i)]);
    EXPECT_EQ(dc_cache_contains(back.cache, index), i % 2 == 0 ? DC_OK : DC_MISS);
  }
  EXPECT_EQ(report_of(back.cache).keys, 600u);
  EXPECT_EQ(info_of(back.cache).keys, 600u);
}

// What a save sees of a key that came late, by a walk over a slot that was read before it was taken: there is no way to it.
TEST_F(Saving, AKeyThatCouldNotBeFoundInTheFileIsLeftOut) {
  dc_cache_options options = options_for(100, 4 << 20);
  options.keyed = 1;
  Handle cache = open_cache(name_, options);
  Segment segment;
  {
    const int fd = open(name_.path().c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_EQ(pread(fd, &segment.header, sizeof(Header), 0), static_cast<ssize_t>(sizeof(Header)));
    ASSERT_TRUE(check_header(segment.header, fs::file_size(name_.path()), "it", &segment.layout).ok());
    ASSERT_TRUE(segment.map(fd).ok());
    close(fd);
  }
  const auto bytes = [](const std::string &key) { return reinterpret_cast<const uint8_t *>(key.data()); };
  std::string late;
  int64_t late_index = -1, home = -1;
  for (int i = 0; i < 60; ++i) {
    const std::string key = std::to_string(i);
    int64_t index = -1;
    ASSERT_EQ(dc_cache_intern(cache, bytes(key), key.size(), &index), DC_OK);
    ASSERT_EQ(put(cache, index, 100), DC_OK);
    const int64_t its_home = segment.keys().home(KeyHash::of(bytes(key), key.size()));
    if (its_home == index) continue;
    late = key;
    late_index = index;
    home = its_home;
  }
  ASSERT_GE(late_index, 0);
  segment.keys().place(home, {0, 0});
  const int64_t saved = save(cache, path_);
  EXPECT_LE(saved, 58);
  EXPECT_EQ(saved_info(path_).keys, static_cast<uint64_t>(saved));
  const Restored back = restore(path_, other_);
  ASSERT_EQ(back.status, DC_OK) << back.message;
  EXPECT_EQ(report_of(back.cache).keys, static_cast<uint64_t>(saved));
  EXPECT_EQ(dc_cache_contains(back.cache, late_index), DC_MISS);
  int64_t index = -1;
  EXPECT_EQ(dc_cache_lookup(back.cache, bytes(late), late.size(), &index), DC_MISS);
  ASSERT_EQ(dc_cache_intern(back.cache, bytes(late), late.size(), &index), DC_OK);
  EXPECT_EQ(index, home);
  report_of(back.cache);
}

// Keys and samples that come while the cache is saved: in the file there is no key that cannot be found.
TEST_F(Saving, AFileThatWasSavedWhileOthersFillIsWhole) {
  dc_cache_options options = options_for(20'000, 64 << 20);
  options.keyed = 1;
  Handle cache = open_cache(name_, options);
  std::atomic<bool> stop{false};
  std::thread filler([&] {
    for (int i = 0; i < 15'000 && !stop; ++i) {
      const std::string key = std::to_string(i);
      int64_t index = -1;
      dc_cache_intern(cache, reinterpret_cast<const uint8_t *>(key.data()), key.size(), &index);
      put(cache, index, 200);
    }
  });
  for (int round = 0; round < 20; ++round) {
    const int64_t saved = save(cache, path_);
    const CacheName fresh;
    const Restored back = restore(path_, fresh);
    ASSERT_EQ(back.status, DC_OK) << back.message;
    const dc_cache_report report = report_of(back.cache);
    EXPECT_EQ(report.entries_ready, static_cast<uint64_t>(saved));
    EXPECT_GE(report.keys, report.entries_ready);
    for (int64_t i = 0; i < 20'000; ++i) {
      ASSERT_TRUE(dc_cache_contains(back.cache, i) == DC_MISS || holds(back.cache, i, 200));
    }
  }
  stop = true;
  filler.join();
}

TEST_F(Saving, AFileIsReplacedAsAWhole) {
  Handle cache = open_cache(name_, options_for(50, 4 << 20));
  ASSERT_EQ(put(cache, 0, 1000), DC_OK);
  write_bytes(path_, "what was there before");
  ASSERT_EQ(symlink(path_.c_str(), folder_.file("link").c_str()), 0);
  const int old = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(save(cache, folder_.file("link")), 1);
  char text[30] = "";
  EXPECT_EQ(read(old, text, sizeof text), 21) << "who has the old file open still has it";
  close(old);
  EXPECT_EQ(saved_info(path_).samples, 1);
  EXPECT_TRUE(fs::is_symlink(folder_.file("link")));
  EXPECT_EQ(folder_.names().size(), 2u) << "no temporary file is left";
}

TEST_F(Saving, ItsFileHasTheModeOfAnyNewFile) {
  Handle cache = open_cache(name_, options_for(5, 1 << 20));
  for (const mode_t mask : {022, 077}) {
    const mode_t before = umask(mask);
    save(cache, path_);
    umask(before);
    EXPECT_EQ(fs::status(path_).permissions(), static_cast<fs::perms>(0666 & ~mask));
  }
}

TEST_F(Saving, WhatIsNoFileIsNotReplaced) {
  Handle cache = open_cache(name_, options_for(5, 1 << 20));
  ASSERT_EQ(symlink("nowhere", folder_.file("dangling").c_str()), 0);
  ASSERT_EQ(mkfifo(folder_.file("pipe").c_str(), 0600), 0);
  fs::create_directory(folder_.file("directory"));
  for (const char *name : {"dangling", "pipe", "directory", "directory/", ""}) {
    dc_error error = {};
    EXPECT_EQ(dc_cache_save(cache, folder_.file(name).c_str(), nullptr, nullptr, nullptr, &error), DC_ERROR_ARGUMENT)
        << name << ": " << error.message;
  }
  dc_error error = {};
  EXPECT_EQ(dc_cache_save(cache, "/dev/null", nullptr, nullptr, nullptr, &error), DC_ERROR_ARGUMENT) << error.message;
  EXPECT_EQ(dc_cache_save(cache, folder_.file("no/such").c_str(), nullptr, nullptr, nullptr, &error), DC_ERROR_SYSTEM);
  EXPECT_EQ(dc_cache_save(cache, nullptr, nullptr, nullptr, nullptr, &error), DC_ERROR_ARGUMENT);
  EXPECT_TRUE(fs::exists("/dev/null"));
  EXPECT_EQ(folder_.names().size(), 3u);
}

// What a caller hears, and where he stops it.
struct Listener {
  std::vector<std::pair<uint64_t, uint64_t>> heard;
  size_t stop_at = SIZE_MAX;
};
int32_t listen(uint64_t done, uint64_t total, void *user) {
  Listener *listener = static_cast<Listener *>(user);
  listener->heard.emplace_back(done, total);
  return listener->heard.size() > listener->stop_at ? 7 : 0;
}

TEST_F(Saving, ProgressIsHeardFromTheStartToTheEnd) {
  Handle cache = open_cache(name_, options_for(40, 260 << 20, 5 << 20));
  for (int64_t i = 0; i < 40; ++i) ASSERT_EQ(put(cache, i, 5 << 20), DC_OK);
  Listener saver, restorer;
  ASSERT_EQ(dc_cache_save(cache, path_.c_str(), listen, &saver, nullptr, nullptr), DC_OK);
  cache.close();
  dc_cache *back = nullptr;
  ASSERT_EQ(
      dc_cache_restore(path_.c_str(), other_.c_str(), nullptr, nullptr, nullptr, listen, &restorer, &back, nullptr),
      DC_OK);
  Handle closing(back);
  for (const Listener *listener : {&saver, &restorer}) {
    ASSERT_GE(listener->heard.size(), 5u);
    EXPECT_EQ(listener->heard.front().first, 0u);
    EXPECT_EQ(listener->heard.back().first, fs::file_size(path_));
    EXPECT_EQ(listener->heard.back().second, fs::file_size(path_));
    for (size_t i = 0; i < listener->heard.size(); ++i) {
      EXPECT_LE(listener->heard[i].first, listener->heard[i].second);
      EXPECT_NEAR(static_cast<double>(listener->heard[i].second), static_cast<double>(fs::file_size(path_)), 1e6);
      if (i == 0) continue;
      EXPECT_GE(listener->heard[i].first, listener->heard[i - 1].first);
      EXPECT_LE(listener->heard[i].first - listener->heard[i - 1].first, 70u << 20);
    }
  }
}

TEST_F(Saving, StoppedAtAnyMomentItLeavesWhatWasThere) {
  Handle cache = open_cache(name_, options_for(40, 260 << 20, 5 << 20));
  for (int64_t i = 0; i < 40; ++i) ASSERT_EQ(put(cache, i, 5 << 20), DC_OK);
  write_bytes(path_, "old");
  Listener all;
  for (size_t stop_at = 0;; ++stop_at) {
    Listener listener;
    listener.stop_at = stop_at;
    const int32_t status = dc_cache_save(cache, path_.c_str(), listen, &listener, nullptr, nullptr);
    if (status == DC_OK) break;
    ASSERT_EQ(status, DC_INTERRUPTED);
    ASSERT_EQ(bytes_of(path_), "old");
    ASSERT_EQ(folder_.names().size(), 1u);
  }
  for (size_t stop_at = 0;; ++stop_at) {
    Listener listener;
    listener.stop_at = stop_at;
    dc_cache *back = nullptr;
    const int32_t status =
        dc_cache_restore(path_.c_str(), other_.c_str(), nullptr, nullptr, nullptr, listen, &listener, &back, nullptr);
    Handle closing(back);
    if (status == DC_OK) break;
    ASSERT_EQ(status, DC_INTERRUPTED);
    ASSERT_FALSE(other_.exists());
  }
}

TEST_F(Saving, AnotherFingerprintIsAnErrorWithBoth) {
  Handle cache = open_cache(name_, options_for(5, 1 << 20), "digits v1");
  save(cache, path_);
  const Restored wrong = restore(path_, other_, nullptr, "digits v2");
  EXPECT_EQ(wrong.status, DC_ERROR_FINGERPRINT);
  EXPECT_NE(wrong.message.find("digits v1"), std::string::npos) << wrong.message;
  EXPECT_NE(wrong.message.find("digits v2"), std::string::npos) << wrong.message;
  EXPECT_FALSE(other_.exists());
}

TEST_F(Saving, OptionsThatCannotHoldItAreErrorsWithBothNumbers) {
  Handle cache = open_cache(name_, options_for(100, 8 << 20, 0, 40'000));
  for (int64_t i = 0; i < 100; ++i) ASSERT_EQ(put(cache, i, 30'000), DC_OK);
  save(cache, path_);
  struct Case {
    dc_cache_options options;
    int32_t status;
    const char *text[2];
  };
  dc_cache_options keyed = options_for(0, 0);
  keyed.keyed = 1;
  for (const Case &c : {Case{options_for(99, 0), DC_ERROR_MISMATCH, {"100", "99"}},
                        Case{keyed, DC_ERROR_MISMATCH, {"not keyed", "is keyed"}},
                        Case{options_for(0, 0, 0, 29'999), DC_ERROR_TOO_LARGE, {"30000", "29999"}},
                        Case{options_for(0, 0, 10'000), DC_ERROR_TOO_LARGE, {"30064", "10000"}},
                        Case{options_for(0, 2 << 20), DC_ERROR_NO_SPACE, {"100 samples", "1.977 MiB"}},
                        Case{options_for(0, 3'100'000), DC_ERROR_NO_SPACE, {"100 samples", "is full with"}},
                        Case{options_for(0, uint64_t{1} << 50), DC_ERROR_NO_SPACE, {"1 PiB", "free"}}}) {
    const Restored back = restore(path_, other_, &c.options);
    EXPECT_EQ(back.status, c.status) << back.message;
    for (const char *text : c.text) EXPECT_NE(back.message.find(text), std::string::npos) << back.message;
    EXPECT_FALSE(other_.exists());
  }
}

TEST_F(Saving, OptionsThatAreGivenCount) {
  Handle cache = open_cache(name_, options_for(100, 8 << 20, 0, 40'000));
  ASSERT_EQ(put(cache, 7, 30'000), DC_OK);
  save(cache, path_);
  dc_cache_options options = options_for(0, 16 << 20, 0, 50'000);
  options.droppable = 1;
  options.keep = 1;
  options.job_id = 77;
  Restored back = restore(path_, other_, &options);
  ASSERT_EQ(back.status, DC_OK) << back.message;
  const dc_cache_info info = info_of(back.cache);
  EXPECT_EQ(info.droppable, 1u);
  EXPECT_EQ(info.keep, 1u);
  EXPECT_EQ(info.job_id, 77u);
  EXPECT_EQ(info.sample_bytes_max, 50'000u);
  EXPECT_GE(info.capacity_bytes, 15u << 20);
  EXPECT_TRUE(holds(back.cache, 7, 30'000));
}

// Fills come in another order than they did, and what is full to the last piece has room again.
TEST_F(Saving, AFullCacheOfManySizesFitsItsOwnFile) {
  const unsigned seed = 20261130;
  std::mt19937 random(seed);
  SCOPED_TRACE(seed);
  Handle cache = open_cache(name_, options_for(5000, 24 << 20, 0, 300'000));
  std::vector<uint64_t> sizes(5000);
  uint64_t stored = 0;
  int refused = 0;
  for (int tries = 0; tries < 20'000 && refused < 2000; ++tries) {
    const int64_t index = static_cast<int64_t>(random() % 5000);
    if (sizes[static_cast<size_t>(index)] != 0) continue;
    const uint64_t bytes = uint64_t{1} << (random() % 19);
    const int32_t status = put(cache, index, bytes + 1);
    if (status == DC_OK) sizes[static_cast<size_t>(index)] = bytes + 1;
    stored += status == DC_OK;
    refused += status != DC_OK;
  }
  ASSERT_GT(refused, 100);
  EXPECT_EQ(save(cache, path_), static_cast<int64_t>(stored));
  cache.close();
  const Restored back = restore(path_, other_);
  ASSERT_EQ(back.status, DC_OK) << back.message;
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_TRUE(sizes[i] == 0 || holds(back.cache, static_cast<int64_t>(i), sizes[i])) << i;
  }
}

TEST_F(Saving, ACacheInUseIsAttachedToInsteadOfRead) {
  Handle cache = open_cache(name_, options_for(50, 4 << 20));
  ASSERT_EQ(put(cache, 0, 1000), DC_OK);
  save(cache, path_);
  ASSERT_EQ(put(cache, 1, 1000), DC_OK);
  const Restored back = restore(path_, name_);
  ASSERT_EQ(back.status, DC_OK) << back.message;
  EXPECT_EQ(info_of(back.cache).created, 0u);
  EXPECT_STREQ(info_of(back.cache).uuid, info_of(cache).uuid);
  EXPECT_EQ(dc_cache_contains(back.cache, 1), DC_OK);

  Handle different = open_cache(other_, options_for(60, 4 << 20));
  const Restored refused = restore(path_, other_);
  EXPECT_EQ(refused.status, DC_ERROR_MISMATCH) << refused.message;
  const CacheName third;
  Handle foreign = open_cache(third, options_for(50, 4 << 20), "other data");
  EXPECT_EQ(restore(path_, third).status, DC_ERROR_FINGERPRINT);
}

TEST_F(Saving, AKeptCacheIsUsedWhereItHasAsMuchAndReplacedWhereItHasLess) {
  dc_cache_options options = options_for(50, 4 << 20);
  options.keep = 1;
  Handle cache = open_cache(name_, options);
  ASSERT_EQ(put(cache, 0, 1000), DC_OK);
  ASSERT_EQ(put(cache, 1, 1000), DC_OK);
  save(cache, path_);
  const std::string uuid = info_of(cache).uuid;
  cache.close();
  Restored again = restore(path_, name_);
  ASSERT_EQ(again.status, DC_OK) << again.message;
  EXPECT_EQ(info_of(again.cache).adopted, 1u);
  EXPECT_EQ(info_of(again.cache).uuid, uuid);
  again.cache.close();

  Handle emptier = open_cache(other_, options);
  ASSERT_EQ(put(emptier, 7, 1000), DC_OK);
  emptier.close();
  ASSERT_TRUE(other_.exists());
  const Restored fuller = restore(path_, other_);
  ASSERT_EQ(fuller.status, DC_OK) << fuller.message;
  EXPECT_EQ(info_of(fuller.cache).created, 1u);
  EXPECT_EQ(dc_cache_contains(fuller.cache, 1), DC_OK);
  EXPECT_EQ(dc_cache_contains(fuller.cache, 7), DC_MISS);
}

// Whatever goes wrong with the file, a kept cache that it was to replace stays.
TEST_F(Saving, ADamagedFileReplacesNothing) {
  dc_cache_options options = options_for(50, 4 << 20);
  Handle cache = open_cache(name_, options);
  ASSERT_EQ(put(cache, 0, 1000), DC_OK);
  save(cache, path_);
  std::string bytes = bytes_of(path_);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_bytes(path_, bytes);
  options.keep = 1;
  Handle kept = open_cache(other_, options, "other data");
  ASSERT_EQ(put(kept, 3, 1000), DC_OK);
  kept.close();
  EXPECT_EQ(restore(path_, other_).status, DC_ERROR_DAMAGED);
  const Handle still = open_cache(other_, options, "other data");
  EXPECT_EQ(info_of(still).adopted, 1u);
  EXPECT_TRUE(holds(still, 3, 1000));
}

class Damage : public Saving {
 protected:
  Damage() {
    dc_cache_options options = options_for(12, 1 << 20);
    options.keyed = 1;
    Handle cache = open_cache(name_, options);
    for (const char *key : {"a", "b", "c"}) {
      int64_t index = -1;
      EXPECT_EQ(dc_cache_intern(cache, reinterpret_cast<const uint8_t *>(key), 1, &index), DC_OK);
      EXPECT_EQ(put(cache, index, 150), DC_OK);
    }
    EXPECT_EQ(save(cache, path_), 3);
    whole_ = bytes_of(path_);
    options_.clients_max = 2;
    options_.capacity_bytes = 1 << 20;  // so that no forger's wish for more is granted
    options_.keyed = 1;
  }

  // The status of a file of these bytes; nothing is left of it, whatever it is.
  int32_t status_of(const std::string &bytes, std::string *message = nullptr) {
    write_bytes(path_, bytes);
    const Restored back = restore(path_, other_, &options_);
    if (message) *message = back.message;
    EXPECT_EQ(other_.exists(), back.status == DC_OK);
    return back.status;
  }

  const Folder memory_{"/dev/shm"};
  const std::string path_ = memory_.file("saved.cache");
  dc_cache_options options_ = options_for(0, 0);
  std::string whole_;
};

TEST_F(Damage, OfAnyByteIsFound) {
  ASSERT_EQ(status_of(whole_), DC_OK);
  for (size_t at = 0; at < whole_.size(); ++at) {
    std::string flipped = whole_;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
    const bool version = at >= 8 && at < 12;
    ASSERT_EQ(status_of(flipped), version ? DC_ERROR_FORMAT : DC_ERROR_DAMAGED) << "byte " << at;
  }
}

TEST_F(Damage, ByCuttingOrAddingIsFound) {
  for (size_t length = 0; length < whole_.size(); ++length) {
    ASSERT_EQ(status_of(whole_.substr(0, length)), DC_ERROR_DAMAGED) << length;
  }
  EXPECT_EQ(status_of(whole_ + '\0'), DC_ERROR_DAMAGED);
}

TEST_F(Damage, IsSaidWhere) {
  std::string message, flipped = whole_;
  flipped[flipped.size() - 1] ^= 1;
  EXPECT_EQ(status_of(flipped, &message), DC_ERROR_DAMAGED);
  EXPECT_NE(message.find(path_ + " is damaged at byte "), std::string::npos) << message;
  EXPECT_NE(message.find("the sample of index "), std::string::npos) << message;
}

// A file whose checksums are all right, made by somebody who means harm: every field of headers, keys, frames and heads
// is set to every value that could do some.
TEST_F(Damage, ByAForgerDoesNoHarm) {
  const uint64_t values[] = {
      0,         1,         2, 12, 13, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, uint64_t{1} << 34, uint64_t{1} << 56,
      INT64_MAX, UINT64_MAX};
  // Seals a forged file anew.
  const auto seal = [](std::string bytes) {
    SavedHeader header;
    std::memcpy(static_cast<void *>(&header), bytes.data(), sizeof header);
    uint64_t check = 0;
    size_t at = sizeof header;
    for (uint64_t i = 0; i < header.key_slots && at + sizeof(SavedKey) <= bytes.size(); ++i, at += sizeof(SavedKey)) {
      SavedKey key;
      std::memcpy(&key, bytes.data() + at, sizeof key);
      check = key.check = key_check(check, key);
      std::memcpy(bytes.data() + at, &key, sizeof key);
    }
    for (uint64_t i = 0; i < header.samples; ++i) {
      SavedFrame frame;
      RecordHead head;
      if (at + sizeof frame + sizeof head > bytes.size()) break;
      std::memcpy(&frame, bytes.data() + at, sizeof frame);
      std::memcpy(&head, bytes.data() + at + sizeof frame, sizeof head);
      RecordSums sums;
      uint8_t *record = reinterpret_cast<uint8_t *>(bytes.data() + at + sizeof frame);
      const uint64_t room = bytes.size() - at - sizeof frame;
      if (sum_record(record, room, frame.index, &sums)) head.checksum = sums.actual;
      check = frame.check = frame_check(check, frame.index, head);
      std::memcpy(bytes.data() + at, &frame, sizeof frame);
      std::memcpy(record, &head, sizeof head);
      if (head.record_bytes > room || head.record_bytes < sizeof head) break;
      at += sizeof frame + head.record_bytes;
    }
    header.last_check = check;
    seal_saved_header(&header);
    std::memcpy(bytes.data(), static_cast<const void *>(&header), sizeof header);
    return bytes;
  };
  ASSERT_EQ(status_of(seal(whole_)), DC_OK);
  SavedHeader header;
  std::memcpy(static_cast<void *>(&header), whole_.data(), sizeof header);
  const size_t records = sizeof header + header.key_slots * sizeof(SavedKey);
  int refused = 0;
  const auto forge = [&](size_t at, size_t width) {
    for (const uint64_t value : values) {
      std::string bytes = whole_;
      std::memcpy(bytes.data() + at, &value, width);
      write_bytes(path_, seal(bytes));
      const Restored back =
          restore(path_, other_, at == offsetof(SavedHeader, capacity_bytes) && value < 1 << 20 ? nullptr : &options_);
      refused += back.status != DC_OK;
      if (back.status != DC_OK) {
        ASSERT_FALSE(other_.exists());
        continue;
      }
      report_of(back.cache);
      for (int64_t i = 0; i < info_of(back.cache).length && i < 100; ++i) {
        dc_view view;
        if (dc_cache_view(back.cache, i, &view) != DC_OK) continue;
        for (uint32_t a = 0; a < view.array_count; ++a) {
          dc_array array;
          ASSERT_EQ(dc_view_array(&view, a, &array), DC_OK);
          ASSERT_LE(array.data + array.bytes, view.record + view.record_bytes);
        }
        dc_cache_view_release(&view);
      }
    }
  };
  for (size_t at = 8; at < offsetof(SavedHeader, library); at += 4) forge(at, at < 16 ? 4 : 8);
  for (size_t at = 0; at < 8 * sizeof(SizeBucket); at += 8) forge(offsetof(SavedHeader, sizes) + 16 * 16 + at, 8);
  for (size_t at = sizeof header; at < records; at += 8) forge(at, 8);
  for (size_t at = records; at < records + sizeof(SavedFrame) + 64; at += 2) forge(at, at % 8 == 0 ? 8 : 2);
  EXPECT_GT(refused, 500);
}

TEST_F(Damage, NoSavedCacheIsNamedAsThat) {
  std::string message;
  EXPECT_EQ(status_of(std::string(10'000, 'x'), &message), DC_ERROR_DAMAGED);
  EXPECT_NE(message.find("no saved cache"), std::string::npos) << message;
  fs::remove(path_);
  EXPECT_EQ(restore(path_, other_).status, DC_ERROR_NOT_FOUND);
  EXPECT_EQ(restore("/dev/null", other_).status, DC_ERROR_ARGUMENT);
  EXPECT_EQ(restore(fs::temp_directory_path(), other_).status, DC_ERROR_ARGUMENT);
}

TEST_F(Damage, OfASampleInMemoryIsNotSaved) {
  dc_cache_options options = options_for(12, 1 << 20);
  const CacheName name;
  Handle cache = open_cache(name, options);
  for (int64_t i = 0; i < 3; ++i) ASSERT_EQ(put(cache, i, 150), DC_OK);
  dc_view view;
  ASSERT_EQ(dc_cache_view(cache, 1, &view), DC_OK);
  // A checksum that was taken, and does not fit.
  const int fd = open(name.path().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  const std::string all = bytes_of(name.path());
  const std::string record(reinterpret_cast<const char *>(view.record), view.record_bytes);
  const size_t at = all.find(record);
  ASSERT_NE(at, std::string::npos);
  const uint64_t wrong = 12345;
  ASSERT_EQ(pwrite(fd, &wrong, 8, static_cast<off_t>(at + offsetof(RecordHead, checksum))), 8);
  close(fd);
  dc_cache_view_release(&view);
  EXPECT_EQ(save(cache, path_), 2);
  const Restored back = restore(path_, other_);
  ASSERT_EQ(back.status, DC_OK) << back.message;
  EXPECT_EQ(dc_cache_contains(back.cache, 1), DC_MISS);
  EXPECT_EQ(dc_cache_contains(back.cache, 2), DC_OK);
}

TEST_F(Saving, ItsHeaderDescribesAFile) {
  Handle cache = open_cache(name_, options_for(100, 8 << 20, 0, 40'000), "digits v1");
  for (int64_t i = 0; i < 10; ++i) ASSERT_EQ(put(cache, i, static_cast<uint64_t>(3000 * i)), DC_OK);
  save(cache, path_);
  const dc_saved_info info = saved_info(path_);
  EXPECT_EQ(info.length, 100);
  EXPECT_EQ(info.samples, 10);
  EXPECT_EQ(info.sample_bytes_max, 40'000u);
  EXPECT_EQ(info.file_bytes, fs::file_size(path_));
  EXPECT_EQ(info.largest_bytes, 27'000u + 64);
  EXPECT_EQ(info.record_bytes + 4096 + 10 * 16, info.file_bytes);
  EXPECT_STREQ(info.fingerprint, "digits v1");
  EXPECT_STREQ(info.name, name_.c_str());
  EXPECT_STREQ(info.uuid, info_of(cache).uuid);
  EXPECT_STREQ(info.library, dc_version());
  dc_error error = {};
  dc_saved_info unsized = {};
  EXPECT_EQ(dc_saved_info_get(path_.c_str(), &unsized, &error), DC_ERROR_ARGUMENT);
}

// As on a file system without unnamed files.
TEST_F(Saving, ATemporaryFileIsInUseAsLongAsItsMakerHoldsItsLock) {
  const auto begin = [this](Replacement *file) { return file->begin(path_, Replacement::Making::named).code(); };
  {
    Replacement first, second;
    ASSERT_EQ(begin(&first), DC_OK);
    ASSERT_EQ(begin(&second), DC_OK);
    EXPECT_EQ(folder_.names().size(), 2u) << "the second leaves the first one's file alone";
    ASSERT_EQ(pwrite(first.fd(), "one", 3, 0), 3);
    ASSERT_EQ(pwrite(second.fd(), "two", 3, 0), 3);
    EXPECT_EQ(first.publish().code(), DC_OK);
    EXPECT_EQ(bytes_of(path_), "one");
    EXPECT_EQ(second.publish().code(), DC_OK);
    EXPECT_EQ(bytes_of(path_), "two");
  }
  {
    Replacement given_up;
    ASSERT_EQ(begin(&given_up), DC_OK);
  }
  EXPECT_EQ(folder_.names().size(), 1u);
  write_bytes(folder_.file(".ddpcache-saving-0123456789abcdef"), "of a maker that was killed");
  write_bytes(folder_.file("ddpcache-saving-0123456789abcdef"), "of somebody else");
  ASSERT_EQ(symlink("/dev/null", folder_.file(".ddpcache-saving-link").c_str()), 0);
  {
    Replacement next;
    ASSERT_EQ(begin(&next), DC_OK);
    EXPECT_FALSE(fs::exists(folder_.file(".ddpcache-saving-0123456789abcdef")));
    EXPECT_TRUE(fs::exists(folder_.file("ddpcache-saving-0123456789abcdef")));
    EXPECT_TRUE(fs::is_symlink(folder_.file(".ddpcache-saving-link")));
  }
}

}  // namespace
}  // namespace ddpcache::test
