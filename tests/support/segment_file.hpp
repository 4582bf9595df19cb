// A cache's file mapped a second time, for tests that damage it or look at its words.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "caches.hpp"
#include "format.hpp"
#include "segment.hpp"

namespace ddpcache::test {

// A second mapping of a cache's file, to write into.
inline void map_again(const CacheName &name, Segment *segment) {
  const Descriptor file(open(name.path().c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(pread(file.get(), &segment->header, sizeof(Header), 0), static_cast<ssize_t>(sizeof(Header)));
  struct stat properties = {};
  EXPECT_EQ(fstat(file.get(), &properties), 0);
  EXPECT_TRUE(check_header(segment->header, static_cast<uint64_t>(properties.st_size), "it", &segment->layout).ok());
  EXPECT_TRUE(segment->map(file.get()).ok());
}

class SegmentFile {
 public:
  explicit SegmentFile(const CacheName &name) { map_again(name, &segment_); }

  Segment *operator->() { return &segment_; }
  const Segment *operator->() const { return &segment_; }

  EntryWord entry(int64_t index) const { return EntryWord(segment_.entry(index).load()); }
  void set_entry(int64_t index, EntryWord word) { segment_.entry(index).store(word.bits()); }
  uint64_t extent_bytes_of(int64_t index) const { return segment_.extent_bytes(extent_of(index)); }
  // Where sample `index`, which is READY, is stored.
  uint8_t *record_of(int64_t index) const { return segment_.writable(extent_of(index)); }

 private:
  Extent extent_of(int64_t index) const {
    Extent extent;
    EXPECT_TRUE(segment_.find_extent(entry(index).place(), &extent));
    return extent;
  }

  Segment segment_;
};

}  // namespace ddpcache::test
