// hello_sampler: how the samples of a data set are dealt to two machines of two ranks each, over three epochs.
//
// Each rank's process would open only its own sampler; this program opens all four to show them side by side. Watch
// that a machine's samples stay the same while their order changes: what it cached in epoch 0 it reads again in epoch
// 1.
//
//     c++ -std=c++17 hello_sampler.cpp $(pkg-config --cflags --libs ddpcache) -o hello_sampler
#include <cstdio>
#include <ddpcache/ddpcache.hpp>
#include <exception>
#include <iostream>
#include <vector>

namespace {

constexpr std::int64_t kLength = 18, kEpochs = 3;
constexpr std::uint32_t kNodes = 2, kRanksPerNode = 2;

ddpcache::Sampler open_sampler(std::uint32_t node, std::uint32_t local_rank) {
  ddpcache::SamplerOptions options(kLength);
  options.seed = 7;
  options.node = node;
  options.nodes = kNodes;
  options.local_rank = local_rank;
  options.local_size = kRanksPerNode;
  return ddpcache::Sampler(options);
}

void print_epoch(ddpcache::Sampler &sampler, std::uint32_t rank, std::int64_t epoch) {
  sampler.set_epoch(epoch);
  std::printf("epoch %d  node %u  rank %u:", int(epoch), rank / kRanksPerNode, rank % kRanksPerNode);
  std::int64_t position = 0;
  // All indices at once, as a batch sampler reads them. Beyond real_size there are repeats, which give every rank the
  // same number of samples.
  for (std::int64_t index : sampler.read(0, sampler.size())) {
    std::printf(position++ < sampler.real_size() ? " %2d" : " (%d)", int(index));
  }
  std::printf("\n");
}

}  // namespace

int main() try {
  std::vector<ddpcache::Sampler> samplers;
  for (std::uint32_t rank = 0; rank < kNodes * kRanksPerNode; ++rank) {
    samplers.push_back(open_sampler(rank / kRanksPerNode, rank % kRanksPerNode));
  }
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (std::uint32_t rank = 0; rank < samplers.size(); ++rank) print_epoch(samplers[rank], rank, epoch);
  }
  return 0;
} catch (const std::exception &reason) {
  std::cerr << reason.what() << "\n";
  return 1;
}
