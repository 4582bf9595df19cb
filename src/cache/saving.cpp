// A cache to a file, while others use it.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <optional>

#include "cache.hpp"
#include "fault.hpp"
#include "integers.hpp"
#include "replacement.hpp"
#include "saved.hpp"
#include "saved_keys.hpp"
#include "space.hpp"

namespace ddpcache {
namespace {

// Entries that are looked at between two looks at the progress.
constexpr int64_t kEntriesAtOnce = int64_t{1} << 20;

}  // namespace

class Saving {
 public:
  Saving(Cache &cache, dc_progress progress, void *user) : cache_(cache), progress_(progress, user) {}

  Status run(const char *path, int64_t *saved) {
    Status status = save(path);
    // What was written goes with the file, so that what is free is what will be.
    if (status.code() == DC_FULL) status = no_space(file_system_room(file_.fd()) + (writer_ ? writer_->position() : 0));
    if (status.ok() && saved) *saved = static_cast<int64_t>(header_.samples);
    return status;
  }

 private:
  Status save(const char *path) {
    // A process that only reads looks at copies.
    if (segment().droppable() && !segment().read_only() && !cache_.clients_.record()) {
      if (Status status = cache_.clients_.may_fill(); !status.ok()) return status;
    }
    if (Status status = survey(); !status.ok()) return status;
    if (Status status = file_.begin(path); !status.ok()) return status;
    DC_FAULT_POINT("save-begun");
    if (Status status = check_room(); !status.ok()) return status;
    if (Status status = progress_.now(0, left_bytes_); !status.ok()) return status;
    writer_.emplace(file_.fd(), file_.path());
    begin_header();
    // Its place, until it is known.
    if (Status status = writer_->append(&header_, sizeof header_); !status.ok()) return status;
    if (segment().keyed()) {
      if (Status status = save_keys(); !status.ok()) return status;
    }
    for (int64_t index = 0; index < segment().header.geometry.length; ++index) {
      if (Status status = save_entry(index); !status.ok()) return status;
    }
    return finish();
  }

  const Segment &segment() const { return cache_.segment_; }

  // How much memory there is to save, by the words alone: the samples themselves may lie on a disk.
  Status survey() {
    for (int64_t index = 0; index < segment().header.geometry.length; ++index) {
      left_bytes_ += memory_of(index);
      if (index % kEntriesAtOnce != kEntriesAtOnce - 1) continue;
      if (Status status = progress_.at(0, left_bytes_); !status.ok()) return status;
    }
    return {};
  }

  // Of the extent of a sample; 0 where there is none.
  uint64_t memory_of(int64_t index) const {
    // Relaxed: nothing is read through it.
    const EntryWord word(segment().entry(index).load(std::memory_order_relaxed));
    Extent extent;
    const bool there = word.state() == State::ready && segment().find_extent(word.place(), &extent);
    return there ? segment().extent_bytes(extent) : 0;
  }

  Status no_space(uint64_t free) const {
    return failure(
        DC_ERROR_NO_SPACE,
        "saving to %s needs %s, but the file system has %s free (what is there now is replaced only when the new "
        "file is complete)",
        file_.path().c_str(), readable_bytes(needed_bytes_).c_str(), readable_bytes(free).c_str());
  }

  // Before anything is written. Extents are larger than what is in them, so where these would not fit, the samples
  // themselves are asked.
  Status check_room() {
    const uint64_t free = file_system_room(file_.fd());
    const uint64_t slots = segment().keyed() ? segment().control().keys.load(std::memory_order_relaxed) : 0;
    const uint64_t fixed = sizeof header_ + slots * sizeof(SavedKey);
    needed_bytes_ = fixed + left_bytes_;
    if (needed_bytes_ <= free) return {};
    needed_bytes_ = fixed;
    for (int64_t index = 0; index < segment().header.geometry.length; ++index) {
      Pin pin(cache_);
      RecordGlance found;
      if (!cache_.find(index, &pin, &found).ok()) continue;
      needed_bytes_ += sizeof(SavedFrame) + found.record_bytes;
      if (Status status = progress_.at(0, left_bytes_); !status.ok()) return status;
    }
    return needed_bytes_ <= free ? Status() : no_space(free);
  }

  void begin_header() {
    const Header &of = segment().header;
    std::memset(static_cast<void *>(&header_), 0, sizeof header_);
    header_.length = of.geometry.length;
    header_.capacity_bytes = of.geometry.capacity_bytes;
    header_.sample_bytes = of.geometry.sample_bytes;
    header_.sample_bytes_max = of.geometry.sample_bytes_max;
    header_.droppable = of.geometry.droppable;
    header_.keyed = of.geometry.keyed;
    header_.fingerprint_bytes = of.fingerprint_bytes;
    std::snprintf(header_.library, sizeof header_.library, "%d.%d.%d", DC_VERSION_MAJOR, DC_VERSION_MINOR,
                  DC_VERSION_PATCH);
    std::memcpy(header_.uuid, of.uuid, sizeof header_.uuid);
    std::memcpy(header_.name, of.name, sizeof header_.name);
    std::memcpy(header_.fingerprint, of.fingerprint, sizeof header_.fingerprint);
  }

  Status save_keys() {
    keys_.emplace(segment());
    for (int64_t index = 0; index < segment().header.geometry.length; ++index) {
      SavedKey key;
      if (!keys_->take(index, &key)) continue;
      last_check_ = key.check = key_check(last_check_, key);
      if (Status status = writer_->append(&key, sizeof key); !status.ok()) return status;
      ++header_.key_slots;
      header_.keys += keys_->has(index);
      if (header_.key_slots % kEntriesAtOnce != 0) continue;
      if (Status status = report(left_bytes_); !status.ok()) return status;
    }
    return {};
  }

  Status save_entry(int64_t index) {
    const uint64_t memory = memory_of(index);
    if (memory > 0 && (!keys_ || keys_->has(index))) {
      Pin pin(cache_);
      RecordGlance found;
      uint64_t data_bytes = 0;
      // Whole, as a restore wants it: who looks at a sample for its first array sees less.
      if (cache_.find(index, &pin, &found).ok() && inspect_record(found.record, found.record_bytes, &data_bytes)) {
        if (Status status = save_record(index, found); !status.ok()) return status;
      }
    }
    left_bytes_ -= std::min(left_bytes_, memory);
    return memory > 0 || index % kEntriesAtOnce == 0 ? report(left_bytes_) : Status();
  }

  // What is written so far, and what there is still to write.
  Status report(uint64_t left) { return progress_.at(writer_->position(), writer_->position() + left); }

  Status save_record(int64_t index, const RecordGlance &found) {
    RecordHead head;
    RecordSums sums;
    std::memcpy(&head, found.record, sizeof head);
    // A damaged sample had better be decoded anew.
    if (!sum_record(found.record, found.record_bytes, index, &sums) || (sums.stored != 0 && sums.stored != sums.actual))
      return {};
    head.checksum = sums.actual;
    last_check_ = frame_check(last_check_, index, head);
    const SavedFrame frame = {index, last_check_};
    if (Status status = writer_->append(&frame, sizeof frame); !status.ok()) return status;
    if (Status status = writer_->append(&head, sizeof head); !status.ok()) return status;
    for (uint64_t done = sizeof head; done < found.record_bytes; done += kSliceBytes) {
      const uint64_t slice = std::min(kSliceBytes, found.record_bytes - done);
      if (Status status = writer_->append(found.record + done, slice); !status.ok()) return status;
      if (Status status = report(left_bytes_ - std::min(left_bytes_, done + slice)); !status.ok()) return status;
    }
    DC_FAULT_POINT("save-record");
    SizeBucket &bucket = header_.sizes[size_bucket(found.record_bytes)];
    ++bucket.samples;
    bucket.largest = std::max(bucket.largest, found.record_bytes);
    ++header_.samples;
    header_.record_bytes += found.record_bytes;
    return {};
  }

  Status finish() {
    if (Status status = writer_->flush(); !status.ok()) return status;
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    header_.saved_unix_ns = int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
    header_.file_bytes = writer_->position();
    header_.last_check = last_check_;
    seal_saved_header(&header_);
    if (Status status = writer_->write_at(0, &header_, sizeof header_); !status.ok()) return status;
    DC_FAULT_POINT("save-written");
    while (fsync(file_.fd()) != 0) {
      if (errno == ENOSPC || errno == EDQUOT) return DC_FULL;
      if (errno != EINTR) return system_failure("fsync", file_.path(), errno);
    }
    DC_FAULT_POINT("save-synced");
    if (Status status = progress_.now(header_.file_bytes, header_.file_bytes); !status.ok()) return status;
    return file_.publish();
  }

  Cache &cache_;
  Progress progress_;
  Replacement file_;
  std::optional<SavedWriter> writer_;
  std::optional<KeySnapshot> keys_;
  SavedHeader header_;
  uint64_t last_check_ = 0;
  uint64_t left_bytes_ = 0;  // memory of the samples still to be saved, as surveyed
  uint64_t needed_bytes_ = 0;
};

Status Cache::save(const char *path, dc_progress progress, void *user, int64_t *saved) {
  clients_.generation();
  return Saving(*this, progress, user).run(path, saved);
}

}  // namespace ddpcache
