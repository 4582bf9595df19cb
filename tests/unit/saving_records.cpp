// What a cache brings back from its file.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "ddpcache/keys.h"
#include "hash.hpp"
#include "record.hpp"
#include "saved.hpp"
#include "saving_fixture.hpp"
#include "segment.hpp"

namespace ddpcache::test {
namespace {

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

// What a save sees of a key that came late, by a walk over a slot that was read before it was taken: there is no way to
// it.
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

}  // namespace
}  // namespace ddpcache::test
