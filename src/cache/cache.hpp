// A process's handle on a cache.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "atomic.hpp"
#include "clients.hpp"
#include "ddpcache/batch.h"
#include "ddpcache/report.h"
#include "ddpcache/saving.h"
#include "extents.hpp"
#include "fill.hpp"
#include "pin.hpp"
#include "populator.hpp"
#include "record.hpp"
#include "segment.hpp"

namespace ddpcache {

// How a handle came to its cache.
struct Origin {
  bool created = false;
  bool adopted = false;  // it was there, and nobody was attached to it
};

// Samples to be copied, and where to.
struct Batch {
  const int64_t *indices;
  int64_t count;
  std::span<const dc_gather> parts;
  int32_t *statuses;  // may be nullptr
};

class Cache {
 public:
  ~Cache();
  Cache(const Cache &) = delete;
  Cache &operator=(const Cache &) = delete;

  // In opening.cpp.
  static Status open(const char *name, const char *directory, const char *fingerprint, const dc_cache_options &options,
                     Cache **cache);
  static Status attach(const char *name, const char *directory, int64_t timeout_ns, Cache **cache);
  static Status attach_read_only(const char *name, const char *directory, int64_t timeout_ns, Cache **cache);
  Status close();

  // In reading.cpp.
  Status view(int64_t index, dc_view *view);
  static void release(dc_view *view);
  Status contains(int64_t index) const;
  Status residency(int64_t first, int64_t count, uint8_t *bitmap) const;

  // In copying.cpp.
  Status read(int64_t index, uint32_t number, uint8_t *buffer, uint64_t buffer_bytes, uint64_t *bytes);
  Status gather(Batch batch, uint32_t threads);
  // Each output is optional; uncounted.
  Status describe_batch(const int64_t *indices, int64_t count, uint32_t number, dc_array *descriptions,
                        uint32_t *array_counts, uint64_t *structures, int32_t *statuses);
  Status structure(int64_t index, uint8_t *buffer, uint64_t buffer_bytes, uint64_t *bytes);

  // In populator.cpp.
  Status populate();

  // In dropping.cpp.
  Status remove(int64_t index);
  Status remove_batch(const int64_t *indices, int64_t count, int64_t *removed);
  Status clear(int64_t *removed);

  // In keys.cpp.
  Status intern(const uint8_t *key, uint64_t key_bytes, int64_t *index);
  Status lookup(const uint8_t *key, uint64_t key_bytes, int64_t *index) const;
  Status view_key(const uint8_t *key, uint64_t key_bytes, dc_view *view);

  // In filling.cpp.
  Status load(int64_t index, dc_loader loader, void *user, int64_t timeout_ns, dc_view *view);
  Status begin_fill(int64_t index, int64_t timeout_ns, Fill **fill);

  // In saving.cpp.
  Status save(const char *path, dc_progress progress, void *user, int64_t *saved);

  // In report.cpp.
  void info(dc_cache_info *info);
  void stats(int32_t scope, dc_cache_stats *stats);
  // DC_ERROR_DAMAGED with the first violation.
  Status check(dc_cache_report *report);

 private:
  friend class Fill;
  friend class Pin;
  friend class Opening;
  friend class Restoring;
  friend class Saving;

  Cache() : clients_(segment_), extents_(segment_, clients_) {}

  // A sample's arrays, for as long as its pin holds.
  struct Located {
    RecordGlance glance;
    std::array<ArrayBytes, DC_ARRAYS_MAX> arrays;
  };

  void remove_if_last();
  void put_on_disk_if_last();

  Status check_index(int64_t index) const;
  Status check_keyed() const;
  // The record of a sample that is READY, named by `pin` where it could go; DC_MISS where it is not.
  Status find(int64_t index, Pin *pin, RecordGlance *found);
  // Looks a READY word's record up; turns an unsound one BAD and says DC_MISS.
  Status glance(int64_t index, EntryWord word, RecordGlance *glance);
  Status verify(int64_t index, EntryWord word, RecordGlance *glance);
  // As find, in a droppable cache whose words this process cannot write: the record is a copy that the pin owns.
  // In private_copies.cpp.
  Status find_copy(int64_t index, Pin *pin, RecordGlance *found);
  // As view, but uncounted.
  Status look(int64_t index, dc_view *view);
  // As find, with arrays 0..last or as many as there are.
  Status locate(int64_t index, uint32_t last, Pin *pin, Located *found);
  // Fetches the words and descriptions of samples that come soon after place i.
  void look_ahead(std::span<const int64_t> indices, int64_t i) const;
  int32_t copy_sample(const Batch &batch, int64_t i, Pin *pin, uint64_t *copied);
  // One thread's work: blocks of samples until there is none left.
  void copy_blocks(const Batch &batch, int64_t block, Atomic<int64_t> *next);
  int32_t describe(int64_t index, uint32_t number, Pin *pin, dc_array *description, uint32_t *array_count,
                   uint64_t *structure);

  Status claim(int64_t index, int64_t deadline_ns, bool unless_full, Fill *fill);
  Status await(int64_t index, EntryWord word, int64_t deadline_ns, bool *waited);
  // The end of a reader's name, which may have been all that kept a dropped extent.
  void unpin(int64_t index, uint32_t name);
  bool drop(int64_t index);
  Status run_loader(Fill &fill, dc_loader loader, void *user, dc_view *view);
  void tally(Counter counter, uint64_t amount = 1) { count(clients_.record(), counter, amount); }

  void stop_populating();

  Segment segment_;
  Clients clients_;
  Extents extents_;
  std::string directory_;
  Origin origin_;
  Atomic<Populator *> populator_{nullptr};
};

Status unlink_cache(const char *name, const char *directory);
Status collect_garbage(const char *directory, int32_t *removed);
Status list_caches(const char *directory, std::vector<std::string> *names);

// The geometry that options ask for, defaults still open.
inline Geometry requested_geometry(const dc_cache_options &options) {
  return {options.length,
          options.capacity_bytes,
          options.sample_bytes,
          options.sample_bytes_max,
          options.clients_max ? options.clients_max : 1024,
          options.droppable,
          options.keyed,
          options.checksums};
}

// Capacity and file size for every sample to fit; options.capacity_bytes is ignored. In report.cpp.
Status estimate(const dc_cache_options &options, uint64_t sample_bytes, uint64_t *capacity, uint64_t *total);

}  // namespace ddpcache
