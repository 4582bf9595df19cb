// The walk of dc_cache_check: every word of the file compared with the others that it must agree with.
//
// Others go on meanwhile, and may be stopped or killed anywhere, so a rule holds between any two steps of any client,
// and a word that looks wrong is wrong only if it is still the same after what it was compared with has been read. So
// the first look acquires where a rule says what was there before the word, and the second is behind a fence. The
// rules, beside those of each word's own bits:
//
//   WRITING by (c, e)     record c is LIVE or DEAD at e, and notes the index: noted before the claim, and handed back
//                         before the record is anybody else's
//   READY                 its place is an extent of a reserved step, whose word is this index at this generation; the
//                         record in it is as write_record makes it, and has its checksum
//   BAD                   the same does not hold
//   an extent's word      names no generation that its entry has not reached; of those at the entry's own there is one,
//                         and it is where the entry says
//   FREE record           names and notes nothing
//   LIVE, DEAD record     its identity has its sum; nothing is named or noted past the marks; a fill's name has a note
//   LIVE record           the extent that a fill names is that of the index which it notes, at the claim's generation
//   steps in memory       are given out in order: none is taken behind one that is not
//   a class's cursor      is in a step of the class
//   next_step             no step before it is untaken: nobody would look for it again
//   keys                  are found from their home on, each at one slot; no more are counted than are there
//   all else              is 0, but in the arena
//
// What no rule is about is listed, with the reason, in tests/unit/cache_check_words.cpp.
#pragma once

#include <unordered_map>
#include <vector>

#include "clients.hpp"
#include "ddpcache/report.h"

namespace ddpcache {

class Checker {
 public:
  Checker(const Segment &segment, Clients &clients, dc_cache_report *report)
      : segment_(segment), clients_(clients), report_(report) {}

  // DC_ERROR_DAMAGED with what is wrong, and where, as far as it fits into a sentence.
  Status run();

 private:
  [[gnu::format(printf, 3, 4)]] void violation(uint64_t *count, const char *format, ...);

  // The byte of the file that this is.
  template <typename T>
  uint64_t byte_of(const T &word) const {
    return static_cast<uint64_t>(reinterpret_cast<const uint8_t *>(&word) - segment_.words());
  }
  unsigned long long at(const auto &word) const { return byte_of(word); }

  // In checker_clients.cpp: all before the entries.
  void check_header();
  bool is_zero(uint64_t begin, uint64_t end, uint64_t *first) const;
  void check_unused(uint64_t *count, const char *what, uint64_t begin, uint64_t end);
  void check_control();
  void check_class(uint32_t size_class);
  void check_clients();
  void check_unused_client(uint32_t number);
  void check_client(uint32_t number);
  void check_life(uint32_t number, ClientWord word);
  void check_marks(uint32_t number, ClientWord word);
  void check_fill(uint32_t number, ClientWord word, uint32_t slot);
  void check_fill_name(uint32_t number, ClientWord word, uint32_t slot, uint64_t name);
  void check_reader_names(uint32_t number, ClientWord word);
  void check_name(uint32_t number, const Word &word, uint64_t name);
  // A look of which nothing is said but this value.
  template <typename T>
  static T value_of(const Atomic<T> &word) {
    return word.load(std::memory_order_relaxed);
  }
  // The second look at a word, behind all that was read since the first: who sees what was done after the word had
  // changed sees it changed.
  template <typename T>
  static bool is_still(const Atomic<T> &word, T seen) {
    atomic_fence(std::memory_order_acquire);
    return word.load(std::memory_order_relaxed) == seen;
  }
  bool is_still(uint32_t number, ClientWord word) const { return is_still(segment_.client(number).word, word.bits()); }

  // In checker.cpp: entries, steps, extents, records and keys.
  struct Reservation {
    uint32_t claimed = 0, there = 0;
    uint64_t claimed_bytes = 0, file_bytes = 0;
  };
  Reservation look_at_reservation() const;
  void check_reservation();
  bool may_touch(uint32_t step);
  void check_entry(int64_t index);
  std::string fault_of_writing(int64_t index, EntryWord word);
  std::string fault_of_ready(int64_t index, EntryWord word);
  std::string fault_of_place(int64_t index, EntryWord word, Extent *extent);
  std::string fault_of_record(int64_t index, const Extent &extent) const;
  bool is_noted(ClientLife owner, int64_t index) const;
  void check_step(uint32_t step);
  void check_extent(Place place);
  void check_claim(Place place, ExtentWord word, EntryWord entry);
  void check_key(int64_t index);
  void check_keys();

  const Segment &segment_;
  Clients &clients_;
  dc_cache_report *report_;
  uint32_t steps_there_ = 0;  // steps from here on may be holes in the file, which nobody touches
  std::vector<uint64_t> names_;
  std::unordered_map<int64_t, Place> claimed_;  // the extent of each entry that is WRITING
  int64_t unfinished_key_ = 0;
  std::string text_;
};

}  // namespace ddpcache
