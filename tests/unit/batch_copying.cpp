// Copying samples out: one, batches of equal and of different size, of one array and of several.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>
#include <vector>

#include "../support/caches.hpp"

namespace ddpcache::test {
namespace {

constexpr int64_t kLength = 100;
constexpr uint8_t kUntouched = 0xEE;

// Stores a sample of several byte arrays, of which array k has the pattern of 1000 * k + index.
int32_t put_arrays(dc_cache *cache, int64_t index, const std::vector<uint64_t> &bytes) {
  dc_fill *fill = nullptr;
  if (const int32_t status = dc_cache_fill_begin(cache, index, 0, &fill)) return status;
  std::vector<dc_array> arrays;
  for (const uint64_t length : bytes) arrays.push_back(byte_array(length));
  EXPECT_EQ(dc_cache_fill_allocate(fill, arrays.data(), static_cast<uint32_t>(arrays.size()), "[]", nullptr), DC_OK);
  for (size_t k = 0; k < bytes.size(); ++k) {
    write_pattern(arrays[k].data, bytes[k], 1000 * static_cast<int64_t>(k) + index);
  }
  return dc_cache_fill_commit(fill);
}

bool untouched(const uint8_t *memory, uint64_t bytes) {
  return std::all_of(memory, memory + bytes, [](uint8_t byte) { return byte == kUntouched; });
}

class Copying : public ::testing::Test {
 protected:
  ~Copying() override { report_of(cache_); }

  int32_t gather(const std::vector<int64_t> &indices, const std::vector<dc_gather> &parts, uint32_t threads = 1) {
    statuses_.assign(indices.size(), 99);
    return dc_cache_gather(cache_, indices.data(), static_cast<int64_t>(indices.size()), parts.data(),
                           static_cast<uint32_t>(parts.size()), statuses_.data(), threads);
  }

  const CacheName name_;
  Handle cache_ = open_cache(name_, options_for(kLength, 64 << 20, 0, 1 << 20));
  std::vector<int32_t> statuses_;
};

TEST_F(Copying, OneArrayOfASampleIsCopied) {
  ASSERT_EQ(put_arrays(cache_, 8, {100, 0, 33}), DC_OK);
  std::vector<uint8_t> buffer(100);
  uint64_t bytes = 0;
  EXPECT_EQ(dc_cache_read(cache_, 8, 0, buffer.data(), 100, &bytes), DC_OK);
  EXPECT_EQ(bytes, 100u);
  EXPECT_TRUE(has_pattern(buffer.data(), 100, 8));
  EXPECT_EQ(dc_cache_read(cache_, 8, 2, buffer.data(), 100, &bytes), DC_OK);
  EXPECT_EQ(bytes, 33u);
  EXPECT_TRUE(has_pattern(buffer.data(), 33, 2008));
  EXPECT_EQ(dc_cache_read(cache_, 8, 1, nullptr, 0, &bytes), DC_OK);
  EXPECT_EQ(bytes, 0u);
  EXPECT_EQ(dc_cache_read(cache_, 8, 2, buffer.data(), 32, &bytes), DC_ERROR_BUFFER);
  EXPECT_EQ(bytes, 33u);
  EXPECT_EQ(dc_cache_read(cache_, 8, 3, buffer.data(), 100, &bytes), DC_ERROR_RECORD);
  EXPECT_EQ(dc_cache_read(cache_, 7, 0, buffer.data(), 100, &bytes), DC_MISS);
}

TEST_F(Copying, ABatchHasAStatusASampleAndItsMissesStopNoHits) {
  constexpr uint64_t kBytes = 500;
  for (int64_t i = 0; i < 40; ++i) ASSERT_EQ(put(cache_, i, i == 13 ? 501 : kBytes), DC_OK);
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < 60; ++i) indices.push_back((i * 7) % 60);
  indices.insert(indices.end(), {-1, kLength, 5});
  for (const uint32_t threads : {0u, 1u, 3u, 64u}) {
    std::vector<uint8_t> buffer(indices.size() * kBytes, kUntouched);
    std::vector<int32_t> statuses(indices.size(), 99);
    EXPECT_EQ(dc_cache_read_batch(cache_, indices.data(), static_cast<int64_t>(indices.size()), 0, buffer.data(),
                                  kBytes, statuses.data(), threads),
              DC_ERROR_RECORD)
        << "13 is the first that is not as it should, beside misses";
    for (size_t i = 0; i < indices.size(); ++i) {
      const uint8_t *sample = buffer.data() + i * kBytes;
      const int64_t index = indices[i];
      const int32_t expected = index < 0 || index >= kLength ? DC_ERROR_RANGE
                               : index == 13                 ? DC_ERROR_RECORD
                               : index < 40                  ? DC_OK
                                                             : DC_MISS;
      EXPECT_EQ(statuses[i], expected) << "index " << index;
      EXPECT_TRUE(expected == DC_OK ? has_pattern(sample, kBytes, index) : untouched(sample, kBytes));
    }
  }
  const int64_t misses[] = {50, 1};
  uint8_t room[2 * kBytes];
  EXPECT_EQ(dc_cache_read_batch(cache_, misses, 2, 0, room, kBytes, nullptr, 2), DC_MISS);
  EXPECT_EQ(dc_cache_read_batch(cache_, misses + 1, 1, 0, room, kBytes, nullptr, 2), DC_OK);
  EXPECT_EQ(dc_cache_read_batch(cache_, nullptr, 0, 0, nullptr, kBytes, nullptr, 2), DC_OK);
}

// Large enough that every thread asked for is started.
TEST_F(Copying, SeveralArraysOfABatchAreCopiedByAnyNumberOfThreads) {
  constexpr uint64_t kImage = 200'000, kMask = 50'000;
  constexpr int64_t kSamples = 40;
  for (int64_t i = 0; i < kSamples; ++i) ASSERT_EQ(put_arrays(cache_, i, {kImage, 8, 0, kMask}), DC_OK);
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < kSamples + 2; ++i) indices.push_back((i * 11) % (kSamples + 1));
  for (const uint32_t threads : {1u, 2u, 9u}) {
    std::vector<uint8_t> images(indices.size() * kImage, kUntouched), masks(indices.size() * kMask, kUntouched),
        labels(indices.size() * 8, kUntouched);
    EXPECT_EQ(gather(indices,
                     {{masks.data(), nullptr, kMask, 3, 0},
                      {nullptr, nullptr, 0, 2, 0},
                      {images.data(), nullptr, kImage, 0, 0},
                      {labels.data(), nullptr, 8, 1, 0}},
                     threads),
              DC_MISS);
    for (size_t i = 0; i < indices.size(); ++i) {
      const int64_t index = indices[i];
      const uint8_t *image = images.data() + i * kImage, *mask = masks.data() + i * kMask;
      if (index == kSamples) {
        EXPECT_EQ(statuses_[i], DC_MISS);
        EXPECT_TRUE(untouched(image, kImage) && untouched(mask, kMask) && untouched(labels.data() + i * 8, 8));
        continue;
      }
      EXPECT_EQ(statuses_[i], DC_OK);
      EXPECT_TRUE(has_pattern(image, kImage, index)) << index;
      EXPECT_TRUE(has_pattern(labels.data() + i * 8, 8, 1000 + index)) << index;
      EXPECT_TRUE(has_pattern(mask, kMask, 3000 + index)) << index;
    }
  }
}

TEST_F(Copying, SamplesOfDifferentSizeGoWhereTheirOffsetsSay) {
  std::vector<int64_t> indices, offsets = {5};
  for (int64_t i = 0; i < 30; ++i) {
    const uint64_t bytes = static_cast<uint64_t>(i % 7 == 3 ? 0 : 97 * i + 1);
    ASSERT_EQ(i == 20 ? DC_OK : put_arrays(cache_, i, {bytes, 24}), DC_OK);
    indices.push_back(i);
    offsets.push_back(offsets.back() + static_cast<int64_t>(bytes));
  }
  for (const uint32_t threads : {1u, 4u}) {
    std::vector<uint8_t> values(static_cast<size_t>(offsets.back()) + 3, kUntouched), fixed(30 * 24);
    EXPECT_EQ(gather(indices, {{values.data(), offsets.data(), 0, 0, 0}, {fixed.data(), nullptr, 24, 1, 0}}, threads),
              DC_MISS);
    EXPECT_TRUE(untouched(values.data(), 5));
    EXPECT_TRUE(untouched(values.data() + offsets.back(), 3));
    for (size_t i = 0; i < indices.size(); ++i) {
      const uint8_t *sample = values.data() + offsets[i];
      const uint64_t bytes = static_cast<uint64_t>(offsets[i + 1] - offsets[i]);
      EXPECT_EQ(statuses_[i], i == 20 ? DC_MISS : DC_OK);
      EXPECT_TRUE(i == 20 ? untouched(sample, bytes) : has_pattern(sample, bytes, indices[i])) << i;
      EXPECT_TRUE(i == 20 || has_pattern(fixed.data() + i * 24, 24, 1000 + indices[i])) << i;
    }
  }
}

TEST_F(Copying, ASampleThatDoesNotFitOnePlaceLeavesAllOfItsPlacesAsTheyWere) {
  ASSERT_EQ(put_arrays(cache_, 1, {64, 10, 10}), DC_OK);
  ASSERT_EQ(put_arrays(cache_, 2, {64, 10, 11}), DC_OK);  // its third array is longer
  ASSERT_EQ(put_arrays(cache_, 3, {64, 10}), DC_OK);      // it has none
  std::vector<uint8_t> first(3 * 64, kUntouched), third(3 * 10, kUntouched);
  EXPECT_EQ(gather({1, 2, 3}, {{first.data(), nullptr, 64, 0, 0}, {third.data(), nullptr, 10, 2, 0}}), DC_ERROR_RECORD);
  EXPECT_EQ(statuses_, (std::vector<int32_t>{DC_OK, DC_ERROR_RECORD, DC_ERROR_RECORD}));
  EXPECT_TRUE(has_pattern(first.data(), 64, 1));
  EXPECT_TRUE(has_pattern(third.data(), 10, 2001));
  EXPECT_TRUE(untouched(first.data() + 64, 128));
  EXPECT_TRUE(untouched(third.data() + 10, 20));
}

TEST_F(Copying, ASampleIsCountedOncePerBatchHoweverManyArraysAreCopied) {
  ASSERT_EQ(put_arrays(cache_, 1, {64, 10, 10}), DC_OK);
  uint8_t first[64 * 3], second[10 * 3];
  const dc_cache_stats before = stats_of(cache_);
  ASSERT_EQ(gather({1, 1, 2}, {{first, nullptr, 64, 0, 0}, {second, nullptr, 10, 1, 0}}), DC_MISS);
  const dc_cache_stats after = stats_of(cache_);
  EXPECT_EQ(after.hits - before.hits, 2u);
  EXPECT_EQ(after.misses - before.misses, 1u);
  EXPECT_EQ(after.bytes_copied - before.bytes_copied, 2u * 74);
}

// While one thread drops samples and fills them anew, in another version and another size, all arrays of what is copied
// are of one version.
TEST(CopyingDroppable, AllArraysOfASampleAreOfOneFill) {
  const CacheName name;
  dc_cache_options options = options_for(8, 4 << 20, 0, 64 << 10);
  options.droppable = 1;
  const Handle cache = open_cache(name, options);
  const auto refill = [&](int64_t index, uint8_t version) {
    dc_cache_remove(cache, index);
    dc_fill *fill = nullptr;
    ASSERT_EQ(dc_cache_fill_begin(cache, index, 0, &fill), DC_OK);
    dc_array arrays[] = {byte_array(20'000), byte_array(20'000)};
    const int32_t status = dc_cache_fill_allocate(fill, arrays, 2, nullptr, nullptr);
    if (status != DC_OK) {
      ASSERT_EQ(status, DC_FULL);
      ASSERT_EQ(dc_cache_fill_abort(fill), DC_OK);
      return;
    }
    for (const dc_array &array : arrays) std::memset(array.data, version, array.bytes);
    ASSERT_EQ(dc_cache_fill_commit(fill), DC_OK);
  };
  for (int64_t index = 0; index < 8; ++index) refill(index, 1);
  std::atomic<bool> stop{false};
  std::jthread dropper([&] {
    for (uint8_t version = 2; !stop; ++version) refill(version % 8, version);
  });
  std::vector<int64_t> indices(8);
  std::iota(indices.begin(), indices.end(), 0);
  std::vector<uint8_t> first(8 * 20'000), second(8 * 20'000);
  const dc_gather parts[] = {{first.data(), nullptr, 20'000, 0, 0}, {second.data(), nullptr, 20'000, 1, 0}};
  int copied = 0;
  for (int round = 0; round < 400; ++round) {
    int32_t statuses[8];
    dc_cache_gather(cache, indices.data(), 8, parts, 2, statuses, 1);
    for (size_t i = 0; i < 8; ++i) {
      if (statuses[i] != DC_OK) continue;
      ++copied;
      const uint8_t version = first[i * 20'000];
      const auto same = [&](uint8_t byte) { return byte == version; };
      ASSERT_TRUE(std::all_of(&first[i * 20'000], &first[i * 20'000] + 20'000, same));
      ASSERT_TRUE(std::all_of(&second[i * 20'000], &second[i * 20'000] + 20'000, same));
    }
  }
  stop = true;
  dropper.join();
  EXPECT_GT(copied, 400);
  report_of(cache);
}

TEST_F(Copying, WrongArgumentsAreRefusedWithNothingCopied) {
  ASSERT_EQ(put(cache_, 5, 100), DC_OK);
  const std::vector<int64_t> indices = {5};
  std::vector<uint8_t> buffer(100, kUntouched);
  const int64_t falling[] = {100, 0}, below[] = {-1, 99};
  const dc_gather good = {buffer.data(), nullptr, 100, 0, 0};
  const auto refused = [&](dc_gather part) { return gather(indices, {good, part}); };
  EXPECT_EQ(refused({nullptr, nullptr, 1, 0, 0}), DC_ERROR_ARGUMENT);
  EXPECT_EQ(refused({buffer.data(), falling, 5, 0, 0}), DC_ERROR_ARGUMENT) << "offsets and sample_bytes";
  EXPECT_EQ(refused({buffer.data(), falling, 0, 0, 0}), DC_ERROR_RANGE);
  EXPECT_EQ(refused({buffer.data(), below, 0, 0, 0}), DC_ERROR_RANGE);
  EXPECT_EQ(refused({buffer.data(), nullptr, 100, DC_ARRAYS_MAX, 0}), DC_ERROR_RANGE);
  EXPECT_EQ(refused({buffer.data(), nullptr, 100, 0, 1}), DC_ERROR_RANGE);
  EXPECT_EQ(refused({buffer.data(), nullptr, UINT64_MAX, 0, 0}), DC_ERROR_RANGE);
  EXPECT_EQ(gather(indices, {}), DC_ERROR_RANGE);
  EXPECT_EQ(gather(indices, std::vector<dc_gather>(DC_ARRAYS_MAX + 1, good)), DC_ERROR_RANGE);
  EXPECT_EQ(gather(indices, {good}, DC_COPY_THREADS_MAX + 1), DC_ERROR_RANGE);
  EXPECT_EQ(statuses_.front(), 99);
  EXPECT_EQ(dc_cache_gather(nullptr, indices.data(), 1, &good, 1, nullptr, 1), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_gather(cache_, nullptr, 1, &good, 1, nullptr, 1), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_gather(cache_, indices.data(), 1, nullptr, 1, nullptr, 1), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_gather(cache_, indices.data(), -1, &good, 1, nullptr, 1), DC_ERROR_RANGE);
  EXPECT_EQ(dc_cache_gather(cache_, indices.data(), int64_t{1} << 31, &good, 1, nullptr, 1), DC_ERROR_RANGE);
  const auto read = [&](dc_cache *cache, const int64_t *which, int64_t count, uint32_t number, uint8_t *into,
                        uint64_t bytes, uint32_t threads) {
    return dc_cache_read_batch(cache, which, count, number, into, bytes, nullptr, threads);
  };
  EXPECT_EQ(read(nullptr, indices.data(), 1, 0, buffer.data(), 100, 1), DC_ERROR_ARGUMENT);
  EXPECT_EQ(read(cache_, nullptr, 1, 0, buffer.data(), 100, 1), DC_ERROR_ARGUMENT);
  EXPECT_EQ(read(cache_, indices.data(), 1, 0, nullptr, 100, 1), DC_ERROR_ARGUMENT);
  EXPECT_EQ(read(cache_, indices.data(), -1, 0, buffer.data(), 100, 1), DC_ERROR_RANGE);
  EXPECT_EQ(read(cache_, indices.data(), int64_t{1} << 31, 0, buffer.data(), 100, 1), DC_ERROR_RANGE);
  EXPECT_EQ(read(cache_, indices.data(), 2, 0, buffer.data(), UINT64_MAX, 1), DC_ERROR_RANGE);
  EXPECT_EQ(read(cache_, indices.data(), 1, DC_ARRAYS_MAX, buffer.data(), 100, 1), DC_ERROR_RANGE);
  EXPECT_EQ(read(cache_, indices.data(), 1, 0, buffer.data(), 100, DC_COPY_THREADS_MAX + 1), DC_ERROR_RANGE);
  EXPECT_TRUE(untouched(buffer.data(), 100));
}

}  // namespace
}  // namespace ddpcache::test
