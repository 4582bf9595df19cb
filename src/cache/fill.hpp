// A fill under way: a claim on an entry, then an extent, then a publication.
//
// The order of one fill, and what a crash after each step leaves:
//   note the index in the client record      nothing
//   claim: EMPTY -> WRITING                  a WRITING word that anyone may take once the death is noticed
//   take an extent: its word -> mine         an extent that is free again when the entry has moved on
//   name it, then check both words           a name, which goes when the death is proved
//   write head and data                      bytes that nobody can reach
//   publish: WRITING -> READY                a stored sample
//   drop the name and the note               a name and a note that mean nothing any more
#pragma once

#include <cstdint>

#include "record.hpp"
#include "segment.hpp"

namespace ddpcache {

class Cache;

class Fill {
 public:
  Fill() = default;
  ~Fill();
  Fill(const Fill &) = delete;
  Fill &operator=(const Fill &) = delete;

  int64_t index() const { return index_; }
  Status allocate(dc_array *arrays, uint32_t count, const char *structure);
  // Memory for a record that the caller writes whole, with its head and the checksum there.
  Status allocate_record(uint64_t record_bytes, uint8_t **record) { return take_memory(record_bytes, 0, record); }
  // Tells that it is written, and how many bytes its arrays have. Before the commit.
  void wrote_record(uint64_t data_bytes) {
    data_bytes_ = data_bytes;
    sealed_ = true;
  }
  // DC_OK or DC_ERROR_LOST, and the fill is over; DC_ERROR_STATE or DC_ERROR_THREAD, and it is not.
  Status commit();
  // Gives the entry back. Does nothing for a fill that has none.
  void abort();
  // DC_ERROR_THREAD or DC_OK; DC_MISS for a fill that a parent process began.
  Status usable_here() const;

  bool is_of_loader() const { return of_loader_; }
  void set_of_loader() { of_loader_ = true; }

  // Whether the calling thread has any fill open, one of this cache, and one for this index of it.
  static bool thread_has_open();
  static bool thread_is_using(const Cache *cache);
  static bool thread_is_filling(const Cache *cache, int64_t index);

 private:
  friend class Cache;
  enum class Phase { none, uncached, claimed, allocated };

  // Enters a fill that has its claim into the thread's list.
  void opened(Cache *cache, int64_t index, uint32_t generation, uint32_t slot);
  void finished();
  Status take_memory(uint64_t record_bytes, uint64_t data_bytes, uint8_t **record);
  bool leave(EntryWord next, const char *fault_point);

  Cache *cache_ = nullptr;
  int64_t index_ = -1;
  uint32_t generation_ = 0;
  uint32_t slot_ = 0;
  Phase phase_ = Phase::none;
  bool of_loader_ = false;
  Extent extent_;
  uint64_t data_bytes_ = 0;
  bool sealed_ = false;  // the record has its checksum
  Status allocation_;    // what allocate said, so that a load can tell its caller
  uint64_t thread_ = 0;
  uint32_t process_ = 0;  // fork generation
  Fill *next_in_thread_ = nullptr;
};

}  // namespace ddpcache
