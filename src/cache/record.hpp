// A stored sample as bytes: a head, one description an array, the structure string, then the arrays' data.
//
//     RecordHead | (ArrayHead, shape, name) for each array | structure, NUL | data, each array aligned to 64
//
// A single array of up to four dimensions without name or structure has its data at byte 64: its whole description is
// the cache line before. A reader trusts nothing of it: every number is copied once and checked against the extent.
#pragma once

#include <array>
#include <cstdint>

#include "ddpcache/cache.h"
#include "status.hpp"

namespace ddpcache {

inline constexpr uint32_t kRecordMagic = 0x31524344;  // "DCR1"

struct RecordHead {
  uint32_t magic;
  uint16_t array_count;
  uint16_t structure_bytes;  // without its NUL; 0: none
  uint64_t record_bytes;     // from the head to the end of the last array
  uint64_t checksum;         // of all but itself, see seal_record; 0: not taken
};
struct ArrayHead {
  uint8_t dtype_code;
  uint8_t dtype_bits;
  uint16_t dtype_lanes;
  uint8_t dimensions;
  uint8_t name_bytes;  // without NUL; padded to 8 behind the shape
  uint16_t zero;
};
static_assert(sizeof(RecordHead) == 24 && sizeof(ArrayHead) == 8);
static_assert(sizeof(RecordHead) + sizeof(ArrayHead) + 4 * sizeof(int64_t) == 64, "four dimensions fit the first line");

// Where the parts of a record will lie.
struct RecordPlan {
  uint64_t record_bytes = 0;
  uint64_t data_bytes = 0;  // of all arrays, without padding
  uint64_t structure_offset = 0;
  uint32_t structure_bytes = 0;
  uint32_t array_count = 0;
  std::array<uint64_t, DC_ARRAYS_MAX> offsets;
  std::array<uint64_t, DC_ARRAYS_MAX> bytes;
};

// Checks what a caller wants to store. DC_ERROR_ARGUMENT or DC_ERROR_RANGE say which array is wrong and why;
// DC_ERROR_TOO_LARGE beyond DC_SAMPLE_BYTES_MAX.
Status plan_record(const dc_array *arrays, uint32_t count, const char *structure, RecordPlan *plan);

// Writes everything but the data to `record`, which has room for plan.record_bytes, and points the arrays into it.
void write_record(const RecordPlan &plan, const char *structure, uint8_t *record, dc_array *arrays);

// What a look at a record's first array needs.
struct RecordGlance {
  const uint8_t *record;
  const uint8_t *data;
  uint64_t bytes;
  uint64_t record_bytes;
  uint32_t array_count;
};

// False where the record is not sound within `limit` bytes.
bool glance_at_record(const uint8_t *record, uint64_t limit, RecordGlance *glance);

// One array of a record that glance_at_record accepted; false where its description is not sound.
bool read_array(const uint8_t *record, uint64_t limit, uint32_t number, dc_array *array);

// Just where the bytes of its arrays 0..last are.
struct ArrayBytes {
  const uint8_t *data;
  uint64_t bytes;
};
bool find_arrays(const uint8_t *record, uint64_t limit, uint32_t last, ArrayBytes *arrays);

// Whether all of a record is as write_record makes it, but for what is in the arrays; and how many bytes these have.
bool inspect_record(const uint8_t *record, uint64_t limit, uint64_t *data_bytes);

// The structure string, checked to end where it should; nullptr where there is none, or none that is sound.
const char *read_structure(const uint8_t *record, uint64_t limit, uint64_t *bytes);

// What a record's checksum is: XXH3-64 of everything after the head, seeded with XXH3-64 of the head before the
// checksum, which is seeded with the index; 1 where that is 0. With the index in it, a complete record of another
// sample is none of this one's: a power cut can leave one where this one's entry still leads.
struct RecordSums {
  uint64_t stored;  // 0: not taken
  uint64_t actual;
};

// False where the head, of which a private copy is made, asks for less than itself or more than `limit` bytes.
bool sum_record(const uint8_t *record, uint64_t limit, int64_t index, RecordSums *sums);

// Writes the checksum of a complete record. False, and nothing is written, where sum_record says so.
bool seal_record(uint8_t *record, uint64_t limit, int64_t index);

// Whether a record has a checksum, and the right one.
bool record_is_intact(const uint8_t *record, uint64_t limit, int64_t index);

}  // namespace ddpcache
