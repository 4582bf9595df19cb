// A saved file to a cache: one pass, in which every byte is compared with its checksum, then the name.
#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <vector>

#include "clock.hpp"
#include "content.hpp"
#include "fault.hpp"
#include "integers.hpp"
#include "saved.hpp"
#include "saved_keys.hpp"
#include "space.hpp"
#include "turn.hpp"

namespace ddpcache {
namespace {

// Bytes between two words to those who wait.
constexpr uint64_t kSayBytes = uint64_t{4} << 20;
// How far ahead the kernel is asked to read.
constexpr uint64_t kAheadBytes = uint64_t{64} << 20;
constexpr int64_t kLongestPauseNs = 50'000'000;

using Number = unsigned long long;

// Whether a cache of this geometry has room for all samples of these sizes, in whatever order they come.
bool has_room(const SavedHeader &header, const Geometry &geometry, Layout *layout, uint64_t *wanted_steps) {
  if (!plan_layout(geometry, layout).ok()) {
    *wanted_steps = 1;
    return false;
  }
  std::vector<uint64_t> samples(layout->classes.size() + 1);
  *wanted_steps = 0;
  for (uint32_t i = 0; i < kSizeBuckets; ++i) {
    const SizeBucket &bucket = header.sizes[i];
    if (bucket.samples == 0) continue;
    const uint32_t size_class = layout->class_for(bucket.largest);
    samples[size_class] += bucket.samples;
    // Its smaller samples may be of smaller classes: each of these may have begun a step more.
    *wanted_steps += size_class - std::min(size_class, layout->class_for(size_bucket_begin(i)));
  }
  for (size_t c = 0; c < layout->classes.size(); ++c) {
    *wanted_steps += ceil_div<uint64_t>(samples[c], layout->classes[c].slots);
  }
  return *wanted_steps <= layout->steps;
}

// The saved capacity, or more where samples of different sizes, coming in another order, might need it.
uint64_t sufficient_capacity(const SavedHeader &header, const dc_cache_options &options, uint64_t page_bytes) {
  Geometry geometry = requested_geometry(options);
  geometry.page_bytes = page_bytes;
  geometry.capacity_bytes = header.capacity_bytes;
  if (geometry.sample_bytes_max == 0) geometry.sample_bytes_max = geometry.sample_bytes;
  Layout layout;
  uint64_t steps = 0;
  // How a step is cut depends on the capacity, so the answer is approached from below; each round raises it by 1/64.
  while (!has_room(header, geometry, &layout, &steps) && geometry.capacity_bytes < uint64_t{1} << 55) {
    const uint64_t more = geometry.capacity_bytes + geometry.capacity_bytes / 64 + kPageBytes;
    uint64_t bytes = 0;
    if (layout.step_bytes == 0 || multiply_overflows(steps, layout.step_bytes, &bytes)) break;
    geometry.capacity_bytes = std::max(more, bytes);
  }
  return geometry.capacity_bytes;
}

}  // namespace

class Restoring final : public Content {
 public:
  explicit Restoring(const RestoreRequest &request)
      : request_(request), path_(request.path), progress_(request.progress, request.user) {}

  Status run(Cache **cache) {
    if (Status status = read_saved_header(path_, &file_, &header_); !status.ok()) return status;
    if (request_.fingerprint && std::strcmp(request_.fingerprint, header_.fingerprint) != 0) {
      return failure(DC_ERROR_FINGERPRINT, "%s holds the data of \"%.300s\", asked for was \"%.300s\"", path_.c_str(),
                     header_.fingerprint, request_.fingerprint);
    }
    dc_cache_options born;
    if (Status status = resolve(&born); !status.ok()) return status;
    if (Status status = progress_.now(0, header_.file_bytes); !status.ok()) return status;
    return open_with_content(request_.name, request_.directory, header_.fingerprint, options_, born, *this, cache);
  }

  Status take_turn(const Directory &directory, const std::string &file_name) override {
    uint32_t heard = 0, at = 0;
    int64_t since_ns = now_ns(), pause_ns = 1'000'000;
    for (bool taken = false;;) {
      if (Status status = turn_.try_take(directory, file_name, &taken, &at); !status.ok() || taken) return status;
      const int64_t now = now_ns();
      // It has come further, or another has begun.
      if (at != heard) {
        heard = at;
        since_ns = now;
      }
      if (now - since_ns >= options_.timeout_ns) {
        return failure(DC_ERROR_LOCKED,
                       "another process is restoring %s; it had come to %.1f %% and got no further in %.3g s",
                       directory.described(file_name).c_str(), 100.0 * at / Turn::kWhole,
                       static_cast<double>(options_.timeout_ns) / 1e9);
      }
      const uint64_t done = static_cast<uint64_t>(static_cast<double>(header_.file_bytes) * at / Turn::kWhole);
      if (Status status = progress_.at(done, header_.file_bytes); !status.ok()) return status;
      const timespec pause = {0, pause_ns};
      const bool interrupted = nanosleep(&pause, nullptr) != 0;
      pause_ns = std::min(2 * pause_ns, kLongestPauseNs);
      if (!interrupted) continue;
      if (Status status = progress_.now(done, header_.file_bytes); !status.ok()) return status;
    }
  }

  bool is_in(Cache &cache) override {
    dc_cache_stats stats = {};
    cache.stats(DC_STATS_CACHE, &stats);
    return stats.resident >= header_.samples;
  }

  Status fill(Cache &cache) override {
    DC_FAULT_POINT("restore-begun");
    dc_cache_info info = {};
    cache.info(&info);
    if (Status status = check_room(cache, info); !status.ok()) return status;
    reader_ = std::make_unique<SavedReader>(file_.get(), path_, header_.file_bytes);
    SavedHeader again;
    if (Status status = reader_->read(&again, sizeof again); !status.ok()) return status;
    posix_fadvise(file_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
    if (Status status = restore_keys(cache.segment_); !status.ok()) return status;
    for (uint64_t number = 0; number < header_.samples; ++number) {
      if (Status status = restore_record(cache, info, number); !status.ok()) return status;
    }
    if (reader_->left() > 0) return damaged(reader_->position(), "something follows the last sample");
    if (last_check_ != header_.last_check) return damaged(0, "the samples are not those of its header");
    DC_FAULT_POINT("restore-verified");
    return progress_.now(header_.file_bytes, header_.file_bytes);
  }

 private:
  // The options that a cache that is there must have, and those of one that is made.
  Status resolve(dc_cache_options *born) {
    if (request_.options) {
      options_ = *request_.options;
    } else {
      dc_cache_options_init(&options_, sizeof options_);
      options_.droppable = header_.droppable;
      options_.keyed = header_.keyed;
    }
    if (options_.length == 0) options_.length = header_.length;
    if (options_.length != header_.length) {
      return failure(DC_ERROR_MISMATCH, "%s holds a cache of length %lld, asked for was %lld", path_.c_str(),
                     static_cast<long long>(header_.length), static_cast<long long>(options_.length));
    }
    if (options_.keyed != header_.keyed) {
      return failure(DC_ERROR_MISMATCH, "%s holds a cache that is %skeyed, asked for was one that is %skeyed",
                     path_.c_str(), header_.keyed ? "" : "not ", options_.keyed ? "" : "not ");
    }
    if (options_.sample_bytes == 0 && options_.sample_bytes_max == 0) options_.sample_bytes = header_.sample_bytes;
    *born = options_;
    if (born->sample_bytes == 0 && born->sample_bytes_max == 0) born->sample_bytes_max = header_.sample_bytes_max;
    if (Status status = check_geometry(requested_geometry(*born)); !status.ok()) return status;
    if (born->capacity_bytes != 0) return {};
    Directory directory;
    if (Status status = Directory::open(request_.directory, &directory); !status.ok()) return status;
    born->capacity_bytes = sufficient_capacity(header_, *born, directory.file_system().page_bytes);
    return {};
  }

  // Before anything is read: a cache that is certainly too small.
  Status check_room(const Cache &cache, const dc_cache_info &info) const {
    if (header_.record_bytes > info.capacity_bytes) return too_small(info, 0);
    uint64_t largest = 0;
    for (const SizeBucket &bucket : header_.sizes) largest = std::max(largest, bucket.largest);
    return check_size(cache, info, "largest sample", largest);
  }

  Status check_size(const Cache &cache, const dc_cache_info &info, const char *which, uint64_t record_bytes) const {
    const uint64_t room = cache.segment_.layout.largest_record();
    if (record_bytes <= room) return {};
    return failure(
        DC_ERROR_TOO_LARGE,
        "the %s of %s has %llu bytes as stored; asked for was a cache of samples of at most %llu bytes (%llu as "
        "stored)",
        which, path_.c_str(), static_cast<Number>(record_bytes), static_cast<Number>(info.sample_bytes_max),
        static_cast<Number>(room));
  }

  Status too_small(const dc_cache_info &info, uint64_t stored) const {
    return failure(
        DC_ERROR_NO_SPACE,
        "the %llu samples of %s have %s as stored, and a cache with a capacity of %s %s: give a larger capacity",
        static_cast<Number>(header_.samples), path_.c_str(), readable_bytes(header_.record_bytes).c_str(),
        readable_bytes(info.capacity_bytes).c_str(),
        stored ? ("is full with " + std::to_string(stored) + " of them").c_str() : "cannot hold them");
  }

  Status damaged(uint64_t offset, const char *what) const {
    return failure(DC_ERROR_DAMAGED, "%s is damaged at byte %llu: %s", path_.c_str(), static_cast<Number>(offset),
                   what);
  }
  Status damaged_sample(uint64_t offset, int64_t index, const char *what) const {
    return failure(DC_ERROR_DAMAGED, "%s is damaged at byte %llu: the sample of index %lld %s", path_.c_str(),
                   static_cast<Number>(offset), static_cast<long long>(index), what);
  }

  Status restore_keys(const Segment &segment) {
    int64_t last_index = -1;
    for (uint64_t number = 0; number < header_.key_slots; ++number) {
      const uint64_t at = reader_->position();
      SavedKey key;
      if (Status status = reader_->read(&key, sizeof key); !status.ok()) return status;
      last_check_ = key_check(last_check_, key);
      if (key.check != last_check_) return damaged(at, "a key does not have its checksum");
      if (!segment.keyed() || key.index <= last_index || key.index >= header_.length || !place_key(segment, key)) {
        return damaged(at, "a key is out of order");
      }
      last_index = key.index;
      if (Status status = report(); !status.ok()) return status;
    }
    return segment.keyed() ? check_keys(segment) : Status();
  }

  // Every key must be found, and at its own slot.
  Status check_keys(const Segment &segment) {
    const KeyTable table = segment.keys();
    uint64_t keys = 0;
    for (int64_t index = 0; index < header_.length; ++index) {
      const KeySlot &slot = segment.key_slot(index);
      const KeyHash key = {slot.tag.load(std::memory_order_relaxed), slot.rest.load(std::memory_order_relaxed)};
      if (key.rest == 0) continue;
      int64_t found = -1;
      if (table.lookup(key, &found) != DC_OK || found != index) {
        return damaged(sizeof(SavedHeader), "its key table is none");
      }
      ++keys;
      if (Status status = report(); !status.ok()) return status;
    }
    if (keys != header_.keys) return damaged(sizeof(SavedHeader), "its keys are not as many as its header says");
    segment.control().keys.store(keys, std::memory_order_relaxed);
    return {};
  }

  // Of a record that was read in whole: its checksum, its parts, and its size without padding, which it gives.
  Status inspect(const uint8_t *record, uint64_t record_bytes, int64_t index, uint64_t at, uint64_t bytes_max,
                 uint64_t *data_bytes) const {
    RecordSums sums;
    if (!sum_record(record, record_bytes, index, &sums) || sums.stored != sums.actual) {
      return damaged_sample(at, index, "does not have its checksum");
    }
    if (!inspect_record(record, record_bytes, data_bytes)) return damaged_sample(at, index, "is not sound");
    if (*data_bytes > bytes_max) {
      return failure(DC_ERROR_TOO_LARGE,
                     "the sample of index %lld in %s has %llu bytes; asked for was a cache of samples of at "
                     "most %llu",
                     static_cast<long long>(index), path_.c_str(), static_cast<Number>(*data_bytes),
                     static_cast<Number>(bytes_max));
    }
    return {};
  }

  Status restore_record(Cache &cache, const dc_cache_info &info, uint64_t number) {
    const uint64_t at = reader_->position();
    SavedFrame frame;
    RecordHead head;
    if (Status status = reader_->read(&frame, sizeof frame); !status.ok()) return status;
    if (Status status = reader_->read(&head, sizeof head); !status.ok()) return status;
    last_check_ = frame_check(last_check_, frame.index, head);
    if (frame.check != last_check_) return damaged(at, "the head of a sample does not have its checksum");
    // From here on only who made the file on purpose can be to blame, and is not to do harm either.
    if (frame.index <= last_index_ || frame.index >= header_.length) return damaged(at, "an index is out of order");
    last_index_ = frame.index;
    if (head.record_bytes < sizeof head || head.record_bytes - sizeof head > reader_->left()) {
      return damaged_sample(at, frame.index, "ends beyond the file");
    }
    Status status = check_size(cache, info, "next sample", head.record_bytes);
    if (!status.ok()) return status;
    Fill *begun = nullptr;
    status = cache.begin_fill(frame.index, 0, &begun);
    const std::unique_ptr<Fill> fill(begun);
    if (!status.ok()) return status.code() < 0 ? status : Status(DC_ERROR_INTERNAL);
    uint8_t *record = nullptr;
    status = fill->allocate_record(head.record_bytes, &record);
    if (status.code() == DC_FULL) return too_small(info, number);
    if (!status.ok()) return status;
    std::memcpy(record, &head, sizeof head);
    for (uint64_t done = sizeof head; done < head.record_bytes; done += kSliceBytes) {
      const uint64_t slice = std::min(kSliceBytes, head.record_bytes - done);
      if (status = reader_->read(record + done, slice); !status.ok()) return status;
      if (status = report(); !status.ok()) return status;
    }
    uint64_t data_bytes = 0;
    status = inspect(record, head.record_bytes, frame.index, at, info.sample_bytes_max, &data_bytes);
    if (!status.ok()) return status;
    fill->wrote_record(data_bytes);
    status = fill->commit();
    DC_FAULT_POINT("restore-record");
    return status;
  }

  Status report() {
    const uint64_t position = reader_->position();
    if (position >= ahead_) {
      ahead_ = position + kAheadBytes / 2;
      posix_fadvise(file_.get(), static_cast<off_t>(position), kAheadBytes, POSIX_FADV_WILLNEED);
    }
    if (position - said_ >= kSayBytes) {
      said_ = position;
      turn_.say(static_cast<uint32_t>(static_cast<double>(position) / static_cast<double>(header_.file_bytes) *
                                      Turn::kWhole));
    }
    return progress_.at(position, header_.file_bytes);
  }

  const RestoreRequest &request_;
  const std::string path_;
  Progress progress_;
  Descriptor file_;
  SavedHeader header_;
  dc_cache_options options_;
  Turn turn_;
  std::unique_ptr<SavedReader> reader_;
  uint64_t last_check_ = 0;
  int64_t last_index_ = -1;
  uint64_t ahead_ = 0;
  uint64_t said_ = 0;
};

// Not on this thread's stack: see turn.hpp.
Status restore_cache(const RestoreRequest &request, Cache **cache) {
  return std::make_unique<Restoring>(request)->run(cache);
}

}  // namespace ddpcache
