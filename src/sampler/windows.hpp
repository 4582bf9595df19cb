// How NODE divides the ring among nodes, and how windows move when samples are exchanged (DESIGN, section 4).
#pragma once

#include <cstdint>

namespace ddpcache {

__extension__ typedef unsigned __int128 uint128;

// The first ring position of window k of `windows`; the end of the last for k = windows.
constexpr uint64_t window_begin(uint64_t length, uint64_t windows, uint64_t k) {
  return static_cast<uint64_t>(uint128{k} * length / windows);
}

// The window that holds a ring position: the largest k with window_begin(k) <= position < length.
constexpr uint64_t window_of(uint64_t length, uint64_t windows, uint64_t position) {
  return static_cast<uint64_t>(((uint128{position} + 1) * windows - 1) / length);
}

// How far the windows have moved: a fraction of `ppm` millionths of a window each epoch, counted from (epoch, shift).
struct Exchange {
  static constexpr uint64_t ppm_max = 1'000'000;

  uint64_t ppm = 0;
  uint64_t epoch = 0;
  uint64_t shift = 0;

  // The same line goes on backwards, rounded down as it is forwards, since the last epoch's windows are asked for too.
  // Below 2^124: 41 bits of epochs, 20 of millionths, 62 of length, before the division.
  constexpr uint64_t shift_at(uint64_t now, uint64_t length, uint64_t windows) const {
    if (length == 0) return 0;
    const uint128 divisor = uint128{ppm_max} * windows;
    if (now >= epoch) return static_cast<uint64_t>((shift + uint128{now - epoch} * ppm * length / divisor) % length);
    const uint128 back = (uint128{epoch - now} * ppm * length + divisor - 1) / divisor % length;
    return static_cast<uint64_t>((shift + length - back) % length);
  }

  friend bool operator==(const Exchange &, const Exchange &) = default;
};

}  // namespace ddpcache
