// Records: what is written comes back, and garbage is refused without a look beyond its end.
#include "record.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace ddpcache {
namespace {

struct DType {
  uint8_t code, bits;
  uint16_t lanes;
};
constexpr DType kTypes[] = {{0, 8, 1},  {1, 8, 1},   {2, 32, 1}, {2, 64, 1},
                            {4, 16, 1}, {5, 128, 1}, {6, 8, 1},  {1, 4, 2}};

dc_array array_of(DType type, std::vector<int64_t> shape, const std::string &name = "") {
  dc_array array = {};
  array.dtype_code = type.code;
  array.dtype_bits = type.bits;
  array.dtype_lanes = type.lanes;
  array.dimensions = static_cast<uint32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), array.shape);
  std::strncpy(array.name, name.c_str(), sizeof array.name - 1);
  return array;
}

// Memory that ends at a page nobody may read: `bytes` of it, the last one just before the guard.
class Guarded {
 public:
  explicit Guarded(size_t bytes) : bytes_(bytes), mapped_((bytes + 4095) / 4096 * 4096 + 4096) {
    base_ = static_cast<uint8_t *>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(base_, MAP_FAILED);
    EXPECT_EQ(mprotect(base_ + mapped_ - 4096, 4096, PROT_NONE), 0);
  }
  ~Guarded() { munmap(base_, mapped_); }
  uint8_t *data() const { return base_ + mapped_ - 4096 - bytes_; }
  size_t size() const { return bytes_; }

 private:
  size_t bytes_, mapped_;
  uint8_t *base_;
};

// Writes, reads back and compares, in memory of exactly the planned size.
void round_trip(std::vector<dc_array> arrays, const char *structure) {
  const std::vector<dc_array> wanted = arrays;
  const uint32_t count = static_cast<uint32_t>(arrays.size());
  RecordPlan plan;
  const Status planned = plan_record(arrays.data(), count, structure, &plan);
  ASSERT_TRUE(planned.ok()) << planned.message();
  const Guarded memory((plan.record_bytes + 63) / 64 * 64);
  write_record(plan, structure, memory.data(), arrays.data());
  for (uint32_t i = 0; i < count; ++i) {
    ASSERT_EQ((arrays[i].data - memory.data()) % 64, 0);
    ASSERT_GE(arrays[i].data, memory.data() + 64);
    ASSERT_LE(arrays[i].data + arrays[i].bytes, memory.data() + plan.record_bytes);
    if (i > 0) {
      ASSERT_GE(arrays[i].data, arrays[i - 1].data + arrays[i - 1].bytes) << "arrays overlap";
    }
    std::memset(arrays[i].data, static_cast<int>(i + 1), arrays[i].bytes);
  }
  RecordGlance glance;
  ASSERT_TRUE(glance_at_record(memory.data(), memory.size(), &glance));
  EXPECT_EQ(glance.array_count, count);
  EXPECT_EQ(glance.record_bytes, plan.record_bytes);
  EXPECT_EQ(glance.data, arrays[0].data);
  EXPECT_EQ(glance.bytes, arrays[0].bytes);
  for (uint32_t i = 0; i < count; ++i) {
    dc_array seen;
    ASSERT_TRUE(read_array(memory.data(), plan.record_bytes, i, &seen));
    EXPECT_EQ(seen.data, arrays[i].data);
    EXPECT_EQ(seen.bytes, arrays[i].bytes);
    EXPECT_EQ(seen.dimensions, wanted[i].dimensions);
    EXPECT_EQ(std::memcmp(seen.shape, wanted[i].shape, sizeof seen.shape), 0);
    EXPECT_EQ(seen.dtype_code, wanted[i].dtype_code);
    EXPECT_EQ(seen.dtype_bits, wanted[i].dtype_bits);
    EXPECT_EQ(seen.dtype_lanes, wanted[i].dtype_lanes);
    EXPECT_STREQ(seen.name, wanted[i].name);
    EXPECT_TRUE(seen.bytes == 0 || seen.data[seen.bytes - 1] == i + 1);
    std::array<ArrayBytes, DC_ARRAYS_MAX> found;
    ASSERT_TRUE(find_arrays(memory.data(), plan.record_bytes, i, found.data()));
    for (uint32_t k = 0; k <= i; ++k) {
      EXPECT_EQ(found[k].data, arrays[k].data);
      EXPECT_EQ(found[k].bytes, arrays[k].bytes);
    }
  }
  dc_array none;
  EXPECT_FALSE(read_array(memory.data(), plan.record_bytes, count, &none));
  std::array<ArrayBytes, DC_ARRAYS_MAX> found;
  EXPECT_FALSE(find_arrays(memory.data(), plan.record_bytes, count, found.data()));
  uint64_t length = 0;
  const char *text = read_structure(memory.data(), plan.record_bytes, &length);
  if (structure && *structure) {
    ASSERT_NE(text, nullptr);
    EXPECT_STREQ(text, structure);
    EXPECT_EQ(length, std::strlen(structure));
  } else {
    EXPECT_EQ(text, nullptr);
  }
}

TEST(Record, BringsBackArraysOfEveryRankAndType) {
  for (const DType type : kTypes) {
    for (size_t rank = 0; rank <= DC_DIMENSIONS_MAX; ++rank) {
      std::vector<int64_t> shape(rank);
      for (size_t d = 0; d < rank; ++d) shape[d] = static_cast<int64_t>(d % 3 + 1);
      round_trip({array_of(type, shape)}, nullptr);
      round_trip({array_of(type, shape, "image"), array_of(type, {})}, "{\"v\":1}");
    }
  }
}

TEST(Record, BringsBackOneToSixtyFourArrays) {
  std::mt19937_64 random(1);
  for (uint32_t count = 1; count <= DC_ARRAYS_MAX; ++count) {
    std::vector<dc_array> arrays;
    for (uint32_t i = 0; i < count; ++i) {
      std::vector<int64_t> shape(random() % 9);
      for (int64_t &dimension : shape) dimension = static_cast<int64_t>(random() % 4);
      arrays.push_back(array_of(kTypes[random() % std::size(kTypes)], shape, std::string(random() % 56, 'n')));
    }
    round_trip(arrays, std::string(random() % (DC_STRUCTURE_BYTES_MAX + 1), 's').c_str());
  }
}

TEST(Record, BringsBackEmptyArraysAtAnAddressOfTheirOwn) {
  round_trip({array_of(kTypes[1], {0})}, nullptr);
  round_trip({array_of(kTypes[1], {0}), array_of(kTypes[1], {3, 0, 5}), array_of(kTypes[1], {7})}, nullptr);
  round_trip({array_of(kTypes[1], {INT64_MAX, 0})}, nullptr);
}

TEST(Record, BringsBackStructuresUpToTheirLimit) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{7}, size_t{DC_STRUCTURE_BYTES_MAX}}) {
    round_trip({array_of(kTypes[1], {5})}, std::string(bytes, 'x').c_str());
  }
}

TEST(Record, OfOnePlainArrayHasItsDataInTheSecondLine) {
  dc_array array = array_of(kTypes[1], {1, 2, 3, 4});
  RecordPlan plan;
  ASSERT_TRUE(plan_record(&array, 1, nullptr, &plan).ok());
  EXPECT_EQ(plan.offsets[0], 64u);
  EXPECT_EQ(plan.record_bytes, 64u + 24);
}

TEST(Record, RefusesWhatCannotBeStored) {
  RecordPlan plan;
  dc_array good = array_of(kTypes[1], {5});
  const auto code = [&](const dc_array &array, const char *structure = nullptr) {
    return plan_record(&array, 1, structure, &plan).code();
  };
  EXPECT_EQ(code(good), DC_OK);
  EXPECT_EQ(plan_record(nullptr, 1, nullptr, &plan).code(), DC_ERROR_ARGUMENT);
  EXPECT_EQ(plan_record(&good, 0, nullptr, &plan).code(), DC_ERROR_RANGE);
  EXPECT_EQ(plan_record(&good, DC_ARRAYS_MAX + 1, nullptr, &plan).code(), DC_ERROR_RANGE);
  EXPECT_EQ(code(good, std::string(DC_STRUCTURE_BYTES_MAX + 1, 'x').c_str()), DC_ERROR_RANGE);
  dc_array bad = good;
  bad.dimensions = DC_DIMENSIONS_MAX + 1;
  EXPECT_EQ(code(bad), DC_ERROR_RANGE);
  bad = good;
  bad.shape[0] = -1;
  EXPECT_EQ(code(bad), DC_ERROR_RANGE);
  bad = good;
  bad.dtype_bits = 0;
  EXPECT_EQ(code(bad), DC_ERROR_RANGE);
  bad = good;
  bad.dtype_bits = 12;
  EXPECT_EQ(code(bad), DC_ERROR_RANGE);
  bad = good;
  bad.dtype_lanes = 0;
  EXPECT_EQ(code(bad), DC_ERROR_RANGE);
  bad = good;
  std::memset(bad.name, 'x', sizeof bad.name);
  EXPECT_EQ(code(bad), DC_ERROR_ARGUMENT);
}

TEST(Record, RefusesShapesWhoseProductOverflows) {
  RecordPlan plan;
  for (const std::vector<int64_t> &shape :
       {std::vector<int64_t>{INT64_MAX, 2}, {INT64_MAX, INT64_MAX}, {1ll << 32, 1ll << 32}, {1ll << 62, 4}}) {
    const dc_array array = array_of(kTypes[3], shape);
    EXPECT_EQ(plan_record(&array, 1, nullptr, &plan).code(), DC_ERROR_RANGE);
  }
  const dc_array large = array_of(kTypes[1], {(int64_t{1} << 32) + 1});
  EXPECT_EQ(plan_record(&large, 1, nullptr, &plan).code(), DC_ERROR_TOO_LARGE);
  const dc_array halves[] = {array_of(kTypes[1], {int64_t{1} << 31}), array_of(kTypes[1], {(int64_t{1} << 31) + 1})};
  EXPECT_EQ(plan_record(halves, 2, nullptr, &plan).code(), DC_ERROR_TOO_LARGE);
  const dc_array exact = array_of(kTypes[1], {int64_t{1} << 32});
  EXPECT_EQ(plan_record(&exact, 1, nullptr, &plan).code(), DC_OK);
}

// Every parser over every byte, as a reader of damaged memory would call them; what it accepts must lie within.
void parse_everything(const Guarded &memory) {
  RecordGlance glance;
  if (glance_at_record(memory.data(), memory.size(), &glance)) {
    ASSERT_GE(glance.data, memory.data());
    ASSERT_LE(glance.data + glance.bytes, memory.data() + memory.size());
  }
  for (const uint32_t number : {0u, 1u, 63u}) {
    dc_array array;
    if (!read_array(memory.data(), memory.size(), number, &array)) continue;
    ASSERT_GE(array.data, memory.data());
    ASSERT_LE(array.data + array.bytes, memory.data() + memory.size());
    ASSERT_LE(array.dimensions, 8u);
    ASSERT_NE(std::memchr(array.name, 0, sizeof array.name), nullptr);
  }
  uint64_t length = 0;
  if (const char *text = read_structure(memory.data(), memory.size(), &length)) {
    ASSERT_LT(reinterpret_cast<const uint8_t *>(text) + length, memory.data() + memory.size());
    ASSERT_EQ(std::strlen(text + length), 0u);
  }
}

TEST(Record, OfRandomGarbageIsReadWithinItsBoundsOnly) {
  const char *wish = std::getenv("DDPCACHE_TEST_SEED");
  const uint64_t seed = wish ? std::strtoull(wish, nullptr, 0) : 20240611;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 20'000; ++round) {
    const Guarded memory(random() % 200);
    for (size_t i = 0; i < memory.size(); ++i)
      memory.data()[i] = static_cast<uint8_t>(random() % (round % 2 ? 4 : 256));
    if (memory.size() >= 24 && round % 4 != 0) {
      const RecordHead head = {kRecordMagic, static_cast<uint16_t>(1 + random() % 3),
                               static_cast<uint16_t>(random() % 90), random() % 220, 0};
      std::memcpy(memory.data(), &head, sizeof head);
    }
    parse_everything(memory);
    if (HasFatalFailure()) return;
  }
}

TEST(Record, WithAnyByteChangedIsReadWithinItsBoundsOnly) {
  std::vector<dc_array> arrays = {array_of(kTypes[2], {3, 2}, "a"), array_of(kTypes[1], {9})};
  RecordPlan plan;
  ASSERT_TRUE(plan_record(arrays.data(), 2, "[1,2]", &plan).ok());
  const Guarded memory(plan.record_bytes);
  write_record(plan, "[1,2]", memory.data(), arrays.data());
  for (size_t at = 0; at < plan.offsets[0]; ++at) {
    const uint8_t right = memory.data()[at];
    for (int value = 0; value < 256; ++value) {
      memory.data()[at] = static_cast<uint8_t>(value);
      parse_everything(memory);
      if (HasFatalFailure()) return;
    }
    memory.data()[at] = right;
  }
}

// The structure may end with the record, as it does where a damaged head says so, but not run beyond it.
TEST(Record, WhoseStructureEndsAtItsLastByteIsNotReadBeyondIt) {
  const Guarded memory(64);
  std::memset(memory.data(), 0, 64);
  const ArrayHead array = {1, 8, 1, 0, 0, 0};
  for (uint16_t structure = 1; structure <= 40; ++structure) {
    const RecordHead head = {kRecordMagic, 1, structure, 64, 0};
    std::memcpy(memory.data(), &head, sizeof head);
    std::memcpy(memory.data() + sizeof head, &array, sizeof array);
    parse_everything(memory);
  }
}

}  // namespace
}  // namespace ddpcache
