// The key table: with any words in its slots, a search ends, gives an index of the table, and keeps what was there.
#include "keys.hpp"

#include <array>
#include <optional>
#include <vector>

#include "input.hpp"

using namespace ddpcache;
using namespace ddpcache::fuzz;

namespace {

constexpr size_t kSlotsMost = 64;

// Few different halves, so that keys meet.
KeyHash some_hash(Input &input) { return KeyHash::of_halves(input.below(5), input.number()); }

struct Words {
  uint64_t tag, rest;
};

std::vector<Words> words_of(const std::vector<KeySlot> &slots) {
  std::vector<Words> words;
  for (const KeySlot &slot : slots) words.push_back({slot.tag.load(), slot.rest.load()});
  return words;
}

// A word that was set stays as it was.
void must_have_kept(const std::vector<Words> &before, const std::vector<Words> &after) {
  for (size_t i = 0; i < before.size(); ++i) {
    DC_MUST(before[i].tag == 0 || before[i].tag == after[i].tag);
    DC_MUST(before[i].rest == 0 || before[i].rest == after[i].rest);
  }
}

// `sound`: no slot has a rest without a tag, as none has that only this code has written.
void intern(const std::vector<KeySlot> &slots, const KeyTable &table, KeyHash key, bool sound) {
  int64_t looked_up = -1, index = -1, again = -1;
  bool fresh = false, fresh_again = false;
  const int32_t before = table.lookup(key, &looked_up);
  const int32_t status = table.intern(key, &index, &fresh);
  DC_MUST(status == DC_OK || status == DC_FULL);
  DC_MUST(status == DC_OK ? index >= 0 && index < static_cast<int64_t>(slots.size()) : before == DC_MISS);
  if (status != DC_OK) return;
  DC_MUST(before == DC_OK ? !fresh && index == looked_up : fresh || !sound);
  DC_MUST(table.lookup(key, &again) == DC_OK && again == index);
  DC_MUST(table.intern(key, &again, &fresh_again) == DC_OK && again == index && !fresh_again);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Input input(data, size);
  std::vector<KeySlot> slots(1 + input.below(kSlotsMost));
  const KeyTable table(slots);
  for (uint32_t damaged = input.below(kSlotsMost); damaged > 0 && !input.empty(); --damaged) {
    KeySlot &slot = slots[input.below(static_cast<uint32_t>(slots.size()))];
    slot.tag.store(input.below(6));
    slot.rest.store(input.coin() ? 0 : input.number());
  }
  const std::vector<Words> before = words_of(slots);
  const bool sound = std::all_of(before.begin(), before.end(), [](Words w) { return w.tag != 0 || w.rest == 0; });
  while (!input.empty()) {
    int64_t index = -1;
    switch (input.below(3)) {
      case 0: intern(slots, table, some_hash(input), sound); break;
      case 1: {
        const std::span<const uint8_t> key = input.bytes(input.byte());
        intern(slots, table, KeyHash::of(key.data(), key.size()), sound);
        break;
      }
      default:
        DC_MUST(table.lookup(some_hash(input), &index) == DC_MISS || slots.at(static_cast<size_t>(index)).rest != 0);
    }
  }
  must_have_kept(before, words_of(slots));
  return 0;
}
