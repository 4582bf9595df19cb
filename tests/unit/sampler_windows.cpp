// The arithmetic of windows, at the ends of its ranges.
#include <gtest/gtest.h>

#include <set>

#include "ddpcache/sampler.h"
#include "windows.hpp"

namespace ddpcache {
namespace {

TEST(Windows, OfAPositionIsTheInverseOfBegin) {
  for (uint64_t length = 1; length <= 40; ++length) {
    for (uint64_t windows = 1; windows <= 45; ++windows) {
      for (uint64_t k = 0; k < windows; ++k) {
        for (uint64_t p = window_begin(length, windows, k); p < window_begin(length, windows, k + 1); ++p) {
          ASSERT_EQ(window_of(length, windows, p), k) << p << " of " << length << " in " << windows;
        }
      }
      ASSERT_EQ(window_begin(length, windows, windows), length);
    }
  }
}

TEST(Windows, HoldWithoutOverflow) {
  constexpr uint64_t length = DC_SAMPLER_LENGTH_MAX, windows = DC_SAMPLER_WORLD_MAX;
  EXPECT_EQ(window_begin(length, windows, windows), length);
  EXPECT_EQ(window_begin(length, windows, windows - 1), length - length / windows);
  EXPECT_EQ(window_of(length, windows, length - 1), windows - 1);
  EXPECT_EQ(window_of(length, 3, length / 3 - 1), 0u);
  EXPECT_EQ(window_of(length, 3, length / 3), 1u);
}

TEST(Exchange, OfNothingMovesNothing) {
  EXPECT_EQ(Exchange{}.shift_at(DC_SAMPLER_EPOCH_MAX, DC_SAMPLER_LENGTH_MAX, 3), 0u);
  EXPECT_EQ((Exchange{1'000'000, 0, 0}.shift_at(9, 0, 3)), 0u);
}

TEST(Exchange, MovesAFractionOfAWindowAnEpoch) {
  const Exchange exchange{100'000, 5, 7};  // a tenth
  EXPECT_EQ(exchange.shift_at(5, 1000, 4), 7u);
  EXPECT_EQ(exchange.shift_at(6, 1000, 4), 32u);
  EXPECT_EQ(exchange.shift_at(7, 1000, 4), 57u);
  EXPECT_EQ(exchange.shift_at(45, 1000, 4), 7u) << "round the ring";
}

TEST(Exchange, HoldsWithoutOverflow) {
  const Exchange everything{1'000'000, 0, 0};
  constexpr uint64_t length = DC_SAMPLER_LENGTH_MAX;
  EXPECT_EQ(everything.shift_at(DC_SAMPLER_EPOCH_MAX, length, 2), length / 2) << "an odd number of half rings";
  EXPECT_EQ(everything.shift_at(DC_SAMPLER_EPOCH_MAX - 1, length, 2), 0u);
}

}  // namespace
}  // namespace ddpcache
