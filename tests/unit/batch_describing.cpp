// Descriptions of many samples: what a caller needs to make room for a batch.
#include <gtest/gtest.h>

#include <vector>

#include "../support/caches.hpp"

namespace ddpcache::test {
namespace {

class Describing : public ::testing::Test {
 protected:
  // A float32 image of `height` x 4, named "image", and a label.
  void put_image(int64_t index, int64_t height, const char *structure) {
    dc_fill *fill = nullptr;
    ASSERT_EQ(dc_cache_fill_begin(cache_, index, 0, &fill), DC_OK);
    dc_array arrays[2] = {byte_array(0), byte_array(1)};
    arrays[0].shape[0] = height;
    arrays[0].shape[1] = 4;
    arrays[0].dimensions = 2;
    arrays[0].dtype_code = 2;
    arrays[0].dtype_bits = 32;
    std::strcpy(arrays[0].name, "image");
    ASSERT_EQ(dc_cache_fill_allocate(fill, arrays, 2, structure, nullptr), DC_OK);
    std::memset(arrays[0].data, 1, arrays[0].bytes);
    *arrays[1].data = 1;
    ASSERT_EQ(dc_cache_fill_commit(fill), DC_OK);
  }

  const CacheName name_;
  const Handle cache_ = open_cache(name_, options_for(10, 1 << 20));
};

TEST_F(Describing, EachSampleHasItsShapeTypeNameAndLength) {
  put_image(0, 3, "[1]");
  put_image(1, 5, "[1]");
  ASSERT_EQ(put(cache_, 2, 7), DC_OK);
  const int64_t indices[] = {1, 0, 2, 9, -1};
  dc_array arrays[5];
  std::memset(arrays, 0xEE, sizeof arrays);
  uint32_t counts[5];
  uint64_t structures[5];
  int32_t statuses[5];
  EXPECT_EQ(dc_cache_describe_batch(cache_, indices, 5, 0, arrays, counts, structures, statuses), DC_ERROR_RANGE);
  EXPECT_EQ(std::vector<int32_t>(statuses, statuses + 5),
            (std::vector<int32_t>{DC_OK, DC_OK, DC_OK, DC_MISS, DC_ERROR_RANGE}));
  EXPECT_EQ(std::vector<uint32_t>(counts, counts + 5), (std::vector<uint32_t>{2, 2, 1, 0, 0}));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(arrays[i].data, nullptr);
    EXPECT_EQ(arrays[i].shape[0], i == 0 ? 5 : 3);
    EXPECT_EQ(arrays[i].shape[1], 4);
    EXPECT_EQ(arrays[i].dimensions, 2u);
    EXPECT_EQ(arrays[i].dtype_code, 2);
    EXPECT_EQ(arrays[i].dtype_bits, 32);
    EXPECT_EQ(arrays[i].dtype_lanes, 1);
    EXPECT_EQ(arrays[i].bytes, i == 0 ? 80u : 48u);
    EXPECT_STREQ(arrays[i].name, "image");
  }
  EXPECT_EQ(arrays[2].bytes, 7u);
  EXPECT_EQ(arrays[3].dimensions, 0xEEEEEEEE) << "what is not there is not described";

  EXPECT_EQ(dc_cache_describe_batch(cache_, indices, 3, 1, arrays, nullptr, nullptr, statuses), DC_ERROR_RECORD);
  EXPECT_EQ(std::vector<int32_t>(statuses, statuses + 3), (std::vector<int32_t>{DC_OK, DC_OK, DC_ERROR_RECORD}));
  EXPECT_EQ(arrays[0].bytes, 1u);
  EXPECT_EQ(dc_cache_describe_batch(cache_, indices, 4, 0, nullptr, nullptr, nullptr, nullptr), DC_MISS);
  EXPECT_EQ(dc_cache_describe_batch(cache_, indices, 3, 0, nullptr, nullptr, nullptr, nullptr), DC_OK);
  EXPECT_EQ(dc_cache_describe_batch(cache_, nullptr, 0, 0, nullptr, nullptr, nullptr, nullptr), DC_OK);
}

TEST_F(Describing, StructuresAreToldApartByTheirHash) {
  put_image(0, 3, "[1]");
  put_image(1, 5, "[1]");
  put_image(2, 3, "[2]");
  put_image(3, 3, nullptr);
  const int64_t indices[] = {0, 1, 2, 3, 4};
  uint64_t structures[5] = {9, 9, 9, 9, 9};
  EXPECT_EQ(dc_cache_describe_batch(cache_, indices, 5, 0, nullptr, nullptr, structures, nullptr), DC_MISS);
  EXPECT_NE(structures[0], 0u);
  EXPECT_EQ(structures[0], structures[1]);
  EXPECT_NE(structures[0], structures[2]);
  EXPECT_EQ(structures[3], 0u);
  EXPECT_EQ(structures[4], 0u);

  uint8_t text[4] = {0, 0, 0, '!'};
  uint64_t bytes = 0;
  EXPECT_EQ(dc_cache_structure(cache_, 2, text, 3, &bytes), DC_OK);
  EXPECT_EQ(bytes, 3u);
  EXPECT_EQ(std::memcmp(text, "[2]!", 4), 0);
  EXPECT_EQ(dc_cache_structure(cache_, 2, text, 2, &bytes), DC_ERROR_BUFFER);
  EXPECT_EQ(bytes, 3u);
  EXPECT_EQ(dc_cache_structure(cache_, 3, nullptr, 0, &bytes), DC_OK);
  EXPECT_EQ(bytes, 0u);
  EXPECT_EQ(dc_cache_structure(cache_, 4, text, 3, &bytes), DC_MISS);
  EXPECT_EQ(dc_cache_structure(cache_, 10, text, 3, &bytes), DC_ERROR_RANGE);
}

TEST_F(Describing, NothingIsCounted) {
  put_image(0, 3, "[1]");
  const dc_cache_stats before = stats_of(cache_);
  const int64_t indices[] = {0, 1};
  uint64_t bytes = 0;
  dc_cache_describe_batch(cache_, indices, 2, 0, nullptr, nullptr, nullptr, nullptr);
  dc_cache_structure(cache_, 0, nullptr, 0, &bytes);
  EXPECT_EQ(stats_of(cache_).hits, before.hits);
  EXPECT_EQ(stats_of(cache_).misses, before.misses);
}

TEST_F(Describing, InADroppableCacheNoNameIsLeft) {
  const CacheName name;
  dc_cache_options options = options_for(10, 1 << 20);
  options.droppable = 1;
  const Handle cache = open_cache(name, options);
  ASSERT_EQ(put(cache, 0, 100), DC_OK);
  const int64_t index = 0;
  dc_array array;
  uint64_t bytes = 0;
  EXPECT_EQ(dc_cache_describe_batch(cache, &index, 1, 0, &array, nullptr, nullptr, nullptr), DC_OK);
  EXPECT_EQ(dc_cache_structure(cache, 0, nullptr, 0, &bytes), DC_OK);
  ASSERT_EQ(dc_cache_remove(cache, 0), DC_OK);
  EXPECT_EQ(report_of(cache).extents_named, 0u);
}

TEST_F(Describing, WrongArgumentsAreRefused) {
  const int64_t index = 0;
  dc_array array;
  uint64_t bytes = 0;
  const auto describe = [&](dc_cache *cache, const int64_t *indices, int64_t count, uint32_t number) {
    return dc_cache_describe_batch(cache, indices, count, number, &array, nullptr, nullptr, nullptr);
  };
  EXPECT_EQ(describe(nullptr, &index, 1, 0), DC_ERROR_ARGUMENT);
  EXPECT_EQ(describe(cache_, nullptr, 1, 0), DC_ERROR_ARGUMENT);
  EXPECT_EQ(describe(cache_, &index, -1, 0), DC_ERROR_RANGE);
  EXPECT_EQ(describe(cache_, &index, int64_t{1} << 31, 0), DC_ERROR_RANGE);
  EXPECT_EQ(describe(cache_, &index, 1, DC_ARRAYS_MAX), DC_ERROR_RANGE);
  EXPECT_EQ(dc_cache_structure(nullptr, 0, nullptr, 0, &bytes), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_structure(cache_, 0, nullptr, 1, &bytes), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_cache_structure(cache_, 0, nullptr, 0, nullptr), DC_ERROR_ARGUMENT);
}

}  // namespace
}  // namespace ddpcache::test
