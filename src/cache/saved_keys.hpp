// The key table between a cache and a saved file.
//
// A key is found by a walk from its home slot over slots that are in use. Others intern keys while a cache is saved, so
// a key that was read late may have come over a slot that was read, empty, before: in the file it could not be found.
// Such a key is saved as a slot whose key is not known, which stops no walk and is taken for no key; and so its sample
// is not saved either.
#pragma once

#include <vector>

#include "saved.hpp"
#include "segment.hpp"

namespace ddpcache {

class KeySnapshot {
 public:
  // Notes which slots are in use.
  explicit KeySnapshot(const Segment &segment);

  // What to save of a slot, but for its check; false where there is nothing.
  bool take(int64_t index, SavedKey *key);
  // Whether the key of a slot was taken whole.
  bool has(int64_t index) const { return whole_[static_cast<size_t>(index)]; }

 private:
  bool is_reachable(int64_t home, int64_t index) const;

  const Segment &segment_;
  std::vector<bool> in_use_;
  std::vector<bool> whole_;
};

// Puts a slot that was read from a file, and whose index is of the table, into a table that nobody else sees yet; false
// for a slot that no table holds.
bool place_key(const Segment &segment, const SavedKey &key);

}  // namespace ddpcache
