// The permutation is one: for every length, in both directions, by every route, and the same for ever.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "ddpcache/sampler.h"
#include "hash.hpp"
#include "permutation.hpp"

namespace ddpcache {
namespace {

std::vector<uint64_t> order_of(const Permutation &permutation) {
  std::vector<uint64_t> order(permutation.length());
  permutation.read(0, order.data(), order.size());
  return order;
}

void expect_bijection(uint64_t length) {
  const Permutation permutation({length, 5, 7, 0, DC_PURPOSE_USER});
  const std::vector<uint64_t> order = order_of(permutation);
  std::vector<bool> seen(length);
  for (uint64_t position = 0; position < length; ++position) {
    ASSERT_LT(order[position], length) << "length " << length;
    ASSERT_FALSE(seen[order[position]]) << "length " << length << " has " << order[position] << " twice";
    seen[order[position]] = true;
    ASSERT_EQ(permutation.at(position), order[position]) << "length " << length;
    ASSERT_EQ(permutation.inverse(order[position]), position) << "length " << length;
  }
}

TEST(Permutation, IsABijectionOfEveryShortLength) {
  for (uint64_t length = 0; length <= 400; ++length) expect_bijection(length);
}

TEST(Permutation, IsABijectionWhereItsMethodChangesAndAtPowersOfTwo) {
  for (uint64_t middle : {4096u, 8192u, 16384u, 65536u, 262144u, 1u << 20}) {
    for (uint64_t length : {middle - 1, middle, middle + 1}) expect_bijection(length);
  }
  for (uint64_t length : {4160u, 10007u, 50000u, 123457u, 3u << 18}) expect_bijection(length);
}

TEST(Permutation, InvertsAndKeepsInsideLengthsThatNoMemoryHolds) {
  std::mt19937_64 random(1);
  for (uint64_t length : {(uint64_t{1} << 23) + 1, uint64_t{1} << 30, (uint64_t{1} << 30) + 1, uint64_t{1} << 32,
                          uint64_t{1} << 40, (uint64_t{1} << 61) + 1, uint64_t{DC_SAMPLER_LENGTH_MAX}}) {
    const Permutation permutation({length, 1, 2, 3, DC_PURPOSE_USER});
    std::vector<uint64_t> positions(1000);
    for (uint64_t &position : positions) position = random() % length;
    positions[0] = 0;
    positions[1] = length - 1;
    std::vector<uint64_t> indices = positions;
    permutation.permute(indices.data(), indices.size());
    for (size_t i = 0; i < positions.size(); ++i) {
      ASSERT_LT(indices[i], length);
      ASSERT_EQ(permutation.at(positions[i]), indices[i]) << "length " << length;
      ASSERT_EQ(permutation.inverse(indices[i]), positions[i]) << "length " << length;
    }
  }
}

TEST(Permutation, ReadsTheSameWhateverThePageSize) {
  for (uint64_t length : {3000u, 5000u, 70001u}) {
    const Permutation permutation({length, 9, 0, 0, DC_PURPOSE_USER});
    const std::vector<uint64_t> whole = order_of(permutation);
    for (uint64_t page : {1u, 7u, 16u, 17u, 127u, 128u, 129u, 1000u, 1025u}) {
      std::vector<uint64_t> pages(length);
      for (uint64_t position = 0; position < length; position += page) {
        permutation.read(position, pages.data() + position, std::min(page, length - position));
      }
      ASSERT_EQ(pages, whole) << "pages of " << page;
    }
  }
}

template <typename Network>
void expect_kernels_agree(uint64_t length, void (*FeistelKernel::*kernel)(const Network &, uint64_t *, size_t)) {
  KeyStream keys({length, 3, 1, 4, DC_PURPOSE_USER});
  const Network network(length, keys);
  const FeistelKernels kernels = feistel_kernels();
  constexpr size_t blocks = 20;
  std::vector<uint64_t> positions(blocks * Network::block_size);
  std::mt19937_64 random(2);
  for (uint64_t &position : positions) position = random() % length;
  for (size_t k = 0; k < kernels.count; ++k) {
    std::vector<uint64_t> words = positions;
    (kernels.first[k].*kernel)(network, words.data(), blocks);
    for (size_t i = 0; i < words.size(); ++i) {
      ASSERT_EQ(words[i], network.at(positions[i])) << kernels.first[k].name << ", length " << length;
    }
  }
}

TEST(Permutation, IsTheSameOnEveryInstructionSet) {
  for (uint64_t length : {4097u, 8191u, 10007u, (1u << 23) + 1, 1u << 30}) {
    expect_kernels_agree<NarrowFeistel>(length, &FeistelKernel::narrow);
  }
  for (uint64_t length : {uint64_t{4097}, (uint64_t{1} << 30) + 1, (uint64_t{1} << 33) + 12345, uint64_t{1} << 62}) {
    expect_kernels_agree<WideFeistel>(length, &FeistelKernel::wide);
  }
}

// What algorithm version 1 deals. Where one of these changes, DC_SAMPLER_ALGORITHM_VERSION must change too.
TEST(Permutation, DealsWhatAlgorithmVersionOneDeals) {
  static_assert(DC_SAMPLER_ALGORITHM_VERSION == 1);
  const std::vector<uint64_t> ten = {8, 6, 0, 7, 3, 5, 2, 4, 1, 9};
  EXPECT_EQ(order_of(Permutation({10, 0, 0, 0, DC_PURPOSE_RING})), ten);
  const auto fingerprint = [](uint64_t length) {
    const std::vector<uint64_t> order = order_of(Permutation({length, 42, 3, 1, DC_PURPOSE_INNER}));
    return hash64(order.data(), order.size() * sizeof order[0]);
  };
  EXPECT_EQ(fingerprint(4096), 16672992685676988333u);
  EXPECT_EQ(fingerprint(4097), 8033339473782236391u);
  EXPECT_EQ(fingerprint(1000003), 6979673880130912199u);
  EXPECT_EQ(Permutation({uint64_t{1} << 40, 42, 3, 1, DC_PURPOSE_INNER}).at(123456789), 546799820318u);
}

TEST(Permutation, SharesNoOrderBetweenKeysOfEqualSum) {
  for (uint64_t length : {64u, 5000u}) {
    std::set<std::vector<uint64_t>> orders;
    size_t keys = 0;
    for (uint64_t seed = 0; seed < 8; ++seed) {
      for (uint64_t epoch = 0; epoch < 8; ++epoch) {
        for (uint64_t window = 0; window < 2; ++window) {
          for (uint64_t purpose : {DC_PURPOSE_RING, DC_PURPOSE_INNER, DC_PURPOSE_USER}) {
            orders.insert(order_of(Permutation({length, seed, epoch, window, purpose})));
            ++keys;
          }
        }
      }
    }
    EXPECT_EQ(orders.size(), keys);
  }
}

TEST(PermutationInterface, WorksByItself) {
  dc_permutation *permutation = nullptr;
  ASSERT_EQ(dc_permutation_open(5000, 1, 2, 3, DC_PURPOSE_USER, &permutation, nullptr), DC_OK);
  std::vector<int64_t> order(5000);
  ASSERT_EQ(dc_permutation_batch(permutation, 0, order.data(), 5000), DC_OK);
  int64_t index = -1, position = -1;
  EXPECT_EQ(dc_permutation_at(permutation, 4999, &index), DC_OK);
  EXPECT_EQ(index, order[4999]);
  EXPECT_EQ(dc_permutation_inverse(permutation, index, &position), DC_OK);
  EXPECT_EQ(position, 4999);
  EXPECT_EQ(dc_permutation_batch(permutation, 5000, nullptr, 0), DC_OK);
  dc_permutation_close(permutation);
}

TEST(PermutationInterface, RefusesBadArgumentsAndChangesNothing) {
  dc_permutation *permutation = nullptr;
  dc_error error;
  const auto open = [&](int64_t length, int64_t epoch, int32_t purpose) {
    return dc_permutation_open(length, 0, epoch, 0, purpose, &permutation, &error);
  };
  EXPECT_EQ(open(-1, 0, DC_PURPOSE_USER), DC_ERROR_RANGE);
  EXPECT_STREQ(error.message, "length -1 is outside 0..4611686018427387904");
  EXPECT_EQ(open(DC_SAMPLER_LENGTH_MAX + 1, 0, DC_PURPOSE_USER), DC_ERROR_RANGE);
  EXPECT_EQ(open(1, -1, DC_PURPOSE_USER), DC_ERROR_RANGE);
  EXPECT_STREQ(error.message, "epoch -1 is outside 0..1099511627775");
  EXPECT_EQ(open(1, DC_SAMPLER_EPOCH_MAX + 1, DC_PURPOSE_USER), DC_ERROR_RANGE);
  EXPECT_EQ(open(1, 0, 0), DC_ERROR_ARGUMENT);
  EXPECT_STREQ(error.message, "purpose 0 is none of dc_purpose");
  EXPECT_EQ(open(1, 0, 4), DC_ERROR_ARGUMENT);
  EXPECT_EQ(permutation, nullptr);
  EXPECT_EQ(dc_permutation_open(1, 0, 0, 0, DC_PURPOSE_USER, nullptr, &error), DC_ERROR_ARGUMENT);
  EXPECT_STREQ(error.message, "permutation is NULL");

  ASSERT_EQ(open(10, 0, DC_PURPOSE_USER), DC_OK);
  int64_t out[10];
  std::fill_n(out, 10, 77);
  EXPECT_EQ(dc_permutation_at(nullptr, 0, out), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_permutation_at(permutation, 0, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_permutation_at(permutation, -1, out), DC_ERROR_RANGE);
  EXPECT_EQ(dc_permutation_at(permutation, 10, out), DC_ERROR_RANGE);
  EXPECT_EQ(dc_permutation_inverse(nullptr, 0, out), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_permutation_inverse(permutation, 0, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_permutation_inverse(permutation, -1, out), DC_ERROR_RANGE);
  EXPECT_EQ(dc_permutation_inverse(permutation, 10, out), DC_ERROR_RANGE);
  EXPECT_EQ(dc_permutation_batch(nullptr, 0, out, 1), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_permutation_batch(permutation, 0, nullptr, 1), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_permutation_batch(permutation, -1, out, 1), DC_ERROR_RANGE);
  EXPECT_EQ(dc_permutation_batch(permutation, 11, out, 0), DC_ERROR_RANGE);
  EXPECT_EQ(dc_permutation_batch(permutation, 0, out, -1), DC_ERROR_RANGE);
  EXPECT_EQ(dc_permutation_batch(permutation, 5, out, 6), DC_ERROR_RANGE);
  EXPECT_TRUE(std::all_of(out, out + 10, [](int64_t value) { return value == 77; }));
  dc_permutation_close(permutation);
  dc_permutation_close(nullptr);
}

}  // namespace
}  // namespace ddpcache
