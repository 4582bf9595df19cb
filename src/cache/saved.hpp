// A cache in a file of its own: what dc_cache_save writes and dc_cache_restore reads. docs/format.md has it in prose.
//
//     SavedHeader | SavedKey for each slot of the key table in use | SavedFrame and record for each sample
//
// It knows nothing of steps, classes and words, so it outlives the format of caches, and moves between machines. Every
// byte is under a checksum: the header under its own, a record under that in its head, and keys, frames and heads under
// a chain of checks of which each covers the one before and the header has the last. So one pass finds what is damaged,
// missing, repeated or moved, and says where. A reader trusts no number before it has checked it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "ddpcache/saving.h"
#include "files.hpp"
#include "fork.hpp"
#include "format.hpp"
#include "record.hpp"

namespace ddpcache {

inline constexpr uint32_t kSavedVersion = 1;
// Of one sample, between two looks at the progress.
inline constexpr uint64_t kSliceBytes = uint64_t{32} << 20;

// Samples by size, four buckets a doubling: enough to say before anything is read whether a cache will hold them all.
inline constexpr uint32_t kSizeBuckets = 120;
struct SizeBucket {
  uint64_t samples;
  uint64_t largest;  // record, in bytes
};
uint32_t size_bucket(uint64_t record_bytes);
// The smallest size in a bucket.
constexpr uint64_t size_bucket_begin(uint32_t bucket) { return uint64_t{4 + bucket % 4} << (1 + bucket / 4); }

struct SavedHeader {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  int64_t length;
  uint64_t capacity_bytes;
  uint64_t sample_bytes;
  uint64_t sample_bytes_max;
  uint32_t droppable;
  uint32_t keyed;
  uint64_t samples;
  uint64_t key_slots;     // of the key table that are in use
  uint64_t keys;          // of them, that have an index
  uint64_t record_bytes;  // of all records
  uint64_t file_bytes;
  uint64_t last_check;  // of the chain
  int64_t saved_unix_ns;
  uint32_t fingerprint_bytes;
  uint32_t zero;
  char library[24];  // the version that saved it
  char uuid[40];     // of the cache that was saved, and its name
  char name[208];
  char fingerprint[1032];
  std::array<SizeBucket, kSizeBuckets> sizes;
  char unused[744];   // zeros
  uint64_t checksum;  // XXH3-64 of all before it
};
static_assert(sizeof(SavedHeader) == 4096 && offsetof(SavedHeader, checksum) == 4096 - 8, "docs/format.md says so");

struct SavedFrame {
  int64_t index;
  uint64_t check;
};
struct SavedKey {
  int64_t index;
  uint64_t tag;
  uint64_t rest;
  uint64_t check;
};
static_assert(sizeof(SavedFrame) == 16 && sizeof(SavedKey) == 32, "docs/format.md says so");

// The checks of the chain, each from the one before.
uint64_t frame_check(uint64_t before, int64_t index, const RecordHead &head);
uint64_t key_check(uint64_t before, const SavedKey &key);

void seal_saved_header(SavedHeader *header);
// Whether a private copy of a header is sound, and of a file of this length.
Status check_saved_header(const SavedHeader &header, uint64_t file_bytes, const std::string &path);

// The header of a saved file, checked.
Status read_saved_header(const std::string &path, Descriptor *file, SavedHeader *header);

// What dc_saved_info_get says.
Status describe_saved(const std::string &path, dc_saved_info *info);

// Whether the caller of a long work wants it to go on. DC_ERROR_STATE in a child that he forks meanwhile: the work, and
// the file that both would write, are the parent's.
class Progress {
 public:
  Progress(dc_progress call, void *user) : call_(call), user_(user), process_(fork_generation()) {}

  // Asks, unless that was a moment and not many bytes ago. DC_INTERRUPTED: the caller wants no more.
  Status at(uint64_t done_bytes, uint64_t total_bytes);
  // Asks in any case.
  Status now(uint64_t done_bytes, uint64_t total_bytes);

 private:
  dc_progress call_;
  void *user_;
  const uint32_t process_;
  uint64_t asked_bytes_ = 0;
  int64_t asked_ns_ = 0;
};

// Large sequential writes to a file from its beginning, with the disk kept at work and never far behind.
class SavedWriter {
 public:
  explicit SavedWriter(int fd, std::string path);

  uint64_t position() const { return position_; }
  Status append(const void *bytes, uint64_t count);
  Status flush();
  Status write_at(uint64_t offset, const void *bytes, uint64_t count);

 private:
  Status write(const uint8_t *bytes, uint64_t count);

  const int fd_;
  const std::string path_;
  std::unique_ptr<uint8_t[]> buffer_;
  uint64_t buffered_ = 0;
  uint64_t position_ = 0;  // of the next byte that is appended
  uint64_t started_ = 0;   // up to here the disk was told to write
};

// And large sequential reads.
class SavedReader {
 public:
  SavedReader(int fd, std::string path, uint64_t file_bytes);

  // Of the next byte that is read.
  uint64_t position() const { return position_; }
  uint64_t left() const { return file_bytes_ - position_; }
  // DC_ERROR_DAMAGED where the file has no more so many bytes.
  Status read(void *bytes, uint64_t count);

 private:
  Status fetch(uint8_t *bytes, uint64_t count, uint64_t offset) const;

  const int fd_;
  const std::string path_;
  const uint64_t file_bytes_;
  std::unique_ptr<uint8_t[]> buffer_;
  uint64_t buffer_begin_ = 0;  // the file's bytes from here on
  uint64_t buffered_ = 0;
  uint64_t position_ = 0;
};

}  // namespace ddpcache
