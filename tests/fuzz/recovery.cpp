// A cache on a disk after the machine has stopped, with any damage in its words: recovery makes it sound, each sample
// is then what its checksum says or a miss, and what is free can be filled. One that was closed is believed.
#include "play.hpp"
#include "trust.hpp"

using namespace ddpcache;
using namespace ddpcache::fuzz;

namespace {

// On a disk a step that was lost may lie before others; in memory, where this cache is, none does.
bool steps_are_in_order(const Segment &words) {
  bool free_before = false;
  for (uint32_t step = 0; step < words.layout.steps; ++step) {
    const bool taken = words.step_word(step).load() != 0;
    if (taken && free_before) return false;
    free_before |= !taken;
  }
  return true;
}

constexpr uint64_t kClosed = 0x21646573'6F6C6321;  // as trust.cpp has it

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Input input(data, size);
  Playground &ground = playground(1 + input.below(3));  // with checksums, as every cache on a disk
  const Segment &words = ground.words();
  for (uint32_t kinds = 1 + input.below(12); kinds > 0; --kinds) do_damage(input, words);
  words.control().boot.store(1);
  const bool closed = input.below(8) == 7;
  words.control().closure.store(closed ? kClosed : input.byte());
  ground.call_it_on_a_disk(true);
  const Status status = revive(words, ground.fd(), "it");
  ground.call_it_on_a_disk(false);
  DC_MUST(status.ok());
  ground.rejoin();
  // Nor is anything unverified there; so it is sound when all has been looked at.
  const bool looked_at = !closed && steps_are_in_order(words) && input.coin();
  for (int64_t index = 0; looked_at && index < Playground::kLength; ++index) {
    dc_view view;
    const int32_t found = dc_cache_view(ground.writer(), index, &view);
    DC_MUST(found == DC_OK || found == DC_MISS);
    if (found == DC_OK) dc_cache_view_release(&view);
  }
  Play(input, ground, looked_at ? Weather::sound : Weather::damaged).run();
  ground.restore();
  return 0;
}
