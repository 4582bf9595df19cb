// Epochs that are stopped and resumed under other layouts: nothing is repeated and nothing lost.
// That each place is the model's is proved by tests/model; here are what it comes to, and sizes beyond the model's
// reach.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "sampler_fixture.hpp"

namespace ddpcache {
namespace {

using Indices = std::vector<int64_t>;
using State = std::vector<uint8_t>;

dc_sampler_options laid_out(dc_sampler_options options, uint32_t nodes, uint32_t local_size) {
  options.nodes = nodes;
  options.local_size = local_size;
  options.node = options.local_rank = 0;
  return options;
}

// All ranks of a layout in the rest of a saved epoch.
std::vector<OpenSampler> resume_all(const dc_sampler_options &options, const State &state) {
  std::vector<OpenSampler> samplers = open_all(options);
  for (OpenSampler &sampler : samplers) sampler.load(state);
  return samplers;
}

// Trains each rank on `count` samples, of which those that are no repeats must be new.
void train(const std::vector<OpenSampler> &samplers, int64_t count, std::set<int64_t> &seen) {
  for (const OpenSampler &sampler : samplers) {
    for (int64_t index : sampler.read(0, std::min(count, sampler.real_size()))) {
      ASSERT_TRUE(seen.insert(index).second) << index << " comes twice";
    }
  }
}

TEST(SamplerResume, SixteenLayoutsShareAnEpochWithoutRepeatOrLoss) {
  std::mt19937 random(7);
  for (int32_t tail : {DC_TAIL_PAD, DC_TAIL_DROP, DC_TAIL_EXACT}) {
    for (int64_t length : {int64_t{20'011}, int64_t{70'001}}) {
      for (uint32_t canonical : {0u, 24u}) {
        dc_sampler_options options = default_options();
        options.length = length;
        options.tail = tail;
        options.exchange_ppm = 100'000;
        options.canonical_nodes = canonical;
        options = laid_out(options, 3, 2);
        std::vector<OpenSampler> samplers = open_all(options);
        for (OpenSampler &sampler : samplers) sampler.set_epoch(6);
        std::set<int64_t> seen;
        for (int stage = 0; stage < DC_SAMPLER_STAGES_MAX; ++stage) {
          SCOPED_TRACE("tail " + std::to_string(tail) + ", stage " + std::to_string(stage));
          const int64_t count = random() % static_cast<uint32_t>(samplers[0].size() / 6);
          train(samplers, count, seen);
          const State state = samplers[0].save(count);
          for (const OpenSampler &sampler : samplers) ASSERT_EQ(sampler.save(count), state);
          static constexpr uint32_t nodes_of[] = {1, 2, 3, 4, 6, 8};
          dc_sampler_options next = options;
          while (stage + 1 < DC_SAMPLER_STAGES_MAX && next.nodes == options.nodes &&
                 next.local_size == options.local_size) {
            next = laid_out(options, nodes_of[random() % 6], 1 + random() % 5);
          }
          options = next;
          samplers = resume_all(options, state);
          ASSERT_FALSE(HasFatalFailure());
        }
        train(samplers, samplers[0].size() + 1, seen);
        const int64_t world = static_cast<int64_t>(samplers.size());
        if (tail == DC_TAIL_DROP) {
          // Whatever the last stage's ranks cannot share stays out; real_size says what they had.
          EXPECT_GT(static_cast<int64_t>(seen.size()), length - world);
        } else {
          EXPECT_EQ(static_cast<int64_t>(seen.size()), length);
        }
      }
    }
  }
}

TEST(SamplerResume, ASeventeenthLayoutIsRefusedAndTheLastGoesOn) {
  dc_sampler_options options = default_options();
  options.length = 100'000;
  OpenSampler first(options);
  State state = first.save(10);
  for (uint32_t ranks = 2; ranks <= DC_SAMPLER_STAGES_MAX; ++ranks) {
    OpenSampler sampler(laid_out(options, 1, ranks));
    sampler.load(state);
    state = sampler.save(10);
    EXPECT_EQ(state.size(), 80u + 16u * ranks);
  }
  OpenSampler other(laid_out(options, 1, 17));
  dc_error error = {};
  EXPECT_EQ(dc_sampler_state_load(other.handle(), state.data(), state.size(), &error), DC_ERROR_SAMPLER_STATE);
  EXPECT_STREQ(error.message,
               "epoch 0 has run under 16 layouts already, which is all that a state holds: resume it under the last, 1 "
               "nodes of 16 ranks each, or begin another epoch");
  EXPECT_EQ(other.size(), 100'000 / 17 + 1);

  OpenSampler last(laid_out(options, 1, 16));
  const int64_t rest = 100'000 - 10 * (16 * 17 / 2);
  for (int64_t again = 0; again < 40; ++again) {
    last.load(state);
    ASSERT_EQ(last.size(), (rest - 16 * 7 * again + 15) / 16);
    state = last.save(7);
    ASSERT_EQ(state.size(), 80u + 16u * 16u);
  }
}

TEST(SamplerResume, UnderTheSameLayoutEachRankGoesOnWhereItWas) {
  for (int32_t order : {DC_ORDER_NODE, DC_ORDER_TORCH, DC_ORDER_VISCY}) {
    for (int32_t tail : {DC_TAIL_PAD, DC_TAIL_DROP}) {
      for (uint32_t shuffle : {0u, 1u}) {
        dc_sampler_options options = laid_out(default_options(), 2, 3);
        options.order = order;
        options.tail = tail;
        options.shuffle = shuffle;
        options.length = 6 * 500;
        std::vector<OpenSampler> samplers = open_all(options);
        for (OpenSampler &sampler : samplers) {
          sampler.set_epoch(4);
          const Indices all = sampler.read();
          sampler.load(sampler.save(123));
          EXPECT_EQ(sampler.size(), 377);
          EXPECT_EQ(sampler.read(), Indices(all.begin() + 123, all.end()));
          EXPECT_EQ(sampler.real_size(), 377);
          sampler.load(sampler.save(100));  // counted from where it was resumed
          EXPECT_EQ(sampler.read(), Indices(all.begin() + 223, all.end()));
          uint32_t rank = 0;
          int64_t position = -1;
          EXPECT_EQ(dc_sampler_find(sampler.handle(), all[222], &rank, &position, nullptr), DC_END);
          ASSERT_EQ(dc_sampler_find(sampler.handle(), all[230], &rank, &position, nullptr), DC_OK);
          EXPECT_EQ(position, 7);
          sampler.load(sampler.save(277));
          EXPECT_EQ(sampler.size(), 0);
          int64_t index = 0;
          EXPECT_EQ(dc_sampler_next(sampler.handle(), &index), DC_END);
        }
      }
    }
  }
}

TEST(SamplerResume, TheEpochJustLoadedKeepsThePositionAndAnyOtherIsWhole) {
  dc_sampler_options options = laid_out(default_options(), 2, 2);
  options.length = 1000;
  OpenSampler sampler(options);
  sampler.set_epoch(5);
  const Indices whole = sampler.read();
  const State state = sampler.save(50);
  sampler.set_epoch(0);
  sampler.load(state);

  int64_t epoch = -1, position = -1, index = -1;
  ASSERT_EQ(dc_sampler_tell(sampler.handle(), &epoch, &position), DC_OK);
  EXPECT_EQ(epoch, 5);
  EXPECT_EQ(position, 0);
  for (int64_t read = 0; read < 3; ++read) {
    sampler.set_epoch(5);
    ASSERT_EQ(dc_sampler_next(sampler.handle(), &index), DC_OK);
    EXPECT_EQ(index, whole[static_cast<size_t>(50 + read)]);
  }
  sampler.set_epoch(6);
  EXPECT_EQ(sampler.size(), 250);
  sampler.set_epoch(5);
  EXPECT_EQ(sampler.read(), whole);
}

TEST(SamplerResume, SamplesStayWithTheirNodeWhereTheNewNumberOfNodesDividesTheOld) {
  dc_sampler_options options = laid_out(default_options(), 12, 2);
  options.length = 30'000;
  OpenSampler sampler(options);
  sampler.set_epoch(3);
  const State state = sampler.save(400);
  for (uint32_t nodes : {12u, 6u, 4u, 3u, 2u, 1u, 5u}) {
    int64_t foreign = 0;
    for (const OpenSampler &resumed : resume_all(laid_out(options, nodes, 2), state)) {
      const Indices real = resumed.read(0, resumed.real_size());
      foreign += std::count_if(real.begin(), real.end(), [&](int64_t index) { return !resumed.keeps(index); });
    }
    if (nodes == 5) {
      EXPECT_GT(foreign, 0) << "windows of 12 nodes are cut by 5";
      EXPECT_LT(foreign, 30'000 / 5) << "at the ends of shares only";
    } else {
      EXPECT_EQ(foreign, 0) << nodes << " nodes";
    }
  }
}

TEST(SamplerResume, ReachesAnyPlaceOfLengthsThatNoMemoryHolds) {
  std::mt19937_64 random(3);
  for (int64_t length : {int64_t{1'000'000'000'000}, int64_t{DC_SAMPLER_LENGTH_MAX}}) {
    for (uint32_t canonical : {0u, 60u}) {
      dc_sampler_options options = laid_out(default_options(), 5, 8);
      options.length = length;
      options.canonical_nodes = canonical;
      options.exchange_ppm = 999'999;
      OpenSampler first(options);
      first.set_epoch(DC_SAMPLER_EPOCH_MAX);
      State state = first.save(length / 100);
      options = laid_out(options, 3, 7);
      OpenSampler second(options);
      second.load(state);
      state = second.save(length / 1000);
      options = laid_out(options, 4, 2);
      options.node = 1;
      options.local_rank = 1;
      OpenSampler sampler(options);
      sampler.load(state);
      for (int i = 0; i < 200; ++i) {
        const int64_t at = static_cast<int64_t>(random() % static_cast<uint64_t>(sampler.real_size() - 64));
        const Indices page = sampler.read(at, 64);
        uint32_t rank = 0;
        int64_t position = -1;
        ASSERT_EQ(dc_sampler_find(sampler.handle(), page[9], &rank, &position, nullptr), DC_OK);
        ASSERT_EQ(rank, 3u);
        ASSERT_EQ(position, at + 9);
        ASSERT_EQ(sampler.read(at + 9, 1)[0], page[9]);
      }
      // A trained sample is found nowhere.
      uint32_t rank = 99;
      int64_t position = 99;
      EXPECT_EQ(dc_sampler_find(sampler.handle(), first.read(7, 1)[0], &rank, &position, nullptr), DC_END);
      EXPECT_EQ(rank, 99u);
    }
  }
}

TEST(SamplerResume, TorchAndViscyNeedTheSameNumberOfRanksButNotOfNodes) {
  for (int32_t order : {DC_ORDER_TORCH, DC_ORDER_VISCY}) {
    dc_sampler_options options = laid_out(default_options(), 2, 2);
    options.order = order;
    options.length = 400;
    OpenSampler sampler(options);
    const Indices all = sampler.read();
    const State state = sampler.save(30);
    OpenSampler flat(laid_out(options, 1, 4));
    flat.load(state);
    EXPECT_EQ(flat.read(), Indices(all.begin() + 30, all.end()));
    OpenSampler wider(laid_out(options, 2, 4));
    dc_error error = {};
    EXPECT_EQ(dc_sampler_state_load(wider.handle(), state.data(), state.size(), &error), DC_ERROR_SAMPLER_STATE);
    EXPECT_STREQ(
        error.message,
        "the state is of 4 ranks and this is one of 8: only the order NODE resumes an epoch under another number "
        "of ranks");
    EXPECT_EQ(wider.size(), 50);
  }
}

TEST(SamplerResume, ConstCallsOfSeveralThreadsAgreeInAResumedEpoch) {
  dc_sampler_options options = laid_out(default_options(), 16, 1);
  options.length = 40'000;
  options.canonical_nodes = 32;
  OpenSampler first(options);
  const State state = first.save(1000);
  options = laid_out(options, 1, 2);
  OpenSampler one(options);
  one.load(state);
  const Indices expected = one.read();
  for (int round = 0; round < 5; ++round) {
    OpenSampler sampler(options);
    sampler.load(state);
    std::vector<Indices> read(4);
    std::vector<std::thread> threads;
    for (Indices &mine : read) threads.emplace_back([&] { mine = sampler.read(); });
    for (std::thread &thread : threads) thread.join();
    for (const Indices &mine : read) ASSERT_EQ(mine, expected);
  }
}

}  // namespace
}  // namespace ddpcache
