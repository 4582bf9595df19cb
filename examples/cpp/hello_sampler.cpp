// hello_sampler: how the samples of a data set are dealt to two machines of two ranks each, over three epochs.
//
// Each rank's process would open only its own sampler; this program opens all four to show them side by side. Watch that
// a machine's samples stay the same while their order changes: what it cached in epoch 0 it reads again in epoch 1.
//
//     c++ -std=c++17 hello_sampler.cpp $(pkg-config --cflags --libs ddpcache) -o hello_sampler
#include <ddpcache/ddpcache.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace {

constexpr int64_t kLength = 18, kEpochs = 3;
constexpr uint32_t kNodes = 2, kRanksPerNode = 2;

struct Close {
  void operator()(dc_sampler *sampler) const { dc_sampler_close(sampler); }
};
using Sampler = std::unique_ptr<dc_sampler, Close>;

void check(int32_t status, const dc_error &error) {
  if (status != DC_OK) throw std::runtime_error(error.message);
}

Sampler open_sampler(uint32_t node, uint32_t local_rank) {
  dc_sampler_options options;
  dc_sampler_options_init(&options, sizeof options);
  options.length = kLength;
  options.seed = 7;
  options.node = node;
  options.nodes = kNodes;
  options.local_rank = local_rank;
  options.local_size = kRanksPerNode;

  dc_error error;
  dc_sampler *sampler = nullptr;
  check(dc_sampler_open(&options, &sampler, &error), error);
  return Sampler(sampler);
}

// All indices of an epoch at once, as a batch sampler reads them, and how many of them are no repeats.
std::pair<std::vector<int64_t>, int64_t> read_epoch(dc_sampler *sampler, int64_t epoch) {
  dc_error error;
  int64_t size = 0, real_size = 0;
  check(dc_sampler_set_epoch(sampler, epoch, &error), error);
  check(dc_sampler_real_size(sampler, &real_size, &error), error);
  dc_sampler_size(sampler, &size);

  std::vector<int64_t> indices(static_cast<size_t>(size));
  check(dc_sampler_read(sampler, 0, indices.data(), size, &error), error);
  return {indices, real_size};
}

void show(int64_t epoch, uint32_t rank, dc_sampler *sampler) {
  const auto [indices, real_size] = read_epoch(sampler, epoch);
  std::printf("epoch %d  node %u  rank %u:", int(epoch), rank / kRanksPerNode, rank % kRanksPerNode);
  for (int64_t position = 0; position < int64_t(indices.size()); ++position) {
    // Beyond real_size there are repeats, which give every rank the same number of samples.
    std::printf(position < real_size ? " %2d" : " (%d)", int(indices[size_t(position)]));
  }
  std::printf("\n");
}

}  // namespace

int main() try {
  std::vector<Sampler> samplers;
  for (uint32_t rank = 0; rank < kNodes * kRanksPerNode; ++rank) {
    samplers.push_back(open_sampler(rank / kRanksPerNode, rank % kRanksPerNode));
  }
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (uint32_t rank = 0; rank < samplers.size(); ++rank) show(epoch, rank, samplers[rank].get());
  }
  return 0;
} catch (const std::exception &reason) {
  std::cerr << reason.what() << "\n";
  return 1;
}
