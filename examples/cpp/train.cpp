// train: several processes learn to read handwritten digits, from samples that all of them share.
//
//     c++ -std=c++17 train.cpp $(pkg-config --cflags --libs ddpcache) -pthread -o train
//     python ../python/cache_digits.py --file digits.csv
//     ./train digits.csv [NAME [RANKS]]
//
// The program starts RANKS (2) processes, and tells each its place as torchrun would. Each sample is read from the file
// by one of them, once, and found by the others; where another program has the digits cached under this NAME already
// (`python ../python/cache_digits.py NAME`), they are all found. The model is a softmax regression, trained by gradient
// descent on digits 0 to 1436, with gradients averaged over the ranks at each step as DDP does; the rest judge it.
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ddpcache/ddpcache.hpp>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t kDigits = 1797, kTrained = 1437, kEpochs = 5;
constexpr std::size_t kPixels = 64, kClasses = 10, kWeights = (kPixels + 1) * kClasses, kBatch = 32, kRanksMax = 64;
constexpr float kRate = 0.5f;

struct Digit {
  std::array<std::uint8_t, kPixels> pixels = {};  // 0..16
  std::int64_t label = -1;
};

// The data set: a cache, and the file that it is filled from.
class Digits {
 public:
  Digits(std::string path, const std::string &name) : path_(std::move(path)), cache_(name, "digits 1", options()) {}

  Digit get(std::int64_t index) {
    ++used_;
    std::optional<Digit> own;
    const ddpcache::Result<ddpcache::View> view = cache_.try_load(index, [&](ddpcache::Filling &filling, std::int64_t) {
      own = decode(index);
      return store(*own, filling);
    });
    if (view) return seen(*view);
    if (view.status() == DC_FULL) return *own;           // there was no room for it
    if (view.status() == DC_BUSY) return decode(index);  // another process has been at it for a minute
    throw view.error();
  }

  float decoded() const { return static_cast<float>(decoded_); }
  float used() const { return static_cast<float>(used_); }

 private:
  static ddpcache::CacheOptions options() {
    ddpcache::CacheOptions options(kDigits);
    options.capacity_bytes = 4 << 20;
    return options;
  }

  // Line `index` of the file: 64 pixels and the digit.
  Digit decode(std::int64_t index) {
    ++decoded_;
    if (lines_.empty()) {
      std::ifstream file(path_);
      for (std::string line; std::getline(file, line);) lines_.push_back(line);
      if (lines_.size() < kDigits) throw std::runtime_error(path_ + " has " + std::to_string(lines_.size()) + " lines");
    }
    std::istringstream line(lines_[static_cast<std::size_t>(index)]);
    Digit read;
    float number = 0;
    char comma = 0;
    for (std::uint8_t &pixel : read.pixels) {
      line >> number >> comma;
      pixel = static_cast<std::uint8_t>(number);
    }
    if (!(line >> number)) throw std::runtime_error(path_ + " has a line without 64 pixels and a label");
    read.label = static_cast<std::int64_t>(number);
    return read;
  }

  static bool store(const Digit &digit, ddpcache::Filling &filling) {
    std::array<dc_array, 2> arrays = {ddpcache::describe<std::uint8_t>({8, 8}, "image"),
                                      ddpcache::describe<std::int64_t>({}, "label")};
    if (filling.try_allocate(arrays.data(), arrays.size()) != DC_OK) return false;
    std::memcpy(arrays[0].data, digit.pixels.data(), digit.pixels.size());
    std::memcpy(arrays[1].data, &digit.label, sizeof digit.label);
    return true;
  }

  // Whoever stored it may have the two arrays in any order.
  static Digit seen(const ddpcache::View &view) {
    Digit digit;
    for (std::uint32_t i = 0; i < view.array_count(); ++i) {
      const ddpcache::Array array = view.array(i);
      if (array.name() == "image" && array.bytes() == kPixels) {
        const auto pixels = array.values<std::uint8_t>();
        std::copy(pixels.begin(), pixels.end(), digit.pixels.begin());
      } else if (array.name() == "label") {
        digit.label = array.values<std::int64_t>()[0];
      }
    }
    if (digit.label < 0 || digit.label >= static_cast<std::int64_t>(kClasses)) {
      throw std::runtime_error("sample " + std::to_string(view.index()) + " is no digit");
    }
    return digit;
  }

  std::string path_;
  std::vector<std::string> lines_;
  ddpcache::Cache cache_;
  int decoded_ = 0, used_ = 0;
};

// The ranks, and what they add up, in memory that they share.
class Group {
 public:
  static Group &make(std::size_t ranks) {
    void *memory = mmap(nullptr, sizeof(Group), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("there is no memory");
    Group &group = *static_cast<Group *>(memory);  // zeros
    group.ranks_ = ranks;
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&group.barrier_, &shared, static_cast<unsigned>(ranks));
    return group;
  }

  // Replaces each number by the sum over all ranks, in the order of ranks, so that it is the same in every run.
  template <std::size_t count>
  void sum(std::size_t rank, std::array<float, count> &numbers) {
    static_assert(count <= kWeights + 1);
    std::copy(numbers.begin(), numbers.end(), parts_[rank]);
    pthread_barrier_wait(&barrier_);
    numbers.fill(0);
    for (std::size_t other = 0; other < ranks_; ++other) {
      for (std::size_t i = 0; i < count; ++i) numbers[i] += parts_[other][i];
    }
    pthread_barrier_wait(&barrier_);
  }

 private:
  pthread_barrier_t barrier_;
  std::size_t ranks_;
  float parts_[kRanksMax][kWeights + 1];
};

// Softmax regression: ten sums of weighted pixels and a bias.
class Model {
 public:
  using Gradient = std::array<float, kWeights + 1>;  // and the loss behind it

  // Adds a digit's gradient and loss.
  void learn(const Digit &digit, Gradient &gradient) const {
    std::array<float, kClasses> errors = probabilities(digit);
    gradient[kWeights] -= std::log(errors[static_cast<std::size_t>(digit.label)]);
    errors[static_cast<std::size_t>(digit.label)] -= 1;
    for (std::size_t i = 0; i <= kPixels; ++i) {
      for (std::size_t c = 0; c < kClasses; ++c) gradient[i * kClasses + c] += input(digit, i) * errors[c];
    }
  }
  void step(const Gradient &gradient, float samples) {
    for (std::size_t i = 0; i < kWeights; ++i) weights_[i] -= kRate * gradient[i] / samples;
  }
  std::int64_t answer(const Digit &digit) const {
    const std::array<float, kClasses> found = probabilities(digit);
    return std::max_element(found.begin(), found.end()) - found.begin();
  }

 private:
  static float input(const Digit &digit, std::size_t i) { return i < kPixels ? digit.pixels[i] / 16.0f : 1.0f; }

  std::array<float, kClasses> probabilities(const Digit &digit) const {
    std::array<float, kClasses> found = {};
    for (std::size_t i = 0; i <= kPixels; ++i) {
      for (std::size_t c = 0; c < kClasses; ++c) found[c] += input(digit, i) * weights_[i * kClasses + c];
    }
    const float largest = *std::max_element(found.begin(), found.end());
    float total = 0;
    for (float &value : found) total += value = std::exp(value - largest);
    for (float &value : found) value /= total;
    return found;
  }

  std::array<float, kWeights> weights_ = {};
};

ddpcache::Sampler open_sampler(std::int64_t length, bool shuffle) {
  ddpcache::SamplerOptions options(length);
  options.seed = 7;
  options.shuffle = shuffle;
  return ddpcache::Sampler(options.detect_topology());
}

// One epoch; the mean loss.
float train_epoch(Digits &digits, const ddpcache::Sampler &sampler, Group &group, const dc_topology &place,
                  Model &model) {
  const std::vector<std::int64_t> indices(sampler.begin(), sampler.end());
  float loss = 0, samples = 0;
  for (std::size_t first = 0; first < indices.size(); first += kBatch) {
    const std::size_t last = std::min(first + kBatch, indices.size());
    Model::Gradient gradient = {};
    for (std::size_t i = first; i < last; ++i) model.learn(digits.get(indices[i]), gradient);
    group.sum(place.rank, gradient);
    const float seen = static_cast<float>((last - first) * place.world_size);
    model.step(gradient, seen);
    loss += gradient[kWeights];
    samples += seen;
  }
  return loss / samples;
}

// The share of the digits kept back that the model reads right. Each counts once, though some are dealt twice.
float judge(Digits &digits, const ddpcache::Sampler &sampler, Group &group, const dc_topology &place,
            const Model &model) {
  std::array<float, 1> right = {};
  for (std::int64_t index : sampler.read(0, sampler.real_size())) {
    const Digit digit = digits.get(kTrained + index);
    right[0] += model.answer(digit) == digit.label;
  }
  group.sum(place.rank, right);
  return right[0] / (kDigits - kTrained);
}

void train(const std::string &path, const std::string &name, Group &group) {
  const dc_topology place = ddpcache::detect_topology().value();
  Digits digits(path, name);
  ddpcache::Sampler sampler = open_sampler(kTrained, true);
  const ddpcache::Sampler judged = open_sampler(kDigits - kTrained, false);
  Model model;
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    sampler.set_epoch(epoch);
    const float loss = train_epoch(digits, sampler, group, place, model);
    const float accuracy = judge(digits, judged, group, place, model) * 100;
    if (place.rank == 0)
      std::printf("epoch %d/%d  loss %.4f  accuracy %.1f%%\n", int(epoch) + 1, int(kEpochs), loss, accuracy);
    std::fflush(stdout);
  }
  std::array<float, 2> counts = {digits.decoded(), digits.used()};
  group.sum(place.rank, counts);
  if (place.rank == 0) std::printf("decoded %.0f, found %.0f\n", counts[0], counts[1] - counts[0]);
}

// In a process of its own; its exit status.
int run_rank(std::size_t rank, std::size_t ranks, const std::string &path, const std::string &name, Group &group) try {
  for (const char *variable : {"RANK", "LOCAL_RANK"}) setenv(variable, std::to_string(rank).c_str(), 1);
  for (const char *variable : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}) setenv(variable, std::to_string(ranks).c_str(), 1);
  train(path, name, group);
  return 0;
} catch (const std::exception &reason) {
  std::cerr << "rank " << rank << ": " << reason.what() << "\n";
  return 1;
}

}  // namespace

int main(int count, char **arguments) {
  const std::size_t ranks = count > 3 ? std::strtoul(arguments[3], nullptr, 10) : 2;
  if (count < 2 || ranks < 1 || ranks > kRanksMax) {
    std::cerr << "usage: train DIGITS.csv [NAME [RANKS]], of 1 to 64 ranks\n";
    return 2;
  }
  Group &group = Group::make(ranks);
  std::vector<pid_t> processes;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    processes.push_back(fork());
    if (processes.back() == 0) return run_rank(rank, ranks, arguments[1], count > 2 ? arguments[2] : "digits", group);
  }
  bool failed = false;
  int status = 0;
  for (pid_t ended; (ended = wait(&status)) > 0;) {
    failed |= status != 0;
    processes.erase(std::remove(processes.begin(), processes.end(), ended), processes.end());
    // Where one has failed, the others would wait for it.
    for (pid_t other : processes) {
      if (failed && other > 0) kill(other, SIGTERM);
    }
  }
  return failed;
}
