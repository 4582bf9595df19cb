// A reader's hold on the extent that it looks at, in a cache that can drop samples. In others it holds nothing, and
// costs nothing.
#pragma once

#include <cstdint>

#include "words.hpp"

namespace ddpcache {

class Cache;

class Pin {
 public:
  static constexpr uint32_t kNone = 0;  // as a view stores it; else 1 + the name's number, or 1 + kReaderNames

  explicit Pin(Cache &cache) : cache_(cache) {}
  ~Pin() {
    if (name_ != kNone) drop();
  }
  Pin(const Pin &) = delete;
  Pin &operator=(const Pin &) = delete;

  // Names the extent that entry `index` leads to, in place of the one named before. The caller then checks that the
  // entry still does. False where this process has no client record to name it in.
  bool name(int64_t index, Place place);
  // Hands the name to a view.
  uint32_t release() {
    const uint32_t name = name_;
    name_ = kNone;
    return name;
  }

 private:
  void drop();

  Cache &cache_;
  int64_t index_ = -1;
  uint32_t name_ = kNone;
};

}  // namespace ddpcache
