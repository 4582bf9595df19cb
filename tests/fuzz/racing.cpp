// As segment.cpp, but the damage is done by another thread, at any instruction of this one.
#include <atomic>
#include <thread>

#include "play.hpp"

using namespace ddpcache::fuzz;

namespace {

// Does the same damage again and again, for as long as it is wanted.
class Scribbler {
 public:
  static constexpr int kRoundsMax = 64;

  Scribbler() {
    std::thread([this] { run(); }).detach();
  }

  void begin(const Playground &ground, std::span<const uint8_t> wishes) {
    ground_ = &ground;
    wishes_ = wishes;
    wanted_.store(true);
    begun_.fetch_add(1);
    begun_.notify_one();
  }
  void end() {
    wanted_.store(false);
    while (done_.load() != begun_.load()) done_.wait(begun_.load() - 1);
  }

 private:
  [[noreturn]] void run() {
    while (true) {
      begun_.wait(done_.load());
      for (int round = 0; round < kRoundsMax && wanted_.load(); ++round) {
        Input input(wishes_.data(), wishes_.size());
        while (!input.empty()) do_damage(input, ground_->words());
      }
      done_.store(begun_.load());
      done_.notify_one();
    }
  }

  const Playground *ground_ = nullptr;
  std::span<const uint8_t> wishes_;
  std::atomic<bool> wanted_{false};
  std::atomic<uint32_t> begun_{0}, done_{0};  // inputs
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Scribbler *scribbler = new Scribbler;
  Input input(data, size);
  Playground &ground = playground(input.byte());
  scribbler->begin(ground, input.bytes(input.byte()));
  Play(input, ground, Weather::damaged).run();
  scribbler->end();
  ground.restore();
  return 0;
}
