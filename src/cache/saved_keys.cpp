#include "saved_keys.hpp"

namespace ddpcache {

KeySnapshot::KeySnapshot(const Segment &segment)
    : segment_(segment),
      in_use_(static_cast<size_t>(segment.header.geometry.length)),
      whole_(static_cast<size_t>(segment.header.geometry.length)) {
  for (int64_t index = 0; index < segment.header.geometry.length; ++index) {
    // Relaxed: a tag that comes later than this look is as good as one that comes later than the save.
    in_use_[static_cast<size_t>(index)] = segment.key_slot(index).tag.load(std::memory_order_relaxed) != 0;
  }
}

bool KeySnapshot::take(int64_t index, SavedKey *key) {
  if (!in_use_[static_cast<size_t>(index)]) return false;
  const KeySlot &slot = segment_.key_slot(index);
  // Relaxed: this thread has seen the tag before.
  const uint64_t rest = slot.rest.load(std::memory_order_relaxed);
  const KeyHash hash = {slot.tag.load(std::memory_order_relaxed), rest};
  *key = {index, hash.tag, 0, 0};
  if (rest == 0 || !is_reachable(segment_.keys().home(hash), index)) return true;
  key->rest = rest;
  whole_[static_cast<size_t>(index)] = true;
  return true;
}

bool KeySnapshot::is_reachable(int64_t home, int64_t index) const {
  const int64_t length = segment_.header.geometry.length;
  for (int64_t at = home; at != index; at = at + 1 == length ? 0 : at + 1) {
    if (!in_use_[static_cast<size_t>(at)]) return false;
  }
  return true;
}

bool place_key(const Segment &segment, const SavedKey &key) {
  if (key.tag == 0) return false;
  segment.keys().place(key.index, {key.tag, key.rest});
  return true;
}

}  // namespace ddpcache
