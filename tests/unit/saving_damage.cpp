// Files that somebody has spoilt, by chance or on purpose.
#include <fcntl.h>
#include <gtest/gtest.h>

#include "ddpcache/keys.h"
#include "hash.hpp"
#include "record.hpp"
#include "saved.hpp"
#include "saving_fixture.hpp"

namespace ddpcache::test {
namespace {

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

}  // namespace
}  // namespace ddpcache::test
