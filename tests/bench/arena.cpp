// How much memory a cache needs for samples of the sizes of real images, after many epochs of exchange.
#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>

#include "ddpcache/sampler.h"
#include "support.hpp"

namespace bench {
namespace {

constexpr int64_t kEpochs = 50;
constexpr uint32_t kExchangePpm = 100'000;
constexpr uint32_t kNodes = 8;
constexpr uint64_t kMeanBytes = 75'000;

using Sizes = std::vector<uint64_t>;

// The decoded sizes of a set of images (three bytes a pixel), all scaled by one factor to a mean of kMeanBytes.
Sizes read_sizes(const std::string &set) {
  std::ifstream file(DDPCACHE_BENCH_FOLDER "/image_sizes.txt");
  Sizes sizes;
  std::string line, current;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    uint64_t height = 0, width = 0, images = 0;
    if (line.rfind("set ", 0) == 0) {
      current = line.substr(4);
    } else if (current == set && words >> height >> width >> images) {
      sizes.insert(sizes.end(), images, 3 * height * width);
    }
  }
  if (sizes.empty()) stop("no sizes of %s in " DDPCACHE_BENCH_FOLDER "/image_sizes.txt", set.c_str());
  double sum = 0;
  for (const uint64_t bytes : sizes) sum += static_cast<double>(bytes);
  const double scale = kMeanBytes * static_cast<double>(sizes.size()) / sum;
  for (uint64_t &bytes : sizes)
    bytes = std::max<uint64_t>(1, static_cast<uint64_t>(static_cast<double>(bytes) * scale));
  return sizes;
}

dc_sampler *open_sampler(int64_t length, uint64_t seed) {
  dc_sampler_options options;
  dc_sampler_options_init(&options, sizeof options);
  options.length = length;
  options.nodes = kNodes;
  options.seed = options.ring_seed = seed;
  options.exchange_ppm = kExchangePpm;
  dc_sampler *sampler = nullptr;
  dc_error error = {};
  require(dc_sampler_open(&options, &sampler, &error), "dc_sampler_open", error);
  return sampler;
}

// One node of the job with its cache: what it holds, epoch after epoch.
class Node {
 public:
  Node(const Sizes &sizes, int64_t window, uint64_t seed)
      : sampler_(open_sampler(window * kNodes, seed)), cache_(options_of(sizes, window)) {
    std::mt19937_64 random(seed);
    for (int64_t i = 0; i < window * kNodes; ++i) bytes_.push_back(sizes[random() % sizes.size()]);
    resident_.resize(bytes_.size());
  }
  ~Node() { dc_sampler_close(sampler_); }

  // Drops what the sampler does not keep, and fills what it deals.
  void run(int64_t epoch) {
    require(dc_sampler_set_epoch(sampler_, epoch, nullptr), "dc_sampler_set_epoch");
    for (int64_t i = 0; i < static_cast<int64_t>(bytes_.size()); ++i) {
      if (!is_resident(i) || dc_sampler_keeps(sampler_, i) == DC_OK) continue;
      require(dc_cache_remove(cache_.get(), i), "dc_cache_remove");
      note(i, false);
    }
    for (int64_t i = 0; dc_sampler_next(sampler_, &i) == DC_OK;) {
      if (is_resident(i)) continue;
      cache_.fill(i, static_cast<int64_t>(bytes_[static_cast<size_t>(i)]), [](uint8_t *) {});
      note(i, true);
    }
  }

  uint64_t reserved_bytes() const { return report().steps_reserved * cache_.info().step_bytes; }
  uint64_t live_bytes() const { return live_bytes_; }
  uint64_t live_samples() const { return live_samples_; }
  dc_cache_info info() const { return cache_.info(); }

 private:
  static dc_cache_options options_of(const Sizes &sizes, int64_t window) {
    dc_cache_options options;
    dc_cache_options_init(&options, sizeof options);
    options.length = window * kNodes;
    options.droppable = 1;
    options.clients_max = 8;
    options.sample_bytes_max = *std::max_element(sizes.begin(), sizes.end());
    // More than it will need, however few the samples: what it takes of it is what is measured.
    options.capacity_bytes =
        std::max<uint64_t>(3 * static_cast<uint64_t>(window) * kMeanBytes, 64 * options.sample_bytes_max);
    return options;
  }

  dc_cache_report report() const {
    dc_cache_report report = {};
    report.struct_size = sizeof report;
    dc_error error = {};
    require(dc_cache_check(cache_.get(), &report, &error), "dc_cache_check", error);
    return report;
  }

  bool is_resident(int64_t index) const { return resident_[static_cast<size_t>(index)]; }
  void note(int64_t index, bool resident) {
    resident_[static_cast<size_t>(index)] = resident;
    const uint64_t bytes = bytes_[static_cast<size_t>(index)];
    live_bytes_ += resident ? bytes : -bytes;
    live_samples_ += resident ? 1 : uint64_t(-1);
  }

  dc_sampler *sampler_;
  Cache cache_;
  Sizes bytes_;
  std::vector<bool> resident_;
  uint64_t live_bytes_ = 0;
  uint64_t live_samples_ = 0;
};

void measure_set(const std::string &set, int64_t window, int rounds) {
  const Sizes sizes = read_sizes(set);
  std::vector<double> values;
  std::vector<std::pair<std::string, std::string>> facts;
  for (int round = 0; round < rounds; ++round) {
    Node node(sizes, window, static_cast<uint64_t>(round + 1));
    double worst = 0, last = 0, first = 0;
    for (int64_t epoch = 0; epoch <= kEpochs; ++epoch) {
      node.run(epoch);
      last = static_cast<double>(node.reserved_bytes()) / static_cast<double>(node.live_bytes());
      worst = std::max(worst, last);
      if (epoch == 1) first = last;
    }
    values.push_back(worst);
    const dc_cache_info info = node.info();
    facts = {{"live samples", std::to_string(node.live_samples())},
             {"live bytes", std::to_string(node.live_bytes())},
             {"step_bytes", std::to_string(info.step_bytes)},
             {"steps", std::to_string(node.reserved_bytes() / info.step_bytes)},
             {"in epoch 1", number(first)},
             {"in epoch 50", number(last)},
             {"sample_bytes_max", std::to_string(info.sample_bytes_max)}};
  }
  const std::string thousands = std::to_string(window / 1000) + ",000";
  print_row("arena per live byte, " + thousands + " samples, sizes of " + set, "bytes", {"ddpcache"}, {values}, facts);
}

}  // namespace

void arena() {
  for (const char *set : {"coco", "stamps"}) {
    measure_set(set, 25'000, 3);
    measure_set(set, 5'000, 3);
    measure_set(set, 1'000, 3);
  }
}

}  // namespace bench
