// A sample that readers of its first array are content with, and that no file could be restored with.
#include <gtest/gtest.h>

#include "../support/segment_file.hpp"
#include "record.hpp"
#include "saving_fixture.hpp"

namespace ddpcache::test {
namespace {

int32_t put_two_arrays(dc_cache *cache, int64_t index) {
  dc_fill *fill = nullptr;
  if (const int32_t status = dc_cache_fill_begin(cache, index, 0, &fill)) return status;
  dc_array arrays[2] = {byte_array(100), byte_array(100)};
  if (const int32_t status = dc_cache_fill_allocate(fill, arrays, 2, nullptr, nullptr)) return status;
  for (dc_array &array : arrays) write_pattern(array.data, array.bytes, index);
  return dc_cache_fill_commit(fill);
}

TEST(SavingUnsound, SampleIsLeftOutAndTheOthersComeBack) {
  const Folder folder;
  const std::string path = folder.file("unsound.cache");
  const CacheName name, other;
  const Handle cache = open_cache(name, options_for(4, 1 << 20));
  for (int64_t index = 0; index < 3; ++index) ASSERT_EQ(put_two_arrays(cache, index), DC_OK);
  const int64_t too_long = 1000;
  const SegmentFile file(name);
  std::memcpy(file.record_of(1) + sizeof(RecordHead) + 2 * sizeof(ArrayHead) + sizeof(int64_t), &too_long,
              sizeof too_long);
  dc_view view;
  ASSERT_EQ(dc_cache_view(cache, 1, &view), DC_OK);
  dc_cache_view_release(&view);
  uint8_t buffer[1000];
  ASSERT_EQ(dc_cache_read(cache, 1, 1, buffer, sizeof buffer, nullptr), DC_ERROR_RECORD);

  EXPECT_EQ(save(cache, path), 2);
  const Restored restored = restore(path, other);
  ASSERT_EQ(restored.status, DC_OK) << restored.message;
  const Handle &back = restored.cache;
  EXPECT_EQ(dc_cache_contains(back, 0), DC_OK);
  EXPECT_EQ(dc_cache_contains(back, 1), DC_MISS);
  EXPECT_EQ(dc_cache_contains(back, 2), DC_OK);
}

}  // namespace
}  // namespace ddpcache::test
