// Caches in which there is one of everything, so that damage to any word of their files can be tried: what is found,
// and where it is said to be.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "../support/segment_file.hpp"

namespace ddpcache::test {

struct Exhibition {
  const char *name;
  uint32_t droppable;
  uint32_t keyed;
  uint32_t checksums;
  uint64_t sample_bytes;  // 0: of several sizes
  bool on_disk;
};

class Museum {
 public:
  static constexpr int64_t kLength = 40;
  static constexpr uint32_t kClients = 6;
  // What there is, by index.
  static constexpr int64_t kStored = 16;  // 0..15
  static constexpr int64_t kClaimed = 16, kAllocated = 17, kOthersClaimed = 18, kOthersAllocated = 19;
  static constexpr int64_t kOrphaned = 20, kOrphanClaimed = 21, kBad = 22;
  static constexpr int64_t kRemoved = 23, kRemovedInView = 24;  // in droppable ones only

  explicit Museum(const Exhibition &exhibition);
  ~Museum();
  Museum(const Museum &) = delete;
  Museum &operator=(const Museum &) = delete;

  const Exhibition &exhibition() const { return exhibition_; }
  dc_cache *cache() const { return cache_; }
  const CacheName &name() const { return *name_; }
  const Segment &segment() const { return segment_; }
  uint8_t *bytes() const { return const_cast<uint8_t *>(segment_.words()); }
  uint64_t offset_of(const void *word) const {
    return static_cast<uint64_t>(static_cast<const uint8_t *>(word) - bytes());
  }

  // Puts all before the arena, and these bytes in it, back to what they were when all was in place.
  void restore(uint64_t touched_offset, uint64_t touched_bytes);
  void restore_all() { restore(segment_.layout.arena_offset, arena_.size()); }

 private:
  void store_samples();
  void leave_clients_behind();
  int visit(bool killed, int ready, int go);
  void open_fills(dc_cache *cache, int64_t claimed, int64_t allocated);
  uint64_t size_of(int64_t index) const;
  int32_t put_rich(int64_t index);

  const Exhibition exhibition_;
  std::string directory_;
  std::unique_ptr<CacheName> name_;
  Handle cache_, other_;
  std::vector<dc_fill *> fills_;
  std::vector<dc_view> views_;
  Segment segment_;
  std::vector<uint8_t> before_;  // all before the arena
  std::vector<uint8_t> arena_;   // the steps in use
};

// One of each that matters.
inline constexpr Exhibition kExhibitions[] = {{"droppable_keyed_with_checksums", 1, 1, DC_CHECKSUMS_FILL, 0, false},
                                              {"plain", 0, 0, DC_CHECKSUMS_OFF, 400, false},
                                              {"droppable_of_several_sizes", 1, 0, DC_CHECKSUMS_OFF, 0, false},
                                              {"keyed_on_a_disk", 0, 1, DC_CHECKSUMS_FILL, 5000, true}};
inline std::string name_of_exhibition(const ::testing::TestParamInfo<Exhibition> &kind) { return kind.param.name; }

// What a check says.
struct Finding {
  int32_t status = DC_OK;
  dc_cache_report report = {};
  std::string text;

  // Whether it says that something is wrong at this byte of the file, or in the eight that it belongs to.
  bool names(uint64_t offset) const;
};

Finding check_of(dc_cache *cache);

}  // namespace ddpcache::test
