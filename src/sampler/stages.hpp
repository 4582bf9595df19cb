// What is left of an epoch that was stopped and resumed, under the same layout or others (DESIGN, section 4, Resume).
//
// A stage is nodes * local_size ranks that trained on `consumed` samples each. What it left is laid end to end, node
// after node; the next stage's nodes share that evenly. Since the shares of a stage differ by at most one sample, what
// is left of them does too: node i's remainder begins at window_begin(rest, nodes, i), and a place in the rest leads
// back to one in what the stage began with by adding what nodes 0..i have consumed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ddpcache/sampler.h"

namespace ddpcache {

struct Stage {
  uint64_t nodes = 1;
  uint64_t local_size = 1;
  uint64_t consumed = 0;  // of each rank
};

class Stages {
 public:
  static constexpr size_t count_max = DC_SAMPLER_STAGES_MAX;

  Stages() = default;
  explicit Stages(uint64_t length) : length_(length) {}

  size_t count() const { return count_; }
  const Stage &operator[](size_t i) const { return steps_[i].stage; }

  // Samples that no stage has trained on.
  uint64_t rest() const { return count_ ? steps_[count_ - 1].rest : length_; }

  // The most that a rank of the next stage can consume.
  uint64_t consumed_max(uint64_t nodes, uint64_t local_size) const;

  // Whether another stage of this layout can follow. One of the last stage's layout only prolongs that, which leaves
  // the same rest in the same order.
  bool has_room(uint64_t nodes, uint64_t local_size) const { return prolongs(nodes, local_size) || count_ < count_max; }

  // Needs room, and at most consumed_max.
  void add(const Stage &stage);

  // From places in the rest to places in the whole epoch.
  void to_whole(uint64_t *places, uint64_t count) const;
  // And back; false where a stage has trained on it.
  bool from_whole(uint64_t *place) const;

 private:
  struct Step {
    Stage stage;
    uint64_t rest = 0;  // after it

    uint64_t consumed_by_node() const { return stage.consumed * stage.local_size; }
    void undo(uint64_t *places, uint64_t count) const;
  };

  bool prolongs(uint64_t nodes, uint64_t local_size) const;

  uint64_t length_ = 0;
  size_t count_ = 0;
  std::array<Step, count_max> steps_;
};

}  // namespace ddpcache
