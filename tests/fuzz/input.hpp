// What the fuzz targets share: an input as a source of choices, and how a finding is told.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

namespace ddpcache::fuzz {

[[noreturn]] inline void finding(const char *file, int line, const char *what) {
  std::fprintf(stderr, "%s:%d: finding: %s\n", file, line, what);
  std::abort();
}

// What must hold whatever the input: the fuzzer keeps an input for which it does not.
#define DC_MUST(condition) \
  (static_cast<bool>(condition) ? void() : ::ddpcache::fuzz::finding(__FILE__, __LINE__, #condition))

// The bytes of an input, taken one after the other; zeros when there are no more.
class Input {
 public:
  Input(const uint8_t *data, size_t size) : rest_(data, size) {}

  bool empty() const { return rest_.empty(); }
  size_t left() const { return rest_.size(); }

  template <typename T>
  T take() {
    T value = {};
    const size_t count = std::min(sizeof value, rest_.size());
    if (count > 0) std::memcpy(&value, rest_.data(), count);
    rest_ = rest_.subspan(count);
    return value;
  }
  uint8_t byte() { return take<uint8_t>(); }
  bool coin() { return (byte() & 1) != 0; }
  // 0..count-1, of a count up to 256.
  uint32_t below(uint32_t count) { return byte() % count; }

  // A number of any size, small ones and those at the edges of types often.
  uint64_t number() {
    const uint8_t kind = byte();
    switch (kind & 7) {
      case 0: return kind >> 3;
      case 1: return byte();
      case 2: return take<uint16_t>();
      case 3: return take<uint32_t>();
      case 4: return take<uint64_t>();
      case 5: return uint64_t{1} << (byte() & 63);
      case 6: return (uint64_t{1} << (byte() & 63)) - 1;
      default: return ~uint64_t{byte()};
    }
  }
  int64_t signed_number() { return static_cast<int64_t>(number()); }

  std::span<const uint8_t> bytes(size_t count) {
    const std::span<const uint8_t> taken = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  std::span<const uint8_t> rest() { return bytes(rest_.size()); }

 private:
  std::span<const uint8_t> rest_;
};

}  // namespace ddpcache::fuzz
