// The bytes of a cache's file. docs/format.md is this in prose.
//
//     header (immutable) | control lines | client records | entries | keys | step words | arena
//
// The header says what the cache is; everything else about the layout follows from it by `plan_layout`, so an attaching
// process computes the layout itself and believes no offset that it reads.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "keys.hpp"
#include "status.hpp"
#include "words.hpp"

namespace ddpcache {

inline constexpr uint64_t kPageBytes = 4096;
inline constexpr uint64_t kLineBytes = 64;
inline constexpr uint32_t kStepsMax = 1u << kStepBits;
inline constexpr uint32_t kSlotsMax = 1u << kSlotBits;
inline constexpr uint32_t kClassesMax = 80;
// Beside the arrays of an extent of fixed size: the head of a record of a few arrays with a short structure.
inline constexpr uint64_t kFixedHeadBytes = 192;
// Beside the largest sample in a step: its head with a structure of any length.
inline constexpr uint64_t kLargestHeadBytes = DC_STRUCTURE_BYTES_MAX + 512;

// The options that a cache was made with, resolved: no field is "default" any more.
struct Geometry {
  int64_t length;
  uint64_t capacity_bytes;
  uint64_t sample_bytes;  // 0: of any size
  uint64_t sample_bytes_max;
  uint32_t clients_max;
  uint32_t droppable = 0;  // 1: samples can be removed, so readers name what they look at
  uint32_t keyed = 0;      // 1: there is a key table
  uint32_t checksums = DC_CHECKSUMS_OFF;
  uint64_t page_bytes = kPageBytes;  // what the file is reserved in; more on huge pages
  uint32_t huge_pages = 0;           // 1: each process asks for transparent huge pages
  uint32_t reserved = 0;

  friend bool operator==(const Geometry &, const Geometry &) = default;
};

struct Header {
  char magic[8];
  uint32_t format_version;
  uint32_t header_bytes;
  uint64_t layout_hash;  // of the sizes and constants that this library was compiled with
  Geometry geometry;
  uint64_t job_id;
  int64_t created_unix_ns;
  int32_t creator_pid;
  uint32_t fingerprint_bytes;
  char uuid[40];
  char boot_id[40];
  char name[208];
  char fingerprint[1032];
  uint64_t checksum;  // XXH3 of all before it
};
static_assert(sizeof(Header) <= kPageBytes);
static_assert(sizeof(Header::name) > DC_NAME_BYTES_MAX && sizeof(Header::fingerprint) > DC_FINGERPRINT_BYTES_MAX);

// One a cache: what changes but belongs to nobody.
struct alignas(kLineBytes) ControlLine {
  Atomic<uint32_t> keep;          // set by any client that opened it to keep
  Atomic<uint32_t> clients_used;  // records from here on were never used
  Atomic<uint32_t> next_step;     // hint: steps before it are probably taken
  Atomic<uint32_t> unused;
  Atomic<int64_t> no_space_ns;  // when growing last failed; 0: never
  Word disturbances;            // attaches, deaths and takeovers: each may have left extents that no count shows
  Word keys;                    // that have an index, as counted: a kill may have cost one
  // Of caches on a disk; see trust.hpp. All of one sector, so that a power cut leaves the one with the other.
  Word boot;     // hash of the boot that had the file open last
  Word closure;  // whether all of it was on the disk when its last client left
};

// One a size class: hints for finding an extent. Wrong hints cost time or an early FULL, never a wrong extent.
struct alignas(kLineBytes) ClassLine {
  Word cursor;          // 1+step << 32 | slot of the next never-owned extent; 0: no step yet
  Word searched_words;  // words looked at so far, over all searches: where the next goes on
  Word freed;           // extents given up so far
  Word round_start;     // searched_words where the present round over all words began; it only rises
  Word round_events;    // freed + disturbances that it is for
  Word round_words;     // words that it goes over
  Word failed_freed;    // 1 + (freed + disturbances) of the last round that found nothing
  Word freed_name;      // name_of the extent that was given up last; 0: looked at already
};
static_assert(sizeof(ControlLine) == kLineBytes && sizeof(ClassLine) == kLineBytes);

inline constexpr uint64_t kControlBytes = 8192;
static_assert(kPageBytes + kControlBytes == 12288, "docs/format.md says where the client records begin");
static_assert(sizeof(ControlLine) + kClassesMax * sizeof(ClassLine) <= kControlBytes);

// Counters of a client. A thread has a line to itself where there is one left, and then adds by plain stores.
inline constexpr uint32_t kStatsLines = 8;
inline constexpr uint32_t kSharedStatsLine = kStatsLines - 1;
enum class Counter : uint32_t {
  hits,
  misses,
  fills,
  aborts,
  waits,
  timeouts,
  bypasses,
  takeovers,
  bytes_filled,
  bytes_copied,
  bad,
  removed,
  count
};
struct alignas(2 * kLineBytes) StatsLine {
  std::array<Word, 16> counters;
};
static_assert(static_cast<size_t>(Counter::count) <= 16);

struct FillNote {
  Word index_plus_one;  // 0: no fill; written before the claim, cleared after the entry is given up
  Atomic<int64_t> since_ns;
};

// Names that a client's readers have at one time in a droppable cache; past them it counts.
inline constexpr uint32_t kReaderNames = 1024;

// One a client. Only its owner writes it, but for `word`, which others move from LIVE to DEAD.
struct alignas(2 * kLineBytes) ClientRecord {
  Word word;
  Atomic<uint64_t> start_time;
  Atomic<uint64_t> pid_namespace;
  Atomic<uint64_t> time_namespace;
  Atomic<int32_t> pid;
  Atomic<uint32_t> names_used;         // names of fills from here on were never used in this life
  Atomic<uint32_t> reader_names_used;  // and those of readers
  Atomic<uint32_t> unnamed_readers;    // readers beyond all names: while there is one, nothing is taken again
  std::array<FillNote, DC_FILLS_MAX> fills;
  std::array<Word, DC_FILLS_MAX> names;  // fill i names its extent in names[i]
  Word identity_sum;                     // of the record's number and who its process is; for dc_cache_check
  std::array<StatsLine, kStatsLines> stats;
};

static_assert(sizeof(ClientRecord) == 2688 && kReaderNames * sizeof(Word) == 8192, "docs/format.md says so");

// A size class: `slots` extents of `extent_bytes` in each of its steps, after their words.
struct SizeClass {
  uint32_t slots;
  uint64_t first_offset;  // of extent 0, from the step's start
  uint64_t extent_bytes;
};

struct Layout {
  uint64_t control_offset = 0;
  uint64_t clients_offset = 0;
  uint64_t reader_names_offset = 0;  // kReaderNames words a client in droppable caches, else none
  uint64_t entries_offset = 0;
  uint64_t keys_offset = 0;  // a KeySlot an entry in keyed caches, else none
  uint64_t steps_offset = 0;
  uint64_t arena_offset = 0;
  uint64_t step_bytes = 0;
  uint32_t steps = 0;
  uint64_t file_bytes = 0;
  std::vector<SizeClass> classes;  // smallest extents first

  uint64_t arena_bytes() const { return step_bytes * steps; }
  // The smallest class that holds `record_bytes`; classes.size() where none does.
  uint32_t class_for(uint64_t record_bytes) const;
  uint64_t largest_record() const { return classes.back().extent_bytes; }
};

// Whether a geometry, in which capacity and sample_bytes_max may still be 0 for "default", is possible at all.
Status check_geometry(const Geometry &geometry);

// What a sample_bytes_max of 0 stands for.
uint64_t default_sample_bytes_max(uint64_t sample_bytes, uint64_t capacity_bytes);

// DC_ERROR_RANGE where the geometry is none that open would make. Pure arithmetic.
Status plan_layout(const Geometry &geometry, Layout *layout);

// The hash that `layout_hash` must have.
uint64_t layout_hash();

// Completes magic, versions and checksum.
void seal_header(Header *header);

// Whether a private copy of a header is sound and of this library's format; gives the layout.
Status check_header(const Header &header, uint64_t file_bytes, const std::string &subject, Layout *layout);

}  // namespace ddpcache
