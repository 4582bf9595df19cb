// A mapped cache file: typed access to its words, by a layout that this process computed itself.
#pragma once

#include "files.hpp"
#include "format.hpp"
#include "mapping.hpp"
#include "placement.hpp"

namespace ddpcache {

// An extent: its place and the size class of its step.
struct Extent {
  uint32_t size_class = 0;
  Place place;
};

class Segment {
 public:
  Header header;  // a private copy
  Layout layout;
  FileIdentity identity;
  Medium medium = Medium::memory;

  // Through an open file description of their own: a mapping keeps its description, and with it all of its locks, for
  // as long as any process has it mapped, and children inherit mappings.
  Status map(int fd, Access access = Access::read_write) {
    Descriptor apart;
    if (Status status = reopen(fd, &apart, access); !status.ok()) return status;
    Status status = Mapping::map(apart.get(), layout.file_bytes, Access::read_only, &readable_);
    read_only_ = access == Access::read_only;
    if (status.ok() && !read_only_) {
      status = Mapping::map(apart.get(), layout.file_bytes, Access::read_write, &writable_);
    }
    if (!status.ok()) return status;
    words_ = read_only_ ? readable_.data() : writable_.data();
    if (header.geometry.huge_pages != 0) {
      ask_huge_pages(readable_.data() + layout.arena_offset, layout.arena_bytes());
      ask_huge_pages(words_ + layout.arena_offset, layout.arena_bytes());
    }
    return {};
  }

  // Whether any store to a word would be a segmentation fault.
  bool read_only() const { return read_only_; }

  // Leaves the memory mapped for as long as the process lives.
  void abandon() {
    writable_.abandon();
    readable_.abandon();
  }

  Header &stored_header() const { return at<Header>(0); }
  ControlLine &control() const { return at<ControlLine>(layout.control_offset); }
  ClassLine &class_line(uint32_t size_class) const {
    return at<ClassLine>(layout.control_offset + sizeof(ControlLine) + size_class * sizeof(ClassLine));
  }
  ClientRecord &client(uint32_t number) const {
    return at<ClientRecord>(layout.clients_offset + number * sizeof(ClientRecord));
  }
  Word &reader_name(uint32_t client, uint32_t number) const {
    return at<Word>(layout.reader_names_offset + (uint64_t{client} * kReaderNames + number) * sizeof(Word));
  }
  bool droppable() const { return header.geometry.droppable != 0; }
  bool seals_records() const { return header.geometry.checksums != DC_CHECKSUMS_OFF; }
  bool checks_each_hit() const { return header.geometry.checksums == DC_CHECKSUMS_READ; }
  Word &entry(int64_t index) const {
    return at<Word>(layout.entries_offset + static_cast<uint64_t>(index) * sizeof(Word));
  }
  bool keyed() const { return header.geometry.keyed != 0; }
  KeyTable keys() const {
    return KeyTable({&at<KeySlot>(layout.keys_offset), static_cast<size_t>(header.geometry.length)});
  }
  KeySlot &key_slot(int64_t index) const {
    return at<KeySlot>(layout.keys_offset + static_cast<uint64_t>(index) * sizeof(KeySlot));
  }
  Word &step_word(uint32_t step) const { return at<Word>(layout.steps_offset + step * sizeof(Word)); }
  Word &extent_word(Place place) const { return at<Word>(step_offset(place.step) + place.slot * sizeof(Word)); }

  // False for a place outside the arena, in a step that is not reserved, or of no class: such a word is damaged.
  bool find_extent(Place place, Extent *extent) const {
    if (place.step >= layout.steps) return false;
    const uint64_t word = step_word(place.step).load(std::memory_order_acquire);  // EDGE step
    if (word == 0 || word > layout.classes.size()) return false;
    *extent = {static_cast<uint32_t>(word - 1), place};
    return place.slot < layout.classes[word - 1].slots;
  }

  uint64_t extent_bytes(const Extent &extent) const { return layout.classes[extent.size_class].extent_bytes; }
  const uint8_t *readable(const Extent &extent) const { return readable_.data() + extent_offset(extent); }
  uint8_t *writable(const Extent &extent) const { return writable_.data() + extent_offset(extent); }
  const uint8_t *readable_step(uint32_t step) const { return readable_.data() + step_offset(step); }
  // All before the arena: the words that every look goes through. Whole pages, since the arena begins with one.
  const uint8_t *words() const { return words_; }
  // The memory of samples, by the mapping through which readers see it and by that of the words.
  const uint8_t *readable_arena() const { return readable_.data() + layout.arena_offset; }
  uint8_t *arena() const { return words_ + layout.arena_offset; }
  uint64_t words_bytes() const { return layout.arena_offset; }
  uint64_t step_offset(uint32_t step) const { return layout.arena_offset + step * layout.step_bytes; }

  bool valid_index(int64_t index) const { return index >= 0 && index < header.geometry.length; }

 private:
  template <typename T>
  T &at(uint64_t offset) const {
    return *reinterpret_cast<T *>(words_ + offset);
  }
  uint64_t extent_offset(const Extent &extent) const {
    const SizeClass &c = layout.classes[extent.size_class];
    return step_offset(extent.place.step) + c.first_offset + extent.place.slot * c.extent_bytes;
  }

  Mapping writable_;  // none where read_only_
  Mapping readable_;
  uint8_t *words_ = nullptr;
  bool read_only_ = false;
};

}  // namespace ddpcache
