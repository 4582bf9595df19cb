// Records: any bytes are read within their bounds, or refused; and what a caller describes is written as it was meant.
#include "record.hpp"

#include <algorithm>
#include <memory>
#include <string>

#include "input.hpp"

using namespace ddpcache;
using namespace ddpcache::fuzz;

namespace {

constexpr uint64_t kLimitMax = 8192;

// Memory of exactly this size: what is read beyond is seen by AddressSanitizer.
struct Extent {
  explicit Extent(uint64_t size) : limit(size) {
    void *memory = nullptr;
    DC_MUST(posix_memalign(&memory, 64, size) == 0);
    bytes = static_cast<uint8_t *>(memory);
    std::memset(bytes, 0, size);
  }
  ~Extent() { std::free(bytes); }
  Extent(const Extent &) = delete;
  Extent &operator=(const Extent &) = delete;
  bool holds(const uint8_t *data, uint64_t count) const {
    return data >= bytes && data <= bytes + limit && count <= static_cast<uint64_t>(bytes + limit - data);
  }

  const uint64_t limit;
  uint8_t *bytes = nullptr;
};

void read_all(const Extent &extent) {
  RecordGlance glance;
  uint64_t data_bytes = 0, length = 0;
  const bool sound = glance_at_record(extent.bytes, extent.limit, &glance);
  const bool whole = inspect_record(extent.bytes, extent.limit, &data_bytes);
  DC_MUST(sound || !whole);
  if (sound) DC_MUST(extent.holds(glance.data, glance.bytes) && glance.record_bytes <= extent.limit);
  const uint32_t count = sound ? glance.array_count : DC_ARRAYS_MAX;
  uint64_t total = 0;
  std::array<ArrayBytes, DC_ARRAYS_MAX> arrays;
  for (uint32_t number = 0; number < count; ++number) {
    dc_array array = {};
    const bool found = read_array(extent.bytes, extent.limit, number, &array);
    DC_MUST(found == find_arrays(extent.bytes, extent.limit, number, arrays.data()));
    DC_MUST(found || !whole);
    if (!found) break;
    DC_MUST(extent.holds(array.data, array.bytes) && array.dimensions <= DC_DIMENSIONS_MAX);
    DC_MUST(array.data == arrays[number].data && array.bytes == arrays[number].bytes);
    DC_MUST(strnlen(array.name, sizeof array.name) < sizeof array.name);
    total += array.bytes;
  }
  DC_MUST(!whole || total == data_bytes);
  if (const char *text = read_structure(extent.bytes, extent.limit, &length)) {
    DC_MUST(extent.holds(reinterpret_cast<const uint8_t *>(text), length + 1) && text[length] == 0);
  }
  if (!seal_record(extent.bytes, extent.limit, 7)) return;
  DC_MUST(record_is_intact(extent.bytes, extent.limit, 7) && !record_is_intact(extent.bytes, extent.limit, 8));
}

// A record of the input's bytes, many of them with a head that is believed.
void read_bytes(Input &input) {
  Extent extent(1 + input.take<uint16_t>() % kLimitMax);
  const bool helped = input.coin() && extent.limit >= sizeof(RecordHead);
  const std::span<const uint8_t> bytes = input.bytes(extent.limit);
  if (!bytes.empty()) std::memcpy(extent.bytes, bytes.data(), bytes.size());
  if (helped) {
    RecordHead head;
    std::memcpy(&head, extent.bytes, sizeof head);
    head.magic = kRecordMagic;
    head.array_count = static_cast<uint16_t>(head.array_count % (DC_ARRAYS_MAX + 2));
    head.structure_bytes = static_cast<uint16_t>(head.structure_bytes % (DC_STRUCTURE_BYTES_MAX + 2));
    head.record_bytes %= extent.limit + 2;
    std::memcpy(extent.bytes, &head, sizeof head);
  }
  read_all(extent);
}

dc_array described(Input &input) {
  dc_array array = {};
  array.dimensions = input.below(11);
  for (int64_t &dimension : array.shape) {
    if (static_cast<uint32_t>(&dimension - array.shape) >= array.dimensions) break;
    dimension = input.coin() ? input.below(6) : input.signed_number();
  }
  array.dtype_code = input.byte();
  array.dtype_bits = input.coin() ? uint8_t{8} : input.byte();
  array.dtype_lanes = input.coin() ? uint16_t{1} : input.take<uint16_t>();
  const std::span<const uint8_t> name = input.bytes(input.below(sizeof array.name + 1));
  if (!name.empty()) std::memcpy(array.name, name.data(), name.size());
  if (input.below(64) == 0) array.reserved[input.below(sizeof array.reserved)] = input.byte();
  return array;
}

// What was written of a description is read back as it was; what cannot be is refused.
void write_and_read(Input &input) {
  std::array<dc_array, DC_ARRAYS_MAX + 1> arrays = {};
  const uint32_t count = input.below(DC_ARRAYS_MAX + 2);
  for (uint32_t i = 0; i < count && !input.empty(); ++i) arrays[i] = described(input);
  const std::string structure(input.below(4) == 0 ? input.take<uint16_t>() % (DC_STRUCTURE_BYTES_MAX + 2) : 0, 's');
  RecordPlan plan;
  const Status status = plan_record(arrays.data(), count, structure.c_str(), &plan);
  DC_MUST(status.ok() || status.code() < 0);
  if (!status.ok() || plan.record_bytes > 4 * kLimitMax) return;
  Extent extent(plan.record_bytes);
  const std::array<dc_array, DC_ARRAYS_MAX + 1> wanted = arrays;
  write_record(plan, structure.c_str(), extent.bytes, arrays.data());
  uint64_t data_bytes = 0, length = 0;
  DC_MUST(inspect_record(extent.bytes, extent.limit, &data_bytes) && data_bytes == plan.data_bytes);
  for (uint32_t i = 0; i < count; ++i) {
    dc_array array;
    DC_MUST(read_array(extent.bytes, extent.limit, i, &array));
    DC_MUST(array.data == arrays[i].data && array.bytes == arrays[i].bytes);
    DC_MUST(std::equal(array.shape, array.shape + array.dimensions, wanted[i].shape));
    DC_MUST(array.dimensions == wanted[i].dimensions && std::strcmp(array.name, wanted[i].name) == 0);
  }
  const char *text = read_structure(extent.bytes, extent.limit, &length);
  DC_MUST(structure.empty() ? text == nullptr : text && structure == text && length == structure.size());
  read_all(extent);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Input input(data, size);
  input.coin() ? write_and_read(input) : read_bytes(input);
  return 0;
}
