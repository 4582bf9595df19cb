// A reader's hold on the extent that it looks at, in a cache that can drop samples; or, where he cannot name an extent
// since he attached read only, on a private copy of the record. In others it holds nothing, and costs nothing.
#pragma once

#include <cstdint>

#include "words.hpp"

namespace ddpcache {

class Cache;

class Pin {
 public:
  static constexpr uint32_t kNone = 0;           // as a view stores it; else 1 + the name's number, or 1 + kReaderNames
  static constexpr uint32_t kCopy = UINT32_MAX;  // a copy, which is the view's record

  explicit Pin(Cache &cache) : cache_(cache) {}
  ~Pin() {
    if (name_ != kNone) drop();
    if (copy_) free_copy(copy_);
  }
  Pin(const Pin &) = delete;
  Pin &operator=(const Pin &) = delete;

  // Names the extent that entry `index` leads to, in place of the one named before. The caller then checks that the
  // entry still does. False where this process has no client record to name it in.
  bool name(int64_t index, Place place);
  // Memory for a copy of `bytes`, aligned as records are. What was in it is lost.
  uint8_t *room_for_copy(uint64_t bytes);
  static void free_copy(const uint8_t *copy);

  // Hands the name, or the copy, to a view.
  uint32_t release() {
    if (copy_) {
      copy_ = nullptr;
      return kCopy;
    }
    const uint32_t name = name_;
    name_ = kNone;
    return name;
  }

 private:
  void drop();

  Cache &cache_;
  int64_t index_ = -1;
  uint32_t name_ = kNone;
  uint8_t *copy_ = nullptr;
  uint64_t copy_bytes_ = 0;
};

}  // namespace ddpcache
