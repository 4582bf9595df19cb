// The header: any one is refused or gives a layout in which everything lies where it should, computed in bounded time;
// and so are the options that one is made from.

#include <cstddef>

#include "cache.hpp"
#include "format.hpp"
#include "input.hpp"

using namespace ddpcache;
using namespace ddpcache::fuzz;

namespace {

void must_be_in_order(const Geometry &geometry, const Layout &layout) {
  const uint64_t length = static_cast<uint64_t>(geometry.length);
  DC_MUST(layout.control_offset >= sizeof(Header) && layout.clients_offset >= layout.control_offset + kControlBytes);
  DC_MUST(layout.reader_names_offset >= layout.clients_offset + geometry.clients_max * sizeof(ClientRecord));
  DC_MUST(layout.keys_offset >= layout.entries_offset + length * sizeof(Word));
  DC_MUST(layout.steps_offset >= layout.keys_offset + (geometry.keyed ? length * sizeof(KeySlot) : 0));
  DC_MUST(layout.arena_offset >= layout.steps_offset + layout.steps * sizeof(Word));
  DC_MUST(layout.file_bytes == layout.arena_offset + uint64_t{layout.steps} * layout.step_bytes);
  DC_MUST(layout.steps >= 1 && layout.steps <= kStepsMax && layout.arena_bytes() <= geometry.capacity_bytes);
  DC_MUST(layout.step_bytes % geometry.page_bytes == 0 && layout.arena_offset % geometry.page_bytes == 0);
  DC_MUST(!layout.classes.empty() && layout.classes.size() <= kClassesMax);
  uint64_t before = 0;
  for (const SizeClass &size_class : layout.classes) {
    DC_MUST(size_class.slots >= 1 && size_class.slots <= kSlotsMax && size_class.extent_bytes > before);
    DC_MUST(size_class.extent_bytes % kLineBytes == 0 && size_class.first_offset % kLineBytes == 0);
    DC_MUST(size_class.first_offset >= size_class.slots * sizeof(Word));
    DC_MUST(size_class.first_offset + size_class.slots * size_class.extent_bytes <= layout.step_bytes);
    before = size_class.extent_bytes;
  }
  DC_MUST(layout.class_for(layout.largest_record()) == layout.classes.size() - 1);
  DC_MUST(layout.class_for(layout.largest_record() + 1) == layout.classes.size());
}

void check(const Header &header, uint64_t file_bytes) {
  Layout layout;
  const Status status = check_header(header, file_bytes, "it", &layout);
  DC_MUST(status.ok() || status.code() == DC_ERROR_DAMAGED || status.code() == DC_ERROR_FORMAT);
  if (!status.ok()) return;
  DC_MUST(layout.file_bytes == file_bytes && strnlen(header.name, sizeof header.name) < sizeof header.name);
  must_be_in_order(header.geometry, layout);
}

Geometry some_geometry(Input &input) {
  Geometry geometry = {};
  geometry.length = input.signed_number();
  geometry.capacity_bytes = input.number();
  geometry.sample_bytes = input.coin() ? 0 : input.number();
  geometry.sample_bytes_max = input.coin() ? geometry.sample_bytes : input.number();
  geometry.clients_max = static_cast<uint32_t>(input.number());
  geometry.droppable = input.below(3);
  geometry.keyed = input.below(3);
  geometry.checksums = input.below(4);
  if (input.coin()) geometry.page_bytes = input.number();
  return geometry;
}

// A header that says so, sealed or not, of a file of the length that it asks for, or another.
void check_geometry_in_header(Input &input) {
  Header header;
  std::memset(static_cast<void *>(&header), 0, sizeof header);
  header.geometry = some_geometry(input);
  header.fingerprint_bytes = input.below(3) ? input.byte() : static_cast<uint32_t>(input.number());
  const bool spoilt = input.coin(), other_length = input.coin();
  if (spoilt) {
    uint8_t *bytes = reinterpret_cast<uint8_t *>(&header);
    bytes[input.take<uint16_t>() % sizeof header] ^= input.byte();
  }
  seal_header(&header);
  if (input.below(8) == 0) reinterpret_cast<uint8_t *>(&header)[input.take<uint16_t>() % sizeof header] ^= input.byte();
  Layout layout;
  const bool possible = plan_layout(header.geometry, &layout).ok();
  if (possible) must_be_in_order(header.geometry, layout);
  check(header, other_length || !possible ? input.number() : layout.file_bytes);
}

void check_bytes(Input &input) {
  Header header;
  std::memset(static_cast<void *>(&header), 0, sizeof header);
  const bool sealed = input.coin();
  const uint64_t file_bytes = input.number();
  const std::span<const uint8_t> bytes = input.bytes(sizeof header);
  if (!bytes.empty()) std::memcpy(static_cast<void *>(&header), bytes.data(), bytes.size());
  if (sealed) seal_header(&header);
  check(header, file_bytes);
}

// What an estimate promises is what a cache has.
void estimate(Input &input) {
  dc_cache_options options;
  dc_cache_options_init(&options, sizeof options);
  options.length = input.signed_number();
  options.sample_bytes = input.coin() ? 0 : input.number();
  options.sample_bytes_max = input.coin() ? 0 : input.number();
  options.clients_max = static_cast<uint32_t>(input.number());
  options.droppable = input.below(3);
  options.keyed = input.below(3);
  options.checksums = input.below(4);
  const uint64_t sample_bytes = input.number();
  uint64_t capacity = 0, total = 0;
  if (dc_cache_estimate(&options, sample_bytes, &capacity, &total, nullptr) != DC_OK) return;
  Geometry geometry = requested_geometry(options);
  geometry.capacity_bytes = capacity;
  if (geometry.sample_bytes_max == 0) {
    geometry.sample_bytes_max = default_sample_bytes_max(geometry.sample_bytes, capacity);
  }
  Layout layout;
  DC_MUST(plan_layout(geometry, &layout).ok() && layout.file_bytes == total);
  must_be_in_order(geometry, layout);
  DC_MUST(sample_bytes <= geometry.sample_bytes_max);
  const uint32_t size_class = layout.class_for(sample_bytes + kFixedHeadBytes);
  DC_MUST(size_class < layout.classes.size());
  DC_MUST(uint64_t{layout.steps} * layout.classes[size_class].slots >= static_cast<uint64_t>(options.length));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Input input(data, size);
  switch (input.below(3)) {
    case 0: check_geometry_in_header(input); break;
    case 1: check_bytes(input); break;
    default: estimate(input);
  }
  return 0;
}
