#include "saved.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "clock.hpp"
#include "hash.hpp"
#include "integers.hpp"
#include "space.hpp"

namespace ddpcache {
namespace {

constexpr char kMagic[8] = {'d', 'd', 'p', 's', 'a', 'v', 'e', 'd'};
// Large writes, as disks and networks like them. Reads are made large by the kernel, which reads ahead; what is copied
// twice had better be small enough for a core's own cache.
constexpr uint64_t kWriteBufferBytes = uint64_t{4} << 20;
constexpr uint64_t kReadBufferBytes = uint64_t{64} << 10;
// From this size on, bytes go past the buffer.
constexpr uint64_t kDirectWriteBytes = uint64_t{1} << 20;
constexpr uint64_t kDirectReadBytes = kReadBufferBytes / 2;
// In which the disk is kept at work.
constexpr uint64_t kWindowBytes = uint64_t{64} << 20;
constexpr int64_t kAskNs = 100'000'000;

}  // namespace

uint32_t size_bucket(uint64_t record_bytes) {
  if (record_bytes < 8) return 0;
  const uint32_t doubling = static_cast<uint32_t>(std::bit_width(record_bytes)) - 1;
  const uint32_t quarter = static_cast<uint32_t>(record_bytes >> (doubling - 2)) & 3;
  return std::min((doubling - 3) * 4 + quarter, kSizeBuckets - 1);
}
static_assert((32 - 3) * 4 + 3 < kSizeBuckets, "2^32 bytes of data with their head have a bucket of their own");

uint64_t frame_check(uint64_t before, int64_t index, const RecordHead &head) {
  struct {
    uint64_t before;
    int64_t index;
    RecordHead head;
  } const covered = {before, index, head};
  return hash64(&covered, sizeof covered, kSavedVersion);
}

uint64_t key_check(uint64_t before, const SavedKey &key) {
  const uint64_t covered[] = {before, static_cast<uint64_t>(key.index), key.tag, key.rest};
  return hash64(covered, sizeof covered, kSavedVersion);
}

void seal_saved_header(SavedHeader *header) {
  std::memcpy(header->magic, kMagic, sizeof kMagic);
  header->version = kSavedVersion;
  header->header_bytes = sizeof(SavedHeader);
  header->checksum = hash64(header, offsetof(SavedHeader, checksum));
}

Status check_saved_header(const SavedHeader &header, uint64_t file_bytes, const std::string &path) {
  const char *file = path.c_str();
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) {
    return failure(DC_ERROR_DAMAGED, "%s is no saved cache: it does not begin as one does", file);
  }
  if (header.version != kSavedVersion) {
    return failure(DC_ERROR_FORMAT, "%s is a saved cache of version %u, this library reads version %u", file,
                   header.version, kSavedVersion);
  }
  if (header.header_bytes != sizeof(SavedHeader) ||
      header.checksum != hash64(&header, offsetof(SavedHeader, checksum))) {
    return failure(DC_ERROR_DAMAGED, "the header of %s, its first %zu bytes, does not have its checksum", file,
                   sizeof header);
  }
  const auto ends = [](const char *text, size_t size) { return std::memchr(text, 0, size) != nullptr; };
  if (!ends(header.library, sizeof header.library) || !ends(header.uuid, sizeof header.uuid) ||
      !ends(header.name, sizeof header.name) || header.fingerprint_bytes > DC_FINGERPRINT_BYTES_MAX ||
      strnlen(header.fingerprint, sizeof header.fingerprint) != header.fingerprint_bytes) {
    return failure(DC_ERROR_DAMAGED, "the header of %s has text without an end", file);
  }
  const uint64_t length = static_cast<uint64_t>(header.length);
  if (length < 1 || length > DC_LENGTH_MAX || header.samples > length || header.key_slots > length) {
    return failure(DC_ERROR_DAMAGED, "the header of %s speaks of %llu samples and %llu keys of a cache of length %lld",
                   file, static_cast<unsigned long long>(header.samples),
                   static_cast<unsigned long long>(header.key_slots), static_cast<long long>(header.length));
  }
  if (header.file_bytes != file_bytes) {
    return failure(DC_ERROR_DAMAGED, "%s has %llu bytes, of %llu that were saved", file,
                   static_cast<unsigned long long>(file_bytes), static_cast<unsigned long long>(header.file_bytes));
  }
  return {};
}

Status read_saved_header(const std::string &path, Descriptor *file, SavedHeader *header) {
  // O_NONBLOCK keeps the open of a FIFO from waiting for a writer.
  *file = Descriptor(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file->valid() && errno == ENOENT) return failure(DC_ERROR_NOT_FOUND, "there is no file %s", path.c_str());
  struct stat properties;
  if (!file->valid() || fstat(file->get(), &properties) != 0) return system_failure("open", path, errno);
  if (!S_ISREG(properties.st_mode)) {
    return failure(DC_ERROR_ARGUMENT, "%s is not a regular file (mode 0%o)", path.c_str(), properties.st_mode);
  }
  const uint64_t file_bytes = static_cast<uint64_t>(properties.st_size);
  if (file_bytes < sizeof *header) {
    return failure(DC_ERROR_DAMAGED, "%s has %llu bytes, too few for a saved cache", path.c_str(),
                   static_cast<unsigned long long>(file_bytes));
  }
  SavedReader reader(file->get(), path, file_bytes);
  if (Status status = reader.read(header, sizeof *header); !status.ok()) return status;
  return check_saved_header(*header, file_bytes, path);
}

Status describe_saved(const std::string &path, dc_saved_info *info) {
  Descriptor file;
  SavedHeader header;
  if (Status status = read_saved_header(path, &file, &header); !status.ok()) return status;
  info->version = header.version;
  info->length = header.length;
  info->samples = static_cast<int64_t>(header.samples);
  info->sample_bytes = header.sample_bytes;
  info->sample_bytes_max = header.sample_bytes_max;
  info->capacity_bytes = header.capacity_bytes;
  info->record_bytes = header.record_bytes;
  for (const SizeBucket &bucket : header.sizes) info->largest_bytes = std::max(info->largest_bytes, bucket.largest);
  info->file_bytes = header.file_bytes;
  info->saved_unix_ns = header.saved_unix_ns;
  info->droppable = header.droppable;
  info->keyed = header.keyed;
  info->keys = header.keys;
  std::memcpy(info->library, header.library, sizeof info->library);
  std::memcpy(info->uuid, header.uuid, sizeof info->uuid);
  std::memcpy(info->name, header.name, sizeof info->name);
  std::memcpy(info->fingerprint, header.fingerprint, sizeof info->fingerprint);
  return {};
}

Status Progress::at(uint64_t done_bytes, uint64_t total_bytes) {
  if (!call_ || (done_bytes - asked_bytes_ < kWindowBytes && now_ns() - asked_ns_ < kAskNs)) return {};
  return now(done_bytes, total_bytes);
}

Status Progress::now(uint64_t done_bytes, uint64_t total_bytes) {
  if (!call_) return {};
  const int32_t answer = call_(done_bytes, total_bytes, user_);
  if (fork_generation() != process_) {
    return failure(DC_ERROR_STATE,
                   "progress forked at %llu of %llu bytes, and returned in the child: the call is its parent's",
                   static_cast<unsigned long long>(done_bytes), static_cast<unsigned long long>(total_bytes));
  }
  asked_bytes_ = done_bytes;
  asked_ns_ = now_ns();
  return answer == 0 ? DC_OK : DC_INTERRUPTED;
}

SavedWriter::SavedWriter(int fd, std::string path)
    : fd_(fd), path_(std::move(path)), buffer_(new uint8_t[kWriteBufferBytes]) {}

Status SavedWriter::append(const void *bytes, uint64_t count) {
  const uint8_t *from = static_cast<const uint8_t *>(bytes);
  if (count >= kDirectWriteBytes) {
    if (Status status = flush(); !status.ok()) return status;
    return write(from, count);
  }
  while (count > 0) {
    const uint64_t part = std::min(count, kWriteBufferBytes - buffered_);
    std::memcpy(buffer_.get() + buffered_, from, part);
    buffered_ += part;
    position_ += part;
    from += part;
    count -= part;
    if (buffered_ < kWriteBufferBytes) continue;
    if (Status status = flush(); !status.ok()) return status;
  }
  return {};
}

Status SavedWriter::flush() {
  const uint64_t count = std::exchange(buffered_, 0);
  position_ -= count;
  return write(buffer_.get(), count);
}

Status SavedWriter::write(const uint8_t *bytes, uint64_t count) {
  if (Status status = write_at(position_, bytes, count); !status.ok()) return status;
  position_ += count;
  // The disk writes one window while the next is filled, and is waited for at each: so what is reported as done is,
  // the sync at the end is short, and the page cache does not fill up with what nobody will read. Where a file system
  // cannot, the sync does it all.
  while (position_ - started_ >= kWindowBytes) {
    const off_t begin = static_cast<off_t>(started_), window = static_cast<off_t>(kWindowBytes);
    sync_file_range(fd_, begin, window, SYNC_FILE_RANGE_WRITE);
    if (started_ >= kWindowBytes) {
      sync_file_range(fd_, begin - window, window,
                      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    }
    started_ += kWindowBytes;
  }
  return {};
}

Status SavedWriter::write_at(uint64_t offset, const void *bytes, uint64_t count) {
  if (const uint64_t limit = file_size_limit(); offset + count > limit) {
    return failure(DC_ERROR_NO_SPACE,
                   "%s would grow beyond %s, and this process may write no larger files: raise the "
                   "limit (ulimit -f)",
                   path_.c_str(), readable_bytes(limit).c_str());
  }
  const uint8_t *from = static_cast<const uint8_t *>(bytes);
  while (count > 0) {
    const ssize_t written = pwrite(fd_, from, count, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && (errno == ENOSPC || errno == EDQUOT)) return DC_FULL;
    if (written <= 0) return system_failure("write", path_, written < 0 ? errno : EIO);
    from += written;
    offset += static_cast<uint64_t>(written);
    count -= static_cast<uint64_t>(written);
  }
  return {};
}

SavedReader::SavedReader(int fd, std::string path, uint64_t file_bytes)
    : fd_(fd), path_(std::move(path)), file_bytes_(file_bytes), buffer_(new uint8_t[kReadBufferBytes]) {}

Status SavedReader::read(void *bytes, uint64_t count) {
  uint8_t *to = static_cast<uint8_t *>(bytes);
  if (count > left()) {
    return failure(DC_ERROR_DAMAGED, "%s ends at byte %llu, %llu bytes too early", path_.c_str(),
                   static_cast<unsigned long long>(file_bytes_), static_cast<unsigned long long>(count - left()));
  }
  while (count > 0) {
    const uint64_t at = position_ - buffer_begin_;
    if (at < buffered_) {
      const uint64_t part = std::min(count, buffered_ - at);
      std::memcpy(to, buffer_.get() + at, part);
      position_ += part;
      to += part;
      count -= part;
      continue;
    }
    if (count >= kDirectReadBytes) {
      if (Status status = fetch(to, count, position_); !status.ok()) return status;
      position_ += count;
      return {};
    }
    buffer_begin_ = position_;
    buffered_ = std::min(kReadBufferBytes, left());
    if (Status status = fetch(buffer_.get(), buffered_, buffer_begin_); !status.ok()) {
      buffered_ = 0;
      return status;
    }
  }
  return {};
}

Status SavedReader::fetch(uint8_t *bytes, uint64_t count, uint64_t offset) const {
  while (count > 0) {
    const ssize_t got = pread(fd_, bytes, count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failure("read", path_, errno);
    if (got == 0) {
      return failure(DC_ERROR_DAMAGED, "%s was cut off at byte %llu while it was read", path_.c_str(),
                     static_cast<unsigned long long>(offset));
    }
    bytes += got;
    offset += static_cast<uint64_t>(got);
    count -= static_cast<uint64_t>(got);
  }
  return {};
}

}  // namespace ddpcache
