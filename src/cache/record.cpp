#include "record.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "hash.hpp"
#include "integers.hpp"

namespace ddpcache {
namespace {

constexpr uint64_t kDataAlignment = 64;

uint64_t padded_name(uint64_t name_bytes) { return round_up(name_bytes, 8); }

// The bytes of an array; false on overflow or a dtype or shape that cannot be.
bool array_bytes(uint32_t bits, uint32_t lanes, uint32_t dimensions, const int64_t *shape, uint64_t *bytes) {
  const uint64_t element_bits = uint64_t{bits} * lanes;
  if (element_bits == 0 || element_bits % 8 != 0) return false;
  uint64_t product = element_bits / 8;
  bool empty = false;
  for (uint32_t d = 0; d < dimensions; ++d) {
    if (shape[d] < 0) return false;
    empty |= shape[d] == 0;
    if (shape[d] != 0 && multiply_overflows(product, static_cast<uint64_t>(shape[d]), &product)) return false;
  }
  *bytes = empty ? 0 : product;
  return true;
}

// Reads a record's descriptions one after the other, each through a private copy.
class Reader {
 public:
  Reader(const uint8_t *record, uint64_t limit) : record_(record) {
    if (limit < sizeof head_) return;
    std::memcpy(&head_, record, sizeof head_);
    sound_ = head_.magic == kRecordMagic && head_.array_count >= 1 && head_.array_count <= DC_ARRAYS_MAX &&
             head_.structure_bytes <= DC_STRUCTURE_BYTES_MAX && head_.record_bytes <= limit &&
             head_.record_bytes >= sizeof head_;
    position_ = sizeof head_;
  }

  bool sound() const { return sound_; }
  const RecordHead &head() const { return head_; }
  const ArrayHead &array() const { return array_; }
  const int64_t *shape() const { return shape_; }
  uint64_t bytes() const { return bytes_; }
  const uint8_t *name() const { return record_ + name_position_; }
  // After the last description: where the structure begins.
  uint64_t position() const { return position_; }

  bool next() {
    if (!copy(&array_, sizeof array_) || array_.dimensions > DC_DIMENSIONS_MAX || array_.zero != 0 ||
        array_.name_bytes >= sizeof(dc_array::name) || !copy(shape_, array_.dimensions * sizeof(int64_t)) ||
        !array_bytes(array_.dtype_bits, array_.dtype_lanes, array_.dimensions, shape_, &bytes_)) {
      return sound_ = false;
    }
    name_position_ = position_;
    position_ += padded_name(array_.name_bytes);
    return sound_ = position_ <= head_.record_bytes;
  }

 private:
  bool copy(void *target, uint64_t bytes) {
    if (bytes > head_.record_bytes - position_) return false;
    std::memcpy(target, record_ + position_, bytes);
    position_ += bytes;
    return true;
  }

  const uint8_t *record_;
  RecordHead head_ = {};
  ArrayHead array_ = {};
  int64_t shape_[DC_DIMENSIONS_MAX] = {};
  uint64_t bytes_ = 0;
  uint64_t name_position_ = 0;
  uint64_t position_ = 0;
  bool sound_ = false;
};

uint64_t data_begin(uint64_t structure_position, uint32_t structure_bytes) {
  return round_up(structure_position + (structure_bytes ? structure_bytes + 1 : 0), kDataAlignment);
}

}  // namespace

Status plan_record(const dc_array *arrays, uint32_t count, const char *structure, RecordPlan *plan) {
  if (!arrays) return failure(DC_ERROR_ARGUMENT, "arrays is NULL");
  if (count < 1 || count > DC_ARRAYS_MAX) {
    return failure(DC_ERROR_RANGE, "a sample has 1..%d arrays, not %u", DC_ARRAYS_MAX, count);
  }
  const size_t structure_bytes = structure ? strnlen(structure, DC_STRUCTURE_BYTES_MAX + 1) : 0;
  if (structure_bytes > DC_STRUCTURE_BYTES_MAX) {
    return failure(DC_ERROR_RANGE, "the structure string is longer than %d bytes", DC_STRUCTURE_BYTES_MAX);
  }
  uint64_t position = sizeof(RecordHead);
  uint64_t total = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const dc_array &array = arrays[i];
    const size_t name_bytes = strnlen(array.name, sizeof array.name);
    if (name_bytes == sizeof array.name) return failure(DC_ERROR_ARGUMENT, "the name of array %u has no end", i);
    if (std::any_of(std::begin(array.reserved), std::end(array.reserved), [](uint8_t byte) { return byte != 0; })) {
      return failure(DC_ERROR_ARGUMENT, "array %u has something in its reserved bytes: set them to 0", i);
    }
    if (array.dimensions > DC_DIMENSIONS_MAX) {
      return failure(DC_ERROR_RANGE, "array %u has %u dimensions, at most %d are possible", i, array.dimensions,
                     DC_DIMENSIONS_MAX);
    }
    if (!array_bytes(array.dtype_bits, array.dtype_lanes, array.dimensions, array.shape, &plan->bytes[i])) {
      return failure(DC_ERROR_RANGE,
                     "array %u has a negative or too large dimension, or elements of %u bits times %u lanes", i,
                     array.dtype_bits, array.dtype_lanes);
    }
    if (add_overflows(total, plan->bytes[i], &total) || total > DC_SAMPLE_BYTES_MAX) {
      return failure(DC_ERROR_TOO_LARGE, "the sample has more than %lld bytes, the largest possible",
                     static_cast<long long>(DC_SAMPLE_BYTES_MAX));
    }
    position += sizeof(ArrayHead) + array.dimensions * sizeof(int64_t) + padded_name(name_bytes);
  }
  plan->array_count = count;
  plan->data_bytes = total;
  plan->structure_offset = position;
  plan->structure_bytes = static_cast<uint32_t>(structure_bytes);
  uint64_t offset = data_begin(position, plan->structure_bytes);
  for (uint32_t i = 0; i < count; ++i) {
    plan->offsets[i] = offset = round_up(offset, kDataAlignment);
    offset += plan->bytes[i];
  }
  plan->record_bytes = offset;
  return {};
}

void write_record(const RecordPlan &plan, const char *structure, uint8_t *record, dc_array *arrays) {
  const RecordHead head = {kRecordMagic, static_cast<uint16_t>(plan.array_count),
                           static_cast<uint16_t>(plan.structure_bytes), plan.record_bytes, 0};
  uint8_t *to = record;
  const auto append = [&to](const void *from, uint64_t bytes) {
    std::memcpy(to, from, bytes);
    to += bytes;
  };
  append(&head, sizeof head);
  for (uint32_t i = 0; i < plan.array_count; ++i) {
    dc_array &array = arrays[i];
    const size_t name_bytes = strnlen(array.name, sizeof array.name);
    const ArrayHead described = {array.dtype_code,
                                 array.dtype_bits,
                                 array.dtype_lanes,
                                 static_cast<uint8_t>(array.dimensions),
                                 static_cast<uint8_t>(name_bytes),
                                 0};
    append(&described, sizeof described);
    append(array.shape, array.dimensions * sizeof(int64_t));
    std::memset(to, 0, padded_name(name_bytes));
    std::memcpy(to, array.name, name_bytes);
    to += padded_name(name_bytes);
    array.data = record + plan.offsets[i];
    array.bytes = plan.bytes[i];
  }
  if (plan.structure_bytes) append(structure, plan.structure_bytes + 1);
}

bool glance_at_record(const uint8_t *record, uint64_t limit, RecordGlance *glance) {
  Reader reader(record, limit);
  if (!reader.sound() || !reader.next()) return false;
  const uint64_t first_bytes = reader.bytes();
  for (uint32_t i = 1; i < reader.head().array_count; ++i) {
    if (!reader.next()) return false;
  }
  const uint64_t begin = data_begin(reader.position(), reader.head().structure_bytes);
  const uint64_t record_bytes = reader.head().record_bytes;
  if (begin > record_bytes || first_bytes > record_bytes - begin) return false;
  *glance = {record, record + begin, first_bytes, record_bytes, reader.head().array_count};
  return true;
}

namespace {

// Walks over all descriptions, shows each to `visit`, and finds the data of arrays 0..last, which lie behind them.
template <typename Visit>
bool walk(Reader &reader, const uint8_t *record, uint32_t last, ArrayBytes *arrays, Visit &&visit) {
  if (!reader.sound() || last >= reader.head().array_count) return false;
  for (uint32_t i = 0; i < reader.head().array_count; ++i) {
    if (!reader.next()) return false;
    if (i <= last) arrays[i].bytes = reader.bytes();
    visit(i);
  }
  uint64_t offset = data_begin(reader.position(), reader.head().structure_bytes);
  for (uint32_t i = 0; i <= last; ++i) {
    offset = round_up(offset, kDataAlignment);
    if (offset > reader.head().record_bytes || arrays[i].bytes > reader.head().record_bytes - offset) return false;
    arrays[i].data = record + offset;
    offset += arrays[i].bytes;
  }
  return true;
}

}  // namespace

bool read_array(const uint8_t *record, uint64_t limit, uint32_t number, dc_array *array) {
  Reader reader(record, limit);
  std::array<ArrayBytes, DC_ARRAYS_MAX> found;
  const auto describe = [&](uint32_t i) {
    if (i != number) return;
    *array = {};
    array->dimensions = reader.array().dimensions;
    array->dtype_code = reader.array().dtype_code;
    array->dtype_bits = reader.array().dtype_bits;
    array->dtype_lanes = reader.array().dtype_lanes;
    std::copy_n(reader.shape(), array->dimensions, array->shape);
    std::memcpy(array->name, reader.name(), reader.array().name_bytes);
  };
  if (!walk(reader, record, number, found.data(), describe)) return false;
  array->data = const_cast<uint8_t *>(found[number].data);
  array->bytes = found[number].bytes;
  return true;
}

bool find_arrays(const uint8_t *record, uint64_t limit, uint32_t last, ArrayBytes *arrays) {
  Reader reader(record, limit);
  return walk(reader, record, last, arrays, [](uint32_t) {});
}

namespace {

// Whether a name has no NUL in it, and only such behind it.
bool is_padded_text(const uint8_t *text, uint64_t bytes) {
  const auto is_nul = [](uint8_t byte) { return byte == 0; };
  return std::none_of(text, text + bytes, is_nul) && std::all_of(text + bytes, text + padded_name(bytes), is_nul);
}

}  // namespace

bool inspect_record(const uint8_t *record, uint64_t limit, uint64_t *data_bytes) {
  Reader reader(record, limit);
  std::array<uint64_t, DC_ARRAYS_MAX> lengths;
  if (!reader.sound()) return false;
  for (uint32_t i = 0; i < reader.head().array_count; ++i) {
    if (!reader.next() || !is_padded_text(reader.name(), reader.array().name_bytes)) return false;
    lengths[i] = reader.bytes();
  }
  const uint64_t structure_bytes = reader.head().structure_bytes, record_bytes = reader.head().record_bytes;
  uint64_t end = data_begin(reader.position(), reader.head().structure_bytes);
  if (end > record_bytes) return false;
  if (structure_bytes > 0 &&
      strnlen(reinterpret_cast<const char *>(record) + reader.position(), structure_bytes + 1) != structure_bytes) {
    return false;
  }
  *data_bytes = 0;
  for (uint32_t i = 0; i < reader.head().array_count; ++i) {
    end = round_up(end, kDataAlignment);
    if (end > record_bytes || lengths[i] > record_bytes - end) return false;
    end += lengths[i];
    *data_bytes += lengths[i];
  }
  return end == record_bytes;
}

const char *read_structure(const uint8_t *record, uint64_t limit, uint64_t *bytes) {
  Reader reader(record, limit);
  if (!reader.sound() || reader.head().structure_bytes == 0) return nullptr;
  for (uint32_t i = 0; i < reader.head().array_count; ++i) {
    if (!reader.next()) return nullptr;
  }
  const uint64_t length = reader.head().structure_bytes;
  const uint8_t *text = record + reader.position();
  if (reader.position() + length >= reader.head().record_bytes || text[length] != 0) return nullptr;
  *bytes = length;
  return reinterpret_cast<const char *>(text);
}

bool sum_record(const uint8_t *record, uint64_t limit, int64_t index, RecordSums *sums) {
  RecordHead head;
  if (limit < sizeof head) return false;
  std::memcpy(&head, record, sizeof head);
  if (head.record_bytes < sizeof head || head.record_bytes > limit) return false;
  const uint64_t seed = hash64(&head, offsetof(RecordHead, checksum), static_cast<uint64_t>(index));
  const uint64_t sum = hash64(record + sizeof head, head.record_bytes - sizeof head, seed);
  *sums = {head.checksum, sum ? sum : 1};
  return true;
}

bool seal_record(uint8_t *record, uint64_t limit, int64_t index) {
  RecordSums sums;
  if (!sum_record(record, limit, index, &sums)) return false;
  std::memcpy(record + offsetof(RecordHead, checksum), &sums.actual, sizeof sums.actual);
  return true;
}

bool record_is_intact(const uint8_t *record, uint64_t limit, int64_t index) {
  RecordSums sums;
  return sum_record(record, limit, index, &sums) && sums.stored == sums.actual;
}

}  // namespace ddpcache
