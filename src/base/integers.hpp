// Integer arithmetic that the layers above share.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>

namespace ddpcache {

static_assert(std::endian::native == std::endian::little, "the format and the golden vectors are little-endian");
static_assert(sizeof(void *) == 8, "offsets and futex words assume 64-bit addresses");

template <std::unsigned_integral T>
constexpr T ceil_div(T a, T b) {
  return a / b + (a % b != 0);
}

// The least multiple of `unit`, a power of two, that is not below `value`. The caller keeps clear of overflow.
constexpr uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) & ~(unit - 1); }

constexpr bool multiply_overflows(uint64_t a, uint64_t b, uint64_t *product) {
  return __builtin_mul_overflow(a, b, product);
}

constexpr bool add_overflows(uint64_t a, uint64_t b, uint64_t *sum) { return __builtin_add_overflow(a, b, sum); }

}  // namespace ddpcache
