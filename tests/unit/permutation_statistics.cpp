// The permutation looks random: by statistics that a network of too few rounds fails. Keys are fixed, so results are
// too.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "ddpcache/sampler.h"
#include "permutation.hpp"
#include "permutation_evidence.hpp"

namespace ddpcache {
namespace {

// Of 37 scores in each of some twenty cases one lies this far out by chance once in 10,000 such suites.
constexpr double score_max = 5.3;

// The rank of an order among all orders of its length.
size_t number_of(const std::vector<uint64_t> &order) {
  size_t number = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto smaller = std::count_if(order.begin() + i, order.end(), [&](uint64_t x) { return x < order[i]; });
    number = number * (order.size() - i) + static_cast<size_t>(smaller);
  }
  return number;
}

TEST(PermutationStatistics, AllOrdersOfAFewAreEquallyLikely) {
  constexpr uint64_t keys = 1'000'000;
  for (uint64_t length = 2; length <= 6; ++length) {
    size_t orders = 1;
    for (size_t i = 2; i <= length; ++i) orders *= i;
    std::vector<double> counts(orders);
    std::vector<uint64_t> order(length);
    for (uint64_t key = 0; key < keys; ++key) {
      // Seeds, epochs and windows that lie close together, as users choose them.
      Permutation({length, key / 1000, key % 1000 / 4, key % 4, DC_PURPOSE_INNER}).read(0, order.data(), length);
      ++counts[number_of(order)];
    }
    const double expected = static_cast<double>(keys) / static_cast<double>(orders);
    double sum = 0;
    for (double count : counts) sum += (count - expected) * (count - expected) / expected;
    EXPECT_LT(std::abs(evidence::score_of_chi_squared(sum, static_cast<double>(orders) - 1)), score_max)
        << "length " << length << ", chi-squared " << sum << " of " << orders - 1;
  }
}

uint32_t low_size(uint32_t length) { return 1u << std::bit_width(length - 1) / 2; }

void expect_random(uint32_t length, uint64_t keys, const char *what, const evidence::Draw &draw) {
  const auto [score, name] = evidence::worst(evidence::collect(length, keys, low_size(length), draw));
  EXPECT_LT(score, score_max) << length << " samples, " << keys << " neighbouring " << what << ": " << name;
}

evidence::Order order_of(const PermutationKey &key) {
  std::vector<uint64_t> words(key.length);
  Permutation(key).read(0, words.data(), words.size());
  return evidence::Order(words.begin(), words.end());
}

void expect_random_by_every_part_of_the_key(uint32_t length, uint64_t keys) {
  expect_random(length, keys, "epochs", [&](uint64_t k) { return order_of({length, 7, k, 2, DC_PURPOSE_INNER}); });
  expect_random(length, keys, "seeds", [&](uint64_t k) { return order_of({length, k, 3, 2, DC_PURPOSE_INNER}); });
  expect_random(length, keys, "windows", [&](uint64_t k) { return order_of({length, 7, 3, k, DC_PURPOSE_INNER}); });
}

TEST(PermutationStatistics, TheTableLooksRandom) {
  expect_random_by_every_part_of_the_key(1000, 4000);
  expect_random_by_every_part_of_the_key(4096, 1000);
}

TEST(PermutationStatistics, TheNetworkLooksRandomFromItsShortestLengthOn) {
  expect_random_by_every_part_of_the_key(4097, 6000);
  expect_random_by_every_part_of_the_key(8192, 1500);
}

TEST(PermutationStatistics, TheNetworkLooksRandomAtUsualLengths) {
  expect_random_by_every_part_of_the_key(10007, 1000);
  expect_random_by_every_part_of_the_key(60000, 200);
  expect_random_by_every_part_of_the_key((1u << 20) + 1, 6);
}

template <typename Half, int Rounds>
std::pair<double, std::string> worst_of_network(uint32_t length, uint64_t keys) {
  return evidence::worst(evidence::collect(length, keys, low_size(length), [&](uint64_t key) {
    KeyStream stream({length, 7, key, 2, DC_PURPOSE_INNER});
    const Feistel<Half, Rounds> network(length, stream);
    evidence::Order order(length);
    for (uint32_t i = 0; i < length; ++i) order[i] = static_cast<uint32_t>(network.at(i));
    return order;
  }));
}

// The wide network is for lengths whose orders no test can hold; it is the same network in larger words.
TEST(PermutationStatistics, TheWideNetworkLooksRandomToo) {
  const auto [score, name] = worst_of_network<uint32_t, feistel_rounds>(4097, 6000);
  EXPECT_LT(score, score_max) << name;
}

// If these passed, the tests above would show nothing.
TEST(PermutationStatistics, TheyCatchANetworkOfTooFewRounds) {
  EXPECT_GT((worst_of_network<uint16_t, 2>(4097, 200).first), 100);
  EXPECT_GT((worst_of_network<uint16_t, 3>(4097, 200).first), 100);
  EXPECT_GT((worst_of_network<uint32_t, 3>(4097, 200).first), 100);
  EXPECT_GT((worst_of_network<uint16_t, 3>(65537, 20).first), 100);
  EXPECT_GT((worst_of_network<uint16_t, 4>(4097, 200).first), 20);
  EXPECT_GT((worst_of_network<uint16_t, 5>(4097, 6000).first), 20);
}

// What the caveat of a bounded table is about: a short network fails at lengths for which the table is used.
TEST(PermutationStatistics, TheyCatchTheNetworkWhereTheTableIsUsed) {
  EXPECT_GT((worst_of_network<uint16_t, feistel_rounds>(16, 100000).first), score_max);
}

}  // namespace
}  // namespace ddpcache
