// What every order and tail promises, over all ranks, for every small case and some large ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "sampler_fixture.hpp"

namespace ddpcache {
namespace {

using Indices = std::vector<int64_t>;

std::string describe(const dc_sampler_options &options) {
  return "order " + std::to_string(options.order) + ", tail " + std::to_string(options.tail) + ", shuffle " +
         std::to_string(options.shuffle) + ", length " + std::to_string(options.length) + ", " +
         std::to_string(options.nodes) + " nodes of " + std::to_string(options.local_size);
}

bool scattered(const dc_sampler_options &options) {
  const int64_t world = int64_t{options.nodes} * options.local_size;
  return options.order == DC_ORDER_VISCY && options.shuffle && options.tail == DC_TAIL_PAD && options.length % world;
}

// Calls `check` with each of the options that make a sampler.
template <typename Check>
void for_each_small_case(Check check) {
  dc_sampler_options options = default_options();
  options.seed = 11;
  for (options.order = DC_ORDER_NODE; options.order <= DC_ORDER_VISCY; ++options.order) {
    for (options.tail = DC_TAIL_PAD; options.tail <= DC_TAIL_EXACT; ++options.tail) {
      for (options.shuffle = 0; options.shuffle <= 1; ++options.shuffle) {
        for (options.length = 0; options.length <= 14; ++options.length) {
          for (options.nodes = 1; options.nodes <= 4; ++options.nodes) {
            for (options.local_size = 1; options.local_size <= 3; ++options.local_size) {
              if (options.tail == DC_TAIL_EXACT && options.order != DC_ORDER_NODE) continue;
              const bool empty = options.length < int64_t{options.nodes} * options.local_size;
              if (options.tail == DC_TAIL_DROP && options.order == DC_ORDER_NODE && empty) continue;
              check(options);
            }
          }
        }
      }
    }
  }
}

TEST(Sampler, TailsPromiseTheSameForEveryOrder) {
  for_each_small_case([](const dc_sampler_options &options) {
    SCOPED_TRACE(describe(options));
    std::vector<OpenSampler> samplers = open_all(options);
    const int64_t length = options.length, world = static_cast<int64_t>(samplers.size());
    for (int64_t epoch : {0, 3}) {
      std::map<int64_t, int> seen;
      int64_t least = length, most = 0;
      for (OpenSampler &sampler : samplers) {
        sampler.set_epoch(epoch);
        for (int64_t index : sampler.read()) ++seen[index];
        least = std::min(least, sampler.size());
        most = std::max(most, sampler.size());
      }
      if (!seen.empty()) {
        ASSERT_GE(seen.begin()->first, 0);
        ASSERT_LT(seen.rbegin()->first, length);
      }
      const int64_t different = static_cast<int64_t>(seen.size());
      const bool repeats = std::any_of(seen.begin(), seen.end(), [](const auto &item) { return item.second > 1; });
      switch (options.tail) {
        case DC_TAIL_PAD:
          ASSERT_EQ(different, length);
          ASSERT_EQ(most, (length + world - 1) / world);
          ASSERT_EQ(least, most);
          break;
        case DC_TAIL_DROP:
          ASSERT_EQ(different, length / world * world);
          ASSERT_EQ(most, length / world);
          ASSERT_EQ(least, most);
          ASSERT_FALSE(repeats);
          break;
        default:
          ASSERT_EQ(different, length);
          ASSERT_LE(most - least, 1);
          ASSERT_FALSE(repeats);
      }
    }
  });
}

TEST(Sampler, RealSizeCutsOffExactlyTheRepeats) {
  for_each_small_case([](const dc_sampler_options &options) {
    SCOPED_TRACE(describe(options));
    Indices real, all;
    for (const OpenSampler &sampler : open_all(options)) {
      if (scattered(options)) {
        int64_t size = -1;
        dc_error error;
        ASSERT_EQ(dc_sampler_real_size(sampler.handle(), &size, &error), DC_ERROR_UNSUPPORTED);
        ASSERT_NE(std::string(error.message).find("evaluate without shuffle"), std::string::npos);
        ASSERT_EQ(size, -1);
        return;
      }
      const Indices indices = sampler.read();
      ASSERT_LE(sampler.real_size(), sampler.size());
      all.insert(all.end(), indices.begin(), indices.end());
      real.insert(real.end(), indices.begin(), indices.begin() + sampler.real_size());
    }
    std::sort(real.begin(), real.end());
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    ASSERT_EQ(real, all);
  });
}

TEST(Sampler, FindInvertsRead) {
  for_each_small_case([](const dc_sampler_options &options) {
    SCOPED_TRACE(describe(options));
    std::vector<OpenSampler> samplers = open_all(options);
    for (OpenSampler &sampler : samplers) sampler.set_epoch(2);
    std::set<int64_t> dealt;
    for (const OpenSampler &sampler : samplers) {
      for (int64_t index : sampler.read()) dealt.insert(index);
    }
    for (int64_t index = 0; index < options.length; ++index) {
      uint32_t first_rank = 0;
      int64_t first_position = -1;
      for (size_t asked = 0; asked < samplers.size(); ++asked) {
        uint32_t rank = 99;
        int64_t position = 99;
        const int32_t status = dc_sampler_find(samplers[asked].handle(), index, &rank, &position, nullptr);
        ASSERT_EQ(status, dealt.count(index) ? DC_OK : DC_END);
        if (status == DC_END) {
          ASSERT_EQ(rank, 99u);
          ASSERT_EQ(position, 99);
          continue;
        }
        ASSERT_EQ(samplers.at(rank).read(position, 1)[0], index);
        if (!scattered(options)) {
          ASSERT_LT(position, samplers.at(rank).real_size());
        }
        if (asked == 0) {
          first_rank = rank;
          first_position = position;
        }
        ASSERT_EQ(rank, first_rank) << "rank " << asked << " sees another place";
        ASSERT_EQ(position, first_position);
      }
    }
  });
}

TEST(Sampler, NextSeekAndPagesReadTheSame) {
  for_each_small_case([](const dc_sampler_options &options) {
    SCOPED_TRACE(describe(options));
    OpenSampler sampler = std::move(open_all(options).back());
    const Indices whole = sampler.read();
    const int64_t size = sampler.size();
    for (int64_t start = 0; start <= size; ++start) {
      ASSERT_EQ(dc_sampler_seek(sampler.handle(), start, nullptr), DC_OK);
      for (int64_t at = start; at < size; ++at) {
        int64_t position = -1, index = -1;
        ASSERT_EQ(dc_sampler_tell(sampler.handle(), nullptr, &position), DC_OK);
        ASSERT_EQ(position, at);
        ASSERT_EQ(dc_sampler_next(sampler.handle(), &index), DC_OK);
        ASSERT_EQ(index, whole[static_cast<size_t>(at)]);
      }
      int64_t index = -7;
      ASSERT_EQ(dc_sampler_next(sampler.handle(), &index), DC_END);
      ASSERT_EQ(index, -7);
      ASSERT_EQ(sampler.read(start, size - start), Indices(whole.begin() + start, whole.end()));
    }
  });
}

TEST(Sampler, ANodesShardIsWhatItsRanksAreDealtWhateverTheEpoch) {
  for_each_small_case([](const dc_sampler_options &options) {
    if (options.tail == DC_TAIL_PAD && options.length % (int64_t{options.nodes} * options.local_size)) return;
    SCOPED_TRACE(describe(options));
    std::vector<OpenSampler> samplers = open_all(options);
    for (uint32_t node = 0; node < options.nodes; ++node) {
      std::set<int64_t> dealt;
      for (int64_t epoch = 0; epoch < 60; ++epoch) {
        for (uint32_t j = 0; j < options.local_size; ++j) {
          OpenSampler &sampler = samplers[node * options.local_size + j];
          sampler.set_epoch(epoch);
          for (int64_t index : sampler.read()) dealt.insert(index);
        }
      }
      Indices shard = samplers[node * options.local_size].shard();
      std::sort(shard.begin(), shard.end());
      ASSERT_EQ(std::adjacent_find(shard.begin(), shard.end()), shard.end()) << "an index occurs twice";
      ASSERT_TRUE(std::includes(shard.begin(), shard.end(), dealt.begin(), dealt.end()));
      // All of it is dealt sooner or later, unless DROP leaves out the same in each epoch.
      if (options.tail != DC_TAIL_DROP || (options.shuffle && !dealt.empty())) {
        ASSERT_EQ(shard.size(), dealt.size());
      }
    }
  });
}

TEST(NodeOrder, WindowsPartitionTheDataSetAndStayWhateverLocalSizeSeedAndEpoch) {
  for (int64_t length : {13, 1000, 20011}) {
    for (uint32_t nodes : {1u, 2u, 3u, 7u}) {
      std::map<uint32_t, std::set<int64_t>> windows;
      dc_sampler_options options = default_options();
      options.length = length;
      options.nodes = nodes;
      options.tail = DC_TAIL_EXACT;
      for (options.seed = 0; options.seed < 3; ++options.seed) {
        for (options.local_size = 1; options.local_size <= 4; ++options.local_size) {
          std::vector<OpenSampler> samplers = open_all(options);
          for (int64_t epoch : {0, 1, 50}) {
            for (uint32_t node = 0; node < nodes; ++node) {
              std::set<int64_t> held;
              for (uint32_t j = 0; j < options.local_size; ++j) {
                OpenSampler &sampler = samplers[node * options.local_size + j];
                sampler.set_epoch(epoch);
                const Indices indices = sampler.read();
                held.insert(indices.begin(), indices.end());
              }
              ASSERT_EQ(windows.emplace(node, held).first->second, held);
            }
          }
        }
      }
      std::set<int64_t> all;
      size_t sum = 0;
      for (const auto &[node, held] : windows) {
        EXPECT_NEAR(static_cast<double>(held.size()), static_cast<double>(length) / nodes, 1);
        sum += held.size();
        all.insert(held.begin(), held.end());
      }
      ASSERT_EQ(sum, static_cast<size_t>(length));
      ASSERT_EQ(all.size(), static_cast<size_t>(length));
    }
  }
}

TEST(NodeOrder, AnotherRingSeedMovesSamplesAndAnotherSeedDoesNot) {
  dc_sampler_options options = default_options();
  options.length = 1000;
  options.nodes = 2;
  const Indices shard = OpenSampler(options).shard();
  options.seed = 1;
  EXPECT_EQ(OpenSampler(options).shard(), shard);
  options.ring_seed = 1;
  EXPECT_NE(OpenSampler(options).shard(), shard);
}

TEST(NodeOrder, ASortedDataSetIsSpreadOverTheNodes) {
  dc_sampler_options options = default_options();
  options.length = 40000;
  options.nodes = 4;
  for (options.node = 0; options.node < 4; ++options.node) {
    std::vector<int> of_class(10);
    for (int64_t index : OpenSampler(options).shard()) ++of_class[static_cast<size_t>(index / 4000)];
    // 10000 of 40000 at a class of 4000: mean 1000, standard deviation 26.
    for (int count : of_class) EXPECT_NEAR(count, 1000, 160);
  }
  options.ring_identity = 1;
  options.node = 3;
  EXPECT_EQ(OpenSampler(options).shard().front(), 30000);
}

TEST(NodeOrder, RepeatsAndOmissionsAreDrawnAnewEachEpoch) {
  dc_sampler_options options = default_options();
  options.length = 103;
  options.nodes = 2;
  options.local_size = 4;
  for (int32_t tail : {DC_TAIL_PAD, DC_TAIL_DROP}) {
    options.tail = tail;
    std::vector<OpenSampler> samplers = open_all(options);
    std::set<std::set<int64_t>> unusual;  // repeated, or left out
    constexpr int64_t epochs = 20;
    for (int64_t epoch = 0; epoch < epochs; ++epoch) {
      std::map<int64_t, int> seen;
      for (OpenSampler &sampler : samplers) {
        sampler.set_epoch(epoch);
        for (int64_t index : sampler.read()) ++seen[index];
      }
      std::set<int64_t> found;
      for (int64_t index = 0; index < options.length; ++index) {
        if (seen[index] != 1) found.insert(index);
      }
      unusual.insert(found);
    }
    // PAD repeats one of 51, so that some epochs agree by chance: some 17 of 20 differ.
    EXPECT_GE(unusual.size(), 10u) << "tail " << tail;
  }
}

TEST(NodeOrder, SeedsAndEpochsOfEqualSumShareNoOrder) {
  dc_sampler_options options = default_options();
  options.length = 100;
  std::set<Indices> orders;
  for (options.seed = 0; options.seed < 16; ++options.seed) {
    OpenSampler sampler(options);
    for (int64_t epoch = 0; epoch < 16; ++epoch) {
      sampler.set_epoch(epoch);
      orders.insert(sampler.read());
    }
  }
  EXPECT_EQ(orders.size(), 256u);
}

TEST(NodeOrder, ReachesAnyPlaceOfLengthsThatNoMemoryHolds) {
  std::mt19937_64 random(3);
  for (int64_t length : {(int64_t{1} << 31) + 11, int64_t{1} << 40, int64_t{DC_SAMPLER_LENGTH_MAX}}) {
    dc_sampler_options options = default_options();
    options.length = length;
    options.nodes = 5;
    options.node = 3;
    options.local_size = 8;
    options.local_rank = 6;
    OpenSampler sampler(options);
    sampler.set_epoch(DC_SAMPLER_EPOCH_MAX);
    EXPECT_EQ(sampler.size(), length / 40 + (length % 40 != 0));
    for (int i = 0; i < 200; ++i) {
      const int64_t position = static_cast<int64_t>(random() % static_cast<uint64_t>(sampler.real_size()));
      const int64_t index = sampler.read(position, 1)[0];
      uint32_t rank = 0;
      int64_t found = -1;
      ASSERT_EQ(dc_sampler_find(sampler.handle(), index, &rank, &found, nullptr), DC_OK);
      ASSERT_EQ(rank, 30u);
      ASSERT_EQ(found, position);
    }
    const Indices tail = sampler.read(sampler.size() - 1000, 1000);
    EXPECT_EQ(tail.back(), sampler.read(sampler.size() - 1, 1)[0]);
  }
}

TEST(NodeOrder, FindAndShardAreStreamsOfLengthsThatNoMemoryHolds) {
  for (int64_t length : {int64_t{1'000'000'000'000}, int64_t{DC_SAMPLER_LENGTH_MAX}}) {
    dc_sampler_options options = default_options();
    options.length = length;
    options.nodes = 7;
    options.local_size = 4;
    options.exchange_ppm = 300'000;
    std::vector<OpenSampler> samplers = open_all(options);
    for (uint32_t node = 0; node < options.nodes; ++node) {
      OpenSampler &sampler = samplers[node * options.local_size];
      sampler.set_epoch(9);
      int64_t size = -1;
      ASSERT_EQ(dc_sampler_shard_size(sampler.handle(), &size), DC_OK);
      for (int64_t position : {int64_t{0}, size / 3, size - 500}) {
        Indices page(500), halves(500);
        ASSERT_EQ(dc_sampler_shard_read(sampler.handle(), position, page.data(), 500, nullptr), DC_OK);
        ASSERT_EQ(dc_sampler_shard_read(sampler.handle(), position, halves.data(), 123, nullptr), DC_OK);
        ASSERT_EQ(dc_sampler_shard_read(sampler.handle(), position + 123, halves.data() + 123, 377, nullptr), DC_OK);
        ASSERT_EQ(page, halves);
        // What a node holds is dealt to its ranks, as any other node's sampler says too.
        OpenSampler &other = samplers[(node + 1) % options.nodes * options.local_size];
        other.set_epoch(9);
        for (size_t i = 0; i < page.size(); i += 50) {
          uint32_t rank = 0;
          int64_t found = -1;
          ASSERT_EQ(dc_sampler_find(other.handle(), page[i], &rank, &found, nullptr), DC_OK);
          ASSERT_EQ(rank / options.local_size, node);
          samplers[rank].set_epoch(9);
          ASSERT_EQ(samplers[rank].read(found, 1)[0], page[i]);
          ASSERT_TRUE(sampler.keeps(page[i]));
        }
      }
    }
  }
}

TEST(TorchOrder, CountsTheLow32BitsOfSeedPlusEpoch) {
  dc_sampler_options options = default_options();
  options.length = 1000;
  for (int32_t order : {DC_ORDER_TORCH, DC_ORDER_VISCY}) {
    options.order = order;
    options.seed = 5;
    const Indices expected = OpenSampler(options).read();
    for (uint64_t seed : {(uint64_t{1} << 32) + 2, ~uint64_t{0} - (uint64_t{1} << 32) + 3, uint64_t{2}}) {
      options.seed = seed;
      OpenSampler sampler(options);
      sampler.set_epoch(3);
      EXPECT_EQ(sampler.read(), expected) << "seed " << seed;
    }
  }
}

TEST(TorchOrder, ALengthThatNoMemoryHoldsIsAnErrorThatChangesNothing) {
  dc_sampler_options options = default_options();
  options.order = DC_ORDER_TORCH;
  options.length = DC_SAMPLER_LENGTH_MAX;
  OpenSampler sampler(options);
  int64_t index = -5;
  EXPECT_EQ(dc_sampler_next(sampler.handle(), &index), DC_ERROR_NO_MEMORY);
  EXPECT_EQ(dc_sampler_read(sampler.handle(), 0, &index, 1, nullptr), DC_ERROR_NO_MEMORY);
  EXPECT_EQ(index, -5);
  int64_t position = -1;
  EXPECT_EQ(dc_sampler_tell(sampler.handle(), nullptr, &position), DC_OK);
  EXPECT_EQ(position, 0);
}

TEST(Sampler, ConstCallsOfSeveralThreadsAgree) {
  for (int32_t order : {DC_ORDER_NODE, DC_ORDER_TORCH, DC_ORDER_VISCY}) {
    dc_sampler_options options = default_options();
    options.order = order;
    options.length = 20000;
    options.local_size = 2;
    const Indices expected = OpenSampler(options).read();
    for (int round = 0; round < 20; ++round) {
      OpenSampler sampler(options);
      std::vector<Indices> read(4);
      std::vector<std::thread> threads;
      for (Indices &mine : read) {
        threads.emplace_back([&] {
          mine = sampler.read();
          uint32_t rank = 0;
          int64_t position = -1;
          EXPECT_EQ(dc_sampler_find(sampler.handle(), mine[7], &rank, &position, nullptr), DC_OK);
          EXPECT_EQ(position, 7);
        });
      }
      for (std::thread &thread : threads) thread.join();
      for (const Indices &mine : read) ASSERT_EQ(mine, expected);
    }
  }
}

}  // namespace
}  // namespace ddpcache
