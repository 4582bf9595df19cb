// Every argument out of place is its documented error, says what was given, and changes nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "sampler_fixture.hpp"

namespace ddpcache {
namespace {

using Change = std::function<void(dc_sampler_options &)>;

void expect_refused(int32_t status, const std::string &message, const Change &change) {
  dc_sampler_options options = default_options();
  options.length = 10;
  change(options);
  dc_sampler *sampler = nullptr;
  dc_error error = {};
  EXPECT_EQ(dc_sampler_open(&options, &sampler, &error), status) << message;
  EXPECT_EQ(error.status, status);
  EXPECT_EQ(std::string(error.message), message);
  EXPECT_EQ(sampler, nullptr);
  EXPECT_EQ(dc_sampler_open(&options, &sampler, nullptr), status) << "without a record";
}

TEST(SamplerOpen, RefusesValuesOutsideTheirRange) {
  expect_refused(DC_ERROR_ARGUMENT, "order 3 is none of dc_order", [](auto &o) { o.order = 3; });
  expect_refused(DC_ERROR_ARGUMENT, "order -1 is none of dc_order", [](auto &o) { o.order = -1; });
  expect_refused(DC_ERROR_ARGUMENT, "tail 3 is none of dc_tail", [](auto &o) { o.tail = 3; });
  expect_refused(DC_ERROR_ARGUMENT, "shuffle is 2 and ring_identity 0; both are 0 or 1",
                 [](auto &o) { o.shuffle = 2; });
  expect_refused(DC_ERROR_ARGUMENT, "shuffle is 1 and ring_identity 9; both are 0 or 1",
                 [](auto &o) { o.ring_identity = 9; });
  expect_refused(DC_ERROR_RANGE, "length -1 is outside 0..4611686018427387904", [](auto &o) { o.length = -1; });
  expect_refused(DC_ERROR_RANGE, "length 4611686018427387905 is outside 0..4611686018427387904",
                 [](auto &o) { o.length = DC_SAMPLER_LENGTH_MAX + 1; });
  expect_refused(DC_ERROR_RANGE, "node 2 is outside 0..1", [](auto &o) { o.nodes = o.node = 2; });
  expect_refused(DC_ERROR_RANGE, "local_rank 4 is outside 0..3", [](auto &o) { o.local_size = o.local_rank = 4; });
  expect_refused(DC_ERROR_RANGE, "0 nodes of 1 ranks each make 0 ranks, outside 1..16777216",
                 [](auto &o) { o.nodes = 0; });
  expect_refused(DC_ERROR_RANGE, "1 nodes of 0 ranks each make 0 ranks, outside 1..16777216",
                 [](auto &o) { o.local_size = 0; });
  expect_refused(DC_ERROR_RANGE,
                 "4294967295 nodes of 4294967295 ranks each make 18446744065119617025 ranks, outside "
                 "1..16777216",
                 [](auto &o) { o.nodes = o.local_size = 4294967295; });
}

TEST(SamplerOpen, RefusesOptionsThatContradictEachOther) {
  expect_refused(DC_ERROR_ARGUMENT, "the tail EXACT goes with the order NODE only, not with TORCH", [](auto &o) {
    o.order = DC_ORDER_TORCH;
    o.tail = DC_TAIL_EXACT;
  });
  expect_refused(DC_ERROR_ARGUMENT, "the tail EXACT goes with the order NODE only, not with VISCY", [](auto &o) {
    o.order = DC_ORDER_VISCY;
    o.tail = DC_TAIL_EXACT;
  });
  expect_refused(DC_ERROR_EMPTY, "the tail DROP leaves nothing of 10 samples for 12 ranks", [](auto &o) {
    o.tail = DC_TAIL_DROP;
    o.nodes = 3;
    o.local_size = 4;
  });
}

TEST(SamplerOpen, RefusesWindowsThatCannotBe) {
  expect_refused(DC_ERROR_RANGE, "exchange_ppm 1000001 is outside 0..1000000",
                 [](auto &o) { o.exchange_ppm = 1'000'001; });
  expect_refused(DC_ERROR_ARGUMENT, "canonical_nodes 8 is no multiple of 3 nodes", [](auto &o) {
    o.canonical_nodes = 8;
    o.nodes = 3;
  });
  expect_refused(DC_ERROR_ARGUMENT, "canonical_nodes 2 is no multiple of 4 nodes", [](auto &o) {
    o.canonical_nodes = 2;
    o.nodes = 4;
  });
  expect_refused(DC_ERROR_RANGE, "canonical_nodes 2050 is more than 1024 times 2 nodes", [](auto &o) {
    o.canonical_nodes = 2050;
    o.nodes = 2;
  });
  for (int32_t order : {DC_ORDER_TORCH, DC_ORDER_VISCY}) {
    const std::string end = ", which go with the order NODE only";
    expect_refused(DC_ERROR_ARGUMENT, "exchange_ppm is 1 and canonical_nodes 0" + end, [&](auto &o) {
      o.order = order;
      o.exchange_ppm = 1;
    });
    expect_refused(DC_ERROR_ARGUMENT, "exchange_ppm is 0 and canonical_nodes 1" + end, [&](auto &o) {
      o.order = order;
      o.canonical_nodes = 1;
    });
  }
}

TEST(SamplerOpen, RefusesWhatALaterVersionMayAllow) {
  expect_refused(DC_ERROR_UNSUPPORTED, "reserved is 1; this version of ddpcache supports only 0",
                 [](auto &o) { o.reserved = 1; });
}

TEST(SamplerOpen, RefusesNullAndImpossibleSizes) {
  dc_sampler_options options = default_options();
  dc_sampler *sampler = nullptr;
  dc_error error;
  EXPECT_EQ(dc_sampler_open(nullptr, &sampler, &error), DC_ERROR_ARGUMENT);
  EXPECT_STREQ(error.message, "options is NULL");
  EXPECT_EQ(dc_sampler_open(&options, nullptr, &error), DC_ERROR_ARGUMENT);
  EXPECT_STREQ(error.message, "sampler is NULL");
  for (uint32_t size : {0u, 8u, uint32_t{sizeof options} - 1, 4097u, 4294967295u}) {
    options.struct_size = size;
    EXPECT_EQ(dc_sampler_open(&options, &sampler, &error), DC_ERROR_ARGUMENT) << size;
    EXPECT_EQ(std::string(error.message), "struct_size is " + std::to_string(size) + ", outside 72..4096");
    EXPECT_EQ(dc_sampler_options_init(&options, size), DC_ERROR_ARGUMENT) << size;
  }
  EXPECT_EQ(dc_sampler_options_init(nullptr, sizeof options), DC_ERROR_ARGUMENT);
  EXPECT_EQ(sampler, nullptr);
  dc_sampler_close(nullptr);
}

TEST(SamplerOpen, TakesALargerStructOfALaterVersionUnlessItAsksForMore) {
  struct Later {
    dc_sampler_options known;
    uint64_t more[2];
  } later;
  std::memset(&later, 0xFF, sizeof later);
  ASSERT_EQ(dc_sampler_options_init(&later.known, sizeof later), DC_OK);
  EXPECT_EQ(later.more[0] | later.more[1], 0u);
  later.known.length = 10;
  dc_sampler *sampler = nullptr;
  ASSERT_EQ(dc_sampler_open(&later.known, &sampler, nullptr), DC_OK);
  dc_sampler_close(sampler);
  sampler = nullptr;
  later.more[1] = 1;
  dc_error error;
  EXPECT_EQ(dc_sampler_open(&later.known, &sampler, &error), DC_ERROR_UNSUPPORTED);
  EXPECT_STREQ(error.message, "byte 80 of the options is set, of which this version knows 72 bytes");
  EXPECT_EQ(sampler, nullptr);
}

TEST(SamplerCalls, RefuseNull) {
  dc_sampler_options options = default_options();
  options.length = 10;
  OpenSampler open(options);
  dc_sampler *sampler = open.handle();
  int64_t number = 0;
  uint32_t rank = 0;
  EXPECT_EQ(dc_sampler_set_epoch(nullptr, 0, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_sampler_next(nullptr, &number), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_sampler_next(sampler, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_sampler_tell(nullptr, &number, &number), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_sampler_tell(sampler, nullptr, nullptr), DC_OK);
  EXPECT_EQ(dc_sampler_seek(nullptr, 0, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_sampler_size(nullptr, &number), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_sampler_size(sampler, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_sampler_real_size(nullptr, &number, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_sampler_real_size(sampler, nullptr, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_sampler_read(nullptr, 0, &number, 1, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_sampler_read(sampler, 0, nullptr, 1, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_sampler_read(sampler, 10, nullptr, 0, nullptr), DC_OK);
  EXPECT_EQ(dc_sampler_find(nullptr, 0, &rank, &number, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_sampler_find(sampler, 0, nullptr, &number, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_sampler_find(sampler, 0, &rank, nullptr, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_sampler_shard_size(nullptr, &number), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_sampler_shard_size(sampler, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_sampler_shard_read(nullptr, 0, &number, 1, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_sampler_shard_read(sampler, 0, nullptr, 1, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_sampler_keeps(nullptr, 0), DC_ERROR_ARGUMENT);
  uint8_t byte = 0;
  uint64_t needed = 0;
  EXPECT_EQ(dc_sampler_state_save(nullptr, 0, &byte, 1, &needed, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_sampler_state_save(sampler, 0, nullptr, 1, &needed, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_sampler_state_load(nullptr, &byte, 1, nullptr), DC_ERROR_ARGUMENT);
  EXPECT_EQ(dc_sampler_state_load(sampler, nullptr, 0, nullptr), DC_ERROR_ARGUMENT);
}

TEST(SamplerCalls, RefuseWhatIsOutOfRangeAndChangeNothing) {
  for (int32_t order : {DC_ORDER_NODE, DC_ORDER_TORCH, DC_ORDER_VISCY}) {
    dc_sampler_options options = default_options();
    options.length = 10;
    options.order = order;
    OpenSampler open(options);
    dc_sampler *sampler = open.handle();
    open.set_epoch(4);
    ASSERT_EQ(dc_sampler_seek(sampler, 3, nullptr), DC_OK);
    dc_error error;
    std::vector<int64_t> out(11, -5);

    EXPECT_EQ(dc_sampler_set_epoch(sampler, -1, &error), DC_ERROR_RANGE);
    EXPECT_STREQ(error.message, "epoch -1 is outside 0..1099511627775");
    EXPECT_EQ(dc_sampler_set_epoch(sampler, DC_SAMPLER_EPOCH_MAX + 1, &error), DC_ERROR_RANGE);
    EXPECT_EQ(dc_sampler_seek(sampler, 11, &error), DC_ERROR_RANGE);
    EXPECT_STREQ(error.message, "position 11 is outside 0..10");
    EXPECT_EQ(dc_sampler_seek(sampler, -1, &error), DC_ERROR_RANGE);
    for (auto *read : {&dc_sampler_read, &dc_sampler_shard_read}) {
      EXPECT_EQ(read(sampler, -1, out.data(), 1, &error), DC_ERROR_RANGE);
      EXPECT_EQ(read(sampler, 11, out.data(), 0, &error), DC_ERROR_RANGE);
      EXPECT_EQ(read(sampler, 0, out.data(), -1, &error), DC_ERROR_RANGE);
      EXPECT_EQ(read(sampler, 4, out.data(), 7, &error), DC_ERROR_RANGE);
      EXPECT_STREQ(error.message, "count 7 is outside 0..6 (position 4 of 10)");
      EXPECT_EQ(read(sampler, 4, out.data(), INT64_MAX, &error), DC_ERROR_RANGE);
    }
    uint32_t rank = 77;
    EXPECT_EQ(dc_sampler_find(sampler, 10, &rank, out.data(), &error), DC_ERROR_RANGE);
    EXPECT_STREQ(error.message, "index 10 is outside the data set of 10 samples");
    EXPECT_EQ(dc_sampler_find(sampler, -1, &rank, out.data(), &error), DC_ERROR_RANGE);
    EXPECT_EQ(rank, 77u);
    EXPECT_EQ(dc_sampler_keeps(sampler, 10), DC_ERROR_RANGE);
    EXPECT_EQ(dc_sampler_keeps(sampler, -1), DC_ERROR_RANGE);
    uint8_t state[DC_SAMPLER_STATE_BYTES_MAX];
    EXPECT_EQ(dc_sampler_state_save(sampler, -1, state, sizeof state, nullptr, &error), DC_ERROR_RANGE);
    EXPECT_EQ(dc_sampler_state_save(sampler, 11, state, sizeof state, nullptr, &error), DC_ERROR_RANGE);
    EXPECT_STREQ(error.message, "consumed 11 is outside 0..10");
    EXPECT_EQ(dc_sampler_state_load(sampler, state, 0, &error), DC_ERROR_SAMPLER_STATE);
    EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](int64_t value) { return value == -5; }));

    int64_t epoch = -1, position = -1;
    ASSERT_EQ(dc_sampler_tell(sampler, &epoch, &position), DC_OK);
    EXPECT_EQ(epoch, 4);
    EXPECT_EQ(position, 3);
  }
}

}  // namespace
}  // namespace ddpcache
