// Checksums of records: every byte counts, and no head makes the sum run beyond its extent.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "hash.hpp"
#include "record.hpp"

namespace ddpcache {
namespace {

// Memory of which the last byte lies before a page that nobody may touch.
class Extent {
 public:
  explicit Extent(uint64_t bytes) : bytes_(bytes), mapped_((bytes + 4095) / 4096 * 4096 + 4096) {
    base_ = static_cast<uint8_t *>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(base_, MAP_FAILED);
    EXPECT_EQ(mprotect(base_ + mapped_ - 4096, 4096, PROT_NONE), 0);
  }
  Extent(const Extent &) = delete;
  Extent &operator=(const Extent &) = delete;
  ~Extent() { munmap(base_, mapped_); }
  uint8_t *data() const { return base_ + mapped_ - 4096 - bytes_; }
  RecordHead head() const {
    RecordHead head;
    std::memcpy(&head, data(), sizeof head);
    return head;
  }
  void set_head(const RecordHead &head) { std::memcpy(data(), &head, sizeof head); }

 private:
  const uint64_t bytes_, mapped_;
  uint8_t *base_;
};

// Two named arrays with a gap between them and a structure, in an extent with 100 bytes to spare.
class Sealed : public ::testing::Test {
 protected:
  Sealed() {
    std::memset(extent_.data(), 0xA5, kExtentBytes);
    dc_array arrays[2] = {};
    for (dc_array &array : arrays) {
      array.dtype_code = 1;
      array.dtype_bits = 8;
      array.dtype_lanes = 1;
      array.dimensions = 2;
      array.shape[0] = 3;
      array.shape[1] = 7;
      std::strcpy(array.name, "array");
    }
    RecordPlan plan;
    EXPECT_TRUE(plan_record(arrays, 2, "{\"version\": 1}", &plan).ok());
    write_record(plan, "{\"version\": 1}", extent_.data(), arrays);
    for (const dc_array &array : arrays) std::memset(array.data, 7, array.bytes);
    bytes_ = plan.record_bytes;
    EXPECT_LE(bytes_ + 100, kExtentBytes);
    EXPECT_GT(arrays[1].data, arrays[0].data + arrays[0].bytes) << "there is no gap to damage";
  }

  static constexpr uint64_t kExtentBytes = 420;
  static constexpr int64_t kIndex = 77;
  Extent extent_{kExtentBytes};
  uint64_t bytes_ = 0;
};

TEST_F(Sealed, IsIntactAtItsOwnIndexOnly) {
  ASSERT_TRUE(seal_record(extent_.data(), kExtentBytes, kIndex));
  for (const int64_t index : {int64_t{0}, kIndex - 1, kIndex, kIndex + 1, int64_t{DC_LENGTH_MAX}}) {
    EXPECT_EQ(record_is_intact(extent_.data(), kExtentBytes, index), index == kIndex) << index;
  }
}

TEST_F(Sealed, RecordIsIntactAndAnUnsealedOneIsNot) {
  EXPECT_FALSE(record_is_intact(extent_.data(), kExtentBytes, kIndex));
  ASSERT_TRUE(seal_record(extent_.data(), kExtentBytes, kIndex));
  EXPECT_TRUE(record_is_intact(extent_.data(), kExtentBytes, kIndex));
  EXPECT_NE(extent_.head().checksum, 0u);
}

TEST_F(Sealed, RecordHasTheSumThatTheFormatSays) {
  ASSERT_TRUE(seal_record(extent_.data(), kExtentBytes, kIndex));
  const uint64_t seed = hash64(extent_.data(), 16, kIndex);
  EXPECT_EQ(extent_.head().checksum, hash64(extent_.data() + 24, bytes_ - 24, seed)) << "docs/format.md";
}

TEST_F(Sealed, RecordMayBeSealedTwice) {
  ASSERT_TRUE(seal_record(extent_.data(), kExtentBytes, kIndex));
  const uint64_t sum = extent_.head().checksum;
  ASSERT_TRUE(seal_record(extent_.data(), kExtentBytes, kIndex));
  EXPECT_EQ(extent_.head().checksum, sum);
}

TEST_F(Sealed, EveryBitOfARecordCountsAndNoneBehindIt) {
  ASSERT_TRUE(seal_record(extent_.data(), kExtentBytes, kIndex));
  for (uint64_t at = 0; at < kExtentBytes; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      extent_.data()[at] ^= static_cast<uint8_t>(1 << bit);
      EXPECT_EQ(record_is_intact(extent_.data(), kExtentBytes, kIndex), at >= bytes_)
          << "bit " << bit << " of byte " << at;
      extent_.data()[at] ^= static_cast<uint8_t>(1 << bit);
    }
  }
  EXPECT_TRUE(record_is_intact(extent_.data(), kExtentBytes, kIndex));
}

TEST_F(Sealed, AHeadOfAnyLengthIsReadWithinTheExtentOnly) {
  ASSERT_TRUE(seal_record(extent_.data(), kExtentBytes, kIndex));
  RecordHead head = extent_.head();
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{23}, kExtentBytes + 1, kExtentBytes + 4096, UINT64_MAX}) {
    head.record_bytes = bytes;
    extent_.set_head(head);
    EXPECT_FALSE(record_is_intact(extent_.data(), kExtentBytes, kIndex)) << bytes;
    EXPECT_FALSE(seal_record(extent_.data(), kExtentBytes, kIndex)) << bytes;
    EXPECT_EQ(extent_.head().checksum, head.checksum) << "a record of " << bytes << " bytes was sealed";
  }
  // The whole extent, to its last byte, and the smallest record: a head alone.
  for (const uint64_t bytes : {kExtentBytes, uint64_t{24}}) {
    head.record_bytes = bytes;
    extent_.set_head(head);
    EXPECT_FALSE(record_is_intact(extent_.data(), kExtentBytes, kIndex));
    EXPECT_TRUE(seal_record(extent_.data(), kExtentBytes, kIndex));
    EXPECT_TRUE(record_is_intact(extent_.data(), kExtentBytes, kIndex));
  }
  for (uint64_t limit = 0; limit < sizeof(RecordHead); ++limit) {
    const Extent tiny(limit);
    EXPECT_FALSE(seal_record(tiny.data(), limit, kIndex));
    EXPECT_FALSE(record_is_intact(tiny.data(), limit, kIndex));
  }
}

}  // namespace
}  // namespace ddpcache
