// The layout of a cache's file, and what is refused as a header.
#include "format.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>

#include "hash.hpp"

namespace ddpcache {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kGiB = 1 << 30;

void expect_sound(const Geometry &geometry, const Layout &layout) {
  SCOPED_TRACE(::testing::Message() << "capacity " << geometry.capacity_bytes << " sample " << geometry.sample_bytes
                                    << " max " << geometry.sample_bytes_max << " length " << geometry.length);
  EXPECT_GE(layout.control_offset, sizeof(Header));
  EXPECT_GE(layout.clients_offset, layout.control_offset + sizeof(ControlLine) + kClassesMax * sizeof(ClassLine));
  EXPECT_GE(layout.entries_offset, layout.clients_offset + geometry.clients_max * sizeof(ClientRecord));
  const uint64_t length = static_cast<uint64_t>(geometry.length);
  EXPECT_GE(layout.keys_offset, layout.entries_offset + length * sizeof(Word));
  EXPECT_EQ(layout.keys_offset % alignof(KeySlot), 0u);
  EXPECT_GE(layout.steps_offset, layout.keys_offset + geometry.keyed * length * sizeof(KeySlot));
  EXPECT_GE(layout.arena_offset, layout.steps_offset + layout.steps * sizeof(Word));
  EXPECT_EQ(layout.clients_offset % alignof(ClientRecord), 0u);
  EXPECT_EQ(layout.arena_offset % geometry.page_bytes, 0u);
  EXPECT_EQ(layout.step_bytes % geometry.page_bytes, 0u);
  EXPECT_GE(layout.steps, 1u);
  EXPECT_LE(layout.steps, kStepsMax);
  EXPECT_LE(layout.arena_bytes(), geometry.capacity_bytes);
  EXPECT_EQ(layout.file_bytes, layout.arena_offset + layout.arena_bytes());
  ASSERT_FALSE(layout.classes.empty());
  EXPECT_LE(layout.classes.size(), kClassesMax);
  uint64_t previous = 0;
  for (const SizeClass &size_class : layout.classes) {
    EXPECT_GT(size_class.extent_bytes, previous);
    previous = size_class.extent_bytes;
    EXPECT_GE(size_class.slots, 1u);
    EXPECT_LE(size_class.slots, kSlotsMax);
    EXPECT_GE(size_class.first_offset, size_class.slots * sizeof(Word));
    EXPECT_EQ(size_class.first_offset % kLineBytes, 0u);
    EXPECT_EQ(size_class.extent_bytes % kLineBytes, 0u);
    EXPECT_LE(size_class.first_offset + size_class.slots * size_class.extent_bytes, layout.step_bytes);
  }
  EXPECT_GE(layout.largest_record(), geometry.sample_bytes_max + (geometry.sample_bytes ? 0 : kLargestHeadBytes));
}

TEST(Layout, IsSoundForEveryMixOfSizes) {
  for (const uint64_t capacity : {4096ul, 10'000ul, kMiB, 100 * kMiB + 12345, 16 * kGiB, 1ul << 50, 1ul << 56}) {
    for (const uint64_t largest : {1ul, 63ul, 64ul, 4096ul, 150'000ul, 4 * kMiB, kGiB, 1ul << 32}) {
      for (const uint64_t variant : {0u, 1u, 2u, 3u}) {
        const bool fixed = variant % 2 == 1;
        Geometry geometry = {1001, capacity, fixed ? largest : 0, largest, 1024, 0, fixed};
        geometry.page_bytes = variant < 2 ? kPageBytes : 2 * kMiB;
        Layout layout;
        const Status status = plan_layout(geometry, &layout);
        if (status.ok()) {
          expect_sound(geometry, layout);
        } else {
          EXPECT_EQ(status.code(), DC_ERROR_RANGE);
          EXPECT_GT(layout.step_bytes, capacity) << "refused although a step fits";
        }
      }
    }
  }
}

TEST(Layout, OfOneSizeLeavesNextToNothingUnused) {
  for (const uint64_t sample : {64ul, 3072ul, 49152ul, 150'528ul, 4 * kMiB}) {
    Layout layout;
    ASSERT_TRUE(plan_layout({1, 8 * kGiB, sample, sample, 16}, &layout).ok());
    const SizeClass &only = layout.classes.front();
    EXPECT_EQ(layout.classes.size(), 1u);
    const uint64_t waste = layout.step_bytes - only.slots * (only.extent_bytes + sizeof(Word));
    EXPECT_LE(waste, kPageBytes + kLineBytes) << "sample " << sample;
    EXPECT_GE(only.extent_bytes, sample + kFixedHeadBytes);
    EXPECT_LE(only.extent_bytes, sample + kFixedHeadBytes + kLineBytes);
  }
}

TEST(Layout, OfAnySizeWastesAtMostAQuarterOfAnExtent) {
  Layout layout;
  ASSERT_TRUE(plan_layout({1, 16 * kGiB, 0, 64 * kMiB, 16}, &layout).ok());
  for (size_t c = 1; c < layout.classes.size(); ++c) {
    const SizeClass &smaller = layout.classes[c - 1], &larger = layout.classes[c];
    if (larger.slots < 4) continue;  // 1, 2 and 3 extents a step are as near as whole numbers come
    EXPECT_LE(larger.extent_bytes, smaller.extent_bytes + smaller.extent_bytes / 4 + 2 * kLineBytes);
  }
}

TEST(Layout, FindsTheSmallestClassThatHoldsARecord) {
  Layout layout;
  ASSERT_TRUE(plan_layout({1, kGiB, 0, 4 * kMiB, 16}, &layout).ok());
  for (uint32_t c = 0; c < layout.classes.size(); ++c) {
    EXPECT_EQ(layout.class_for(layout.classes[c].extent_bytes), c);
    EXPECT_EQ(layout.class_for(layout.classes[c].extent_bytes + 1), c + 1);
  }
  EXPECT_EQ(layout.class_for(1), 0u);
}

TEST(Layout, RefusesWhatIsOutOfRange) {
  const Geometry good = {100, 64 * kMiB, 0, kMiB, 64};
  Layout layout;
  ASSERT_TRUE(plan_layout(good, &layout).ok());
  const auto refused = [&](auto change) {
    Geometry geometry = good;
    change(geometry);
    return plan_layout(geometry, &layout).code() == DC_ERROR_RANGE;
  };
  EXPECT_TRUE(refused([](Geometry &g) { g.length = 0; }));
  EXPECT_TRUE(refused([](Geometry &g) { g.length = -1; }));
  EXPECT_TRUE(refused([](Geometry &g) { g.length = INT64_MIN; }));
  EXPECT_TRUE(refused([](Geometry &g) { g.length = DC_LENGTH_MAX + 1; }));
  EXPECT_TRUE(refused([](Geometry &g) { g.clients_max = 0; }));
  EXPECT_TRUE(refused([](Geometry &g) { g.clients_max = DC_CLIENTS_MAX + 1; }));
  EXPECT_TRUE(refused([](Geometry &g) { g.sample_bytes = DC_SAMPLE_BYTES_MAX + 1ul; }));
  EXPECT_TRUE(refused([](Geometry &g) { g.sample_bytes_max = DC_SAMPLE_BYTES_MAX + 1ul; }));
  EXPECT_TRUE(refused([](Geometry &g) { g.sample_bytes_max = 0; }));
  EXPECT_TRUE(refused([](Geometry &g) { g.capacity_bytes = 0; }));
  EXPECT_TRUE(refused([](Geometry &g) { g.capacity_bytes = UINT64_MAX; }));
  EXPECT_TRUE(refused([](Geometry &g) { g.sample_bytes_max = 65 * kMiB; }));
  for (const uint64_t page_bytes : {0ul, 1ul, 2048ul, 4097ul, 3 * kMiB, 1ul << 35}) {
    EXPECT_TRUE(refused([&](Geometry &g) { g.page_bytes = page_bytes; })) << page_bytes;
  }
  EXPECT_FALSE(refused([](Geometry &g) { g.page_bytes = 2 * kMiB; }));
  EXPECT_FALSE(refused([](Geometry &g) { g.length = DC_LENGTH_MAX; }));
  EXPECT_FALSE(refused([](Geometry &g) { g.clients_max = DC_CLIENTS_MAX; }));
}

class HeaderCheck : public ::testing::Test {
 protected:
  HeaderCheck() {
    std::memset(static_cast<void *>(&header_), 0, sizeof header_);
    header_.geometry = {1000, 64 * kMiB, 0, kMiB, 64};
    std::strcpy(header_.uuid, "00000000-0000-4000-8000-000000000000");
    std::strcpy(header_.name, "name");
    std::strcpy(header_.fingerprint, "print");
    header_.fingerprint_bytes = 5;
    seal_header(&header_);
    EXPECT_TRUE(plan_layout(header_.geometry, &layout_).ok());
    file_bytes_ = layout_.file_bytes;
  }

  // A header that somebody wrote wrongly but with a right checksum.
  Status resealed() {
    header_.checksum = hash64(&header_, offsetof(Header, checksum));
    return check();
  }
  Status check() {
    // On the heap, so that a read past the end is seen by the address sanitizer.
    const auto copy = std::make_unique<Header>(header_);
    Layout layout;
    return check_header(*copy, file_bytes_, "/dev/shm/ddpcache.0.name", &layout);
  }

  Header header_;
  Layout layout_;
  uint64_t file_bytes_ = 0;
};

TEST_F(HeaderCheck, AcceptsASealedHeader) { EXPECT_TRUE(check().ok()) << check().message(); }

TEST_F(HeaderCheck, NamesAnotherMagic) {
  header_.magic[3] ^= 1;
  EXPECT_EQ(resealed().code(), DC_ERROR_DAMAGED);
}

TEST_F(HeaderCheck, ShowsBothFormatVersions) {
  header_.format_version = 77;
  const Status status = resealed();
  EXPECT_EQ(status.code(), DC_ERROR_FORMAT);
  EXPECT_NE(status.message().find("77"), std::string::npos);
  EXPECT_NE(status.message().find(std::to_string(DC_FORMAT_VERSION)), std::string::npos);
}

TEST_F(HeaderCheck, ShowsBothLayouts) {
  header_.layout_hash ^= 1;
  EXPECT_EQ(resealed().code(), DC_ERROR_FORMAT);
  header_.layout_hash ^= 1;
  header_.header_bytes += 8;
  EXPECT_EQ(resealed().code(), DC_ERROR_FORMAT);
}

TEST_F(HeaderCheck, RefusesImpossibleGeometry) {
  header_.geometry.length = -5;
  EXPECT_EQ(resealed().code(), DC_ERROR_DAMAGED);
  header_.geometry.length = 1000;
  header_.geometry.clients_max = 100'000;
  EXPECT_EQ(resealed().code(), DC_ERROR_DAMAGED);
}

TEST_F(HeaderCheck, RefusesAnotherFileSize) {
  file_bytes_ += 1;
  EXPECT_EQ(check().code(), DC_ERROR_DAMAGED);
  file_bytes_ -= 4097;
  EXPECT_EQ(check().code(), DC_ERROR_DAMAGED);
}

TEST_F(HeaderCheck, RefusesTextWithoutAnEnd) {
  std::memset(header_.name, 'x', sizeof header_.name);
  EXPECT_EQ(resealed().code(), DC_ERROR_DAMAGED);
  std::strcpy(header_.name, "name");
  std::memset(header_.uuid, 'x', sizeof header_.uuid);
  EXPECT_EQ(resealed().code(), DC_ERROR_DAMAGED);
  header_.uuid[36] = '\0';
  std::memset(header_.fingerprint, 'x', sizeof header_.fingerprint);
  EXPECT_EQ(resealed().code(), DC_ERROR_DAMAGED);
  header_.fingerprint_bytes = UINT32_MAX;
  EXPECT_EQ(resealed().code(), DC_ERROR_DAMAGED);
}

TEST_F(HeaderCheck, SeesEverySingleFlippedBit) {
  uint8_t *bytes = reinterpret_cast<uint8_t *>(&header_);
  for (size_t bit = 0; bit < 8 * sizeof header_; ++bit) {
    bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] ^ 1u << (bit % 8));
    EXPECT_LT(check().code(), 0) << "bit " << bit;
    bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] ^ 1u << (bit % 8));
  }
  EXPECT_TRUE(check().ok());
}

// Behind the checksum stands the geometry's own check: no value of it may crash the planning.
TEST_F(HeaderCheck, SurvivesEveryFlippedBitUnderARightChecksum) {
  uint8_t *bytes = reinterpret_cast<uint8_t *>(&header_);
  for (size_t bit = 0; bit < 8 * offsetof(Header, checksum); ++bit) {
    bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] ^ 1u << (bit % 8));
    const Status status = resealed();
    EXPECT_TRUE(status.ok() || status.code() == DC_ERROR_DAMAGED || status.code() == DC_ERROR_FORMAT) << "bit " << bit;
    bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] ^ 1u << (bit % 8));
  }
}

}  // namespace
}  // namespace ddpcache
