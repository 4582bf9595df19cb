#include "stages.hpp"

#include "integers.hpp"
#include "windows.hpp"

namespace ddpcache {

uint64_t Stages::consumed_max(uint64_t nodes, uint64_t local_size) const {
  return ceil_div(rest(), nodes * local_size);
}

bool Stages::prolongs(uint64_t nodes, uint64_t local_size) const {
  if (count_ == 0) return false;
  const Stage &last = steps_[count_ - 1].stage;
  return last.nodes == nodes && last.local_size == local_size;
}

void Stages::add(const Stage &stage) {
  if (prolongs(stage.nodes, stage.local_size)) {
    steps_[count_ - 1].stage.consumed += stage.consumed;
  } else {
    steps_[count_++].stage = stage;
  }
  Step &step = steps_[count_ - 1];
  const uint64_t before = count_ > 1 ? steps_[count_ - 2].rest : length_;
  // Shares differ by at most one sample: where one node has had all of its own, every node has.
  const uint128 consumed = uint128{step.consumed_by_node()} * step.stage.nodes;
  step.rest = consumed < before ? static_cast<uint64_t>(before - consumed) : 0;
}

void Stages::Step::undo(uint64_t *places, uint64_t count) const {
  uint64_t begin = 0, size = 0, gap = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (places[i] - begin >= size) {  // also where places[i] < begin
      const uint64_t node = window_of(rest, stage.nodes, places[i]);
      begin = window_begin(rest, stage.nodes, node);
      size = window_begin(rest, stage.nodes, node + 1) - begin;
      gap = consumed_by_node() * (node + 1);
    }
    places[i] += gap;
  }
}

void Stages::to_whole(uint64_t *places, uint64_t count) const {
  for (size_t i = count_; i-- > 0;) steps_[i].undo(places, count);
}

bool Stages::from_whole(uint64_t *place) const {
  uint64_t before = length_;
  for (size_t i = 0; i < count_; ++i) {
    const Step &step = steps_[i];
    const uint64_t node = window_of(before, step.stage.nodes, *place);
    if (*place - window_begin(before, step.stage.nodes, node) < step.consumed_by_node()) return false;
    *place -= step.consumed_by_node() * (node + 1);
    before = step.rest;
  }
  return true;
}

}  // namespace ddpcache
