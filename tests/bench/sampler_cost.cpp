// What a sampler's calls cost by the length of the data set, and its order against std::shuffle.
#include <malloc.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <random>

#include "ddpcache/sampler.h"
#include "support.hpp"

namespace bench {
namespace {

class Sampler {
 public:
  Sampler(int64_t length, uint32_t nodes, uint32_t local_size) {
    dc_sampler_options options;
    dc_sampler_options_init(&options, sizeof options);
    options.length = length;
    options.nodes = nodes;
    options.local_size = local_size;
    dc_error error = {};
    require(dc_sampler_open(&options, &sampler_, &error), "dc_sampler_open", error);
    require(dc_sampler_size(sampler_, &size_), "dc_sampler_size");
  }
  ~Sampler() { dc_sampler_close(sampler_); }
  Sampler(const Sampler &) = delete;
  Sampler &operator=(const Sampler &) = delete;

  int64_t size() const { return size_; }
  void set_epoch(int64_t epoch) { require(dc_sampler_set_epoch(sampler_, epoch, nullptr), "dc_sampler_set_epoch"); }
  int64_t next_at(int64_t position) {
    int64_t index = 0;
    require(dc_sampler_seek(sampler_, position, nullptr), "dc_sampler_seek");
    require(dc_sampler_next(sampler_, &index), "dc_sampler_next");
    return index;
  }
  std::vector<uint8_t> save(int64_t consumed) const {
    std::vector<uint8_t> state(DC_SAMPLER_STATE_BYTES_MAX);
    uint64_t bytes = 0;
    require(dc_sampler_state_save(sampler_, consumed, state.data(), state.size(), &bytes, nullptr), "save");
    state.resize(bytes);
    return state;
  }
  void load(const std::vector<uint8_t> &state) {
    require(dc_sampler_state_load(sampler_, state.data(), state.size(), nullptr), "dc_sampler_state_load");
  }
  void read(int64_t position, int64_t *indices, int64_t count) const {
    require(dc_sampler_read(sampler_, position, indices, count, nullptr), "dc_sampler_read");
  }

 private:
  dc_sampler *sampler_ = nullptr;
  int64_t size_ = 0;
};

struct Length {
  const char *label;
  int64_t samples;
};
// The first is compared with the others.
constexpr Length kLengths[] = {
    {"10^12 samples", 1'000'000'000'000}, {"10^3 samples", 1'000}, {"10^6 samples", 1'000'000}};
constexpr uint32_t kNodes = 4;
constexpr uint32_t kLocalSize = 2;
constexpr int kCalls = 2'000;

// A row: one call at each length, in nanoseconds.
template <typename Call>
void measure_call(const std::string &name, Call &&call) {
  std::vector<std::unique_ptr<Sampler>> samplers;
  std::vector<Side> sides;
  for (const Length &length : kLengths) {
    samplers.push_back(std::make_unique<Sampler>(length.samples, kNodes, kLocalSize));
    Sampler *sampler = samplers.back().get();
    sides.push_back({length.label, [sampler, &call] {
                       return seconds([&] {
                                for (int i = 0; i < kCalls; ++i) call(*sampler, i);
                              }) /
                              kCalls * 1e9;
                     }});
  }
  measure(name + ", 10^12 samples", "ns", sides,
          {{"nodes", std::to_string(kNodes)}, {"ranks of a node", std::to_string(kLocalSize)}});
}

uint64_t allocated_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// What a sampler that has been read from holds: the mean of many, since the allocator keeps a few freed pieces in use.
double memory_of(int64_t length) {
  std::vector<std::unique_ptr<Sampler>> samplers(256);
  const uint64_t before = allocated_bytes();
  for (std::unique_ptr<Sampler> &sampler : samplers) {
    sampler = std::make_unique<Sampler>(length, kNodes, kLocalSize);
    sampler->set_epoch(1);
    sampler->next_at(0);
  }
  return static_cast<double>(allocated_bytes() - before) / static_cast<double>(samplers.size()) / 1024;
}

void measure_memory() {
  std::vector<Side> sides;
  for (const Length &length : kLengths) sides.push_back({length.label, [&] { return memory_of(length.samples); }});
  measure("sampler memory, 10^12 samples", "KiB", sides, {});
}

// All of a rank's epoch in batches of 4,096, into one buffer, as a loader reads.
double epoch_milliseconds(Sampler &sampler, int64_t epoch, std::vector<int64_t> &batch) {
  const int64_t count = static_cast<int64_t>(batch.size());
  return 1e3 * seconds([&] {
           sampler.set_epoch(epoch);
           for (int64_t at = 0; at < sampler.size(); at += count) {
             sampler.read(at, batch.data(), std::min(count, sampler.size() - at));
           }
         });
}

void measure_share() {
  constexpr int64_t kSamples = 10'000'000;
  Sampler eighth(kSamples, 1, 8), whole(kSamples, 1, 1);
  std::vector<int64_t> batch(4096);
  int64_t epoch = 0;
  measure("a rank's epoch, an eighth of 10^7", "ms",
          {{"ddpcache", [&] { return epoch_milliseconds(eighth, ++epoch, batch); }},
           {"all of 10^7", [&] { return epoch_milliseconds(whole, ++epoch, batch); }}},
          {});
}

// One epoch's order into memory that has been written before, in nanoseconds an index.
void measure_order(const char *label, int64_t samples, int rounds) {
  Sampler sampler(samples, 1, 1);
  std::vector<int64_t> order(static_cast<size_t>(samples));
  std::mt19937_64 random(1);
  int64_t epoch = 0;
  const double each = 1e9 / static_cast<double>(samples);
  measure(std::string("NODE read of ") + label, "ns an index",
          {{"ddpcache",
            [&] {
              return each * seconds([&] {
                       sampler.set_epoch(++epoch);
                       sampler.read(0, order.data(), samples);
                     });
            }},
           {"std::shuffle",
            [&] {
              return each * seconds([&] {
                       std::iota(order.begin(), order.end(), 0);
                       std::shuffle(order.begin(), order.end(), random);
                     });
            }}},
          {{"std::shuffle's generator", "std::mt19937_64"}}, rounds);
}

}  // namespace

void sampler_cost() {
  // An epoch's keys, or its table where the window is small, are drawn at the first index.
  measure_call("set_epoch and an index", [](Sampler &sampler, int i) {
    sampler.set_epoch(i);
    sampler.next_at(0);
  });
  measure_call("seek and an index", [](Sampler &sampler, int i) {
    const uint64_t anywhere = static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15;
    sampler.next_at(static_cast<int64_t>(anywhere % static_cast<uint64_t>(sampler.size())));
  });
  // Each sampler's own state, saved at its first call.
  std::map<const Sampler *, std::vector<uint8_t>> states;
  measure_call("state_load and an index", [&states](Sampler &sampler, int) {
    std::vector<uint8_t> &state = states[&sampler];
    if (state.empty()) state = sampler.save(sampler.size() / 2);
    sampler.load(state);
    sampler.next_at(0);
  });
  measure_memory();
  measure_share();
  measure_order("10^6", 1'000'000, kRounds);
  measure_order("10^7", 10'000'000, kRounds);
  measure_order("10^8", 100'000'000, 2);
}

}  // namespace bench
