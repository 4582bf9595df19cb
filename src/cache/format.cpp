#include "format.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "hash.hpp"
#include "integers.hpp"

namespace ddpcache {
namespace {

constexpr char kMagic[8] = {'d', 'd', 'p', 'c', 'a', 'c', 'h', 'e'};

// A step is its extents' words, then the extents, each part aligned to a line.
uint64_t words_bytes(uint64_t slots) { return round_up(slots * sizeof(Word), kLineBytes); }

SizeClass class_of_slots(uint64_t step_bytes, uint32_t slots) {
  const uint64_t first = words_bytes(slots);
  const uint64_t extent = first < step_bytes ? (step_bytes - first) / slots & ~(kLineBytes - 1) : 0;
  return {slots, first, extent};
}

// How large a step should be for its own sake: large enough that reserving one is rare and 4,096 of them cover the
// capacity, small enough that a cache has many.
uint64_t preferred_step(uint64_t capacity) {
  return std::max(ceil_div<uint64_t>(capacity, kStepsMax), std::min<uint64_t>(uint64_t{4} << 20, capacity / 64));
}

// All samples of one size: a step is cut so that nothing is left over but part of a page.
void plan_fixed(const Geometry &geometry, Layout *layout) {
  const uint64_t extent = round_up(geometry.sample_bytes, kLineBytes) + kFixedHeadBytes;
  // Rounded up, so that 4,096 steps still cover the capacity.
  const uint64_t wanted = ceil_div(preferred_step(geometry.capacity_bytes), extent + sizeof(Word));
  const uint64_t least = std::clamp<uint64_t>(wanted, 1, kSlotsMax);
  const uint64_t step = round_up(words_bytes(least) + least * extent, geometry.page_bytes);
  uint64_t slots = std::min<uint64_t>(kSlotsMax, (step - kLineBytes) / extent);
  while (words_bytes(slots) + slots * extent > step) --slots;
  layout->step_bytes = step;
  layout->classes = {{static_cast<uint32_t>(slots), words_bytes(slots), extent}};
}

// Samples of any size: classes of n extents a step, n = 1 2 3, 4 5 6 7, 8 10 12 14, 16 20 24 28, ...: four per
// doubling, and none leaves more than a line an extent unused in its step.
void plan_variable(const Geometry &geometry, Layout *layout) {
  const uint64_t largest = round_up(geometry.sample_bytes_max, kLineBytes) + kLargestHeadBytes + kLineBytes;
  layout->step_bytes = round_up(std::max(preferred_step(geometry.capacity_bytes), largest), geometry.page_bytes);
  for (uint32_t slots = 1, stride = 1; slots <= kSlotsMax; slots += stride) {
    if (slots >= 8 && (slots & (slots - 1)) == 0) stride = slots / 4;
    const SizeClass size_class = class_of_slots(layout->step_bytes, slots);
    if (size_class.extent_bytes < 2 * kLineBytes) break;
    if (!layout->classes.empty() && size_class.extent_bytes == layout->classes.back().extent_bytes) continue;
    layout->classes.push_back(size_class);
  }
  std::reverse(layout->classes.begin(), layout->classes.end());
}

}  // namespace

uint32_t Layout::class_for(uint64_t record_bytes) const {
  const auto fits = [](const SizeClass &c, uint64_t bytes) { return c.extent_bytes < bytes; };
  return static_cast<uint32_t>(std::lower_bound(classes.begin(), classes.end(), record_bytes, fits) - classes.begin());
}

Status check_geometry(const Geometry &geometry) {
  constexpr uint64_t kCapacityMax = uint64_t{1} << 56;
  const auto outside = [](const char *what, uint64_t value, uint64_t least, uint64_t most) {
    return failure(DC_ERROR_RANGE, "%s %lld is not in %llu..%llu", what, static_cast<long long>(value),
                   static_cast<unsigned long long>(least), static_cast<unsigned long long>(most));
  };
  if (geometry.length < 1 || geometry.length > DC_LENGTH_MAX) {
    return outside("length", static_cast<uint64_t>(geometry.length), 1, DC_LENGTH_MAX);
  }
  if (geometry.clients_max < 1 || geometry.clients_max > DC_CLIENTS_MAX) {
    return outside("clients_max", geometry.clients_max, 1, DC_CLIENTS_MAX);
  }
  if (geometry.droppable > 1) return outside("droppable", geometry.droppable, 0, 1);
  if (geometry.keyed > 1) return outside("keyed", geometry.keyed, 0, 1);
  if (geometry.checksums > DC_CHECKSUMS_READ) return outside("checksums", geometry.checksums, 0, DC_CHECKSUMS_READ);
  constexpr uint64_t kPageBytesMax = uint64_t{1} << 34;
  if (geometry.page_bytes < kPageBytes || geometry.page_bytes > kPageBytesMax ||
      !std::has_single_bit(geometry.page_bytes)) {
    return failure(DC_ERROR_RANGE, "the page size %llu is no power of 2 in %llu..%llu",
                   static_cast<unsigned long long>(geometry.page_bytes), static_cast<unsigned long long>(kPageBytes),
                   static_cast<unsigned long long>(kPageBytesMax));
  }
  if (geometry.capacity_bytes > kCapacityMax)
    return outside("capacity_bytes", geometry.capacity_bytes, 0, kCapacityMax);
  if (geometry.sample_bytes > DC_SAMPLE_BYTES_MAX) {
    return outside("sample_bytes", geometry.sample_bytes, 0, DC_SAMPLE_BYTES_MAX);
  }
  if (geometry.sample_bytes_max > DC_SAMPLE_BYTES_MAX) {
    return outside("sample_bytes_max", geometry.sample_bytes_max, 0, DC_SAMPLE_BYTES_MAX);
  }
  if (geometry.sample_bytes > 0 && geometry.sample_bytes_max > 0 &&
      geometry.sample_bytes != geometry.sample_bytes_max) {
    return failure(DC_ERROR_ARGUMENT, "sample_bytes %llu and sample_bytes_max %llu contradict each other: give one",
                   static_cast<unsigned long long>(geometry.sample_bytes),
                   static_cast<unsigned long long>(geometry.sample_bytes_max));
  }
  return {};
}

uint64_t default_sample_bytes_max(uint64_t sample_bytes, uint64_t capacity_bytes) {
  return sample_bytes > 0 ? sample_bytes : std::clamp<uint64_t>(capacity_bytes / 256, 1, DC_SAMPLE_BYTES_MAX);
}

Status plan_layout(const Geometry &geometry, Layout *layout) {
  if (Status status = check_geometry(geometry); !status.ok()) return status;
  if (geometry.sample_bytes_max == 0) return failure(DC_ERROR_RANGE, "sample_bytes_max is not resolved");
  *layout = Layout();
  geometry.sample_bytes > 0 ? plan_fixed(geometry, layout) : plan_variable(geometry, layout);
  layout->steps = static_cast<uint32_t>(std::min<uint64_t>(kStepsMax, geometry.capacity_bytes / layout->step_bytes));
  if (layout->steps == 0) {
    return failure(DC_ERROR_RANGE,
                   "capacity_bytes %llu is too small: the largest sample (%llu bytes) needs a step of %llu bytes",
                   static_cast<unsigned long long>(geometry.capacity_bytes),
                   static_cast<unsigned long long>(geometry.sample_bytes_max),
                   static_cast<unsigned long long>(layout->step_bytes));
  }
  layout->control_offset = kPageBytes;
  layout->clients_offset = layout->control_offset + kControlBytes;
  layout->reader_names_offset = layout->clients_offset + geometry.clients_max * sizeof(ClientRecord);
  const uint64_t reader_names = geometry.droppable ? geometry.clients_max * uint64_t{kReaderNames} : 0;
  layout->entries_offset = layout->reader_names_offset + reader_names * sizeof(Word);
  const uint64_t length = static_cast<uint64_t>(geometry.length);
  layout->keys_offset = round_up(layout->entries_offset + length * sizeof(Word), kLineBytes);
  const uint64_t keys = geometry.keyed ? length : 0;
  layout->steps_offset = round_up(layout->keys_offset + keys * sizeof(KeySlot), kLineBytes);
  layout->arena_offset = round_up(layout->steps_offset + layout->steps * sizeof(Word), geometry.page_bytes);
  layout->file_bytes = layout->arena_offset + layout->arena_bytes();
  return {};
}

uint64_t layout_hash() {
  const uint64_t facts[] = {sizeof(Header),
                            sizeof(ControlLine),
                            sizeof(ClassLine),
                            sizeof(ClientRecord),
                            sizeof(StatsLine),
                            sizeof(KeySlot),
                            kPageBytes,
                            kControlBytes,
                            kClassesMax,
                            kStatsLines,
                            kFixedHeadBytes,
                            kLargestHeadBytes,
                            kStepsMax,
                            kSlotsMax,
                            kReaderNames,
                            kGenerationBits,
                            kClientBits,
                            kEpochBits,
                            offsetof(ClientRecord, fills),
                            offsetof(ClientRecord, names),
                            offsetof(ClientRecord, stats)};
  return hash64(facts, sizeof facts, DC_FORMAT_VERSION);
}

void seal_header(Header *header) {
  std::memcpy(header->magic, kMagic, sizeof kMagic);
  header->format_version = DC_FORMAT_VERSION;
  header->header_bytes = sizeof(Header);
  header->layout_hash = layout_hash();
  header->checksum = hash64(header, offsetof(Header, checksum));
}

Status check_header(const Header &header, uint64_t file_bytes, const std::string &subject, Layout *layout) {
  const char *file = subject.c_str();
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) {
    return failure(DC_ERROR_DAMAGED, "%s does not begin as a cache does", file);
  }
  if (header.format_version != DC_FORMAT_VERSION) {
    return failure(DC_ERROR_FORMAT, "%s has format version %u, this library has %d", file, header.format_version,
                   DC_FORMAT_VERSION);
  }
  if (header.header_bytes != sizeof(Header) || header.layout_hash != layout_hash()) {
    return failure(DC_ERROR_FORMAT, "%s has layout %016llx, this library has %016llx", file,
                   static_cast<unsigned long long>(header.layout_hash), static_cast<unsigned long long>(layout_hash()));
  }
  if (header.checksum != hash64(&header, offsetof(Header, checksum))) {
    return failure(DC_ERROR_DAMAGED, "the header of %s does not have its checksum", file);
  }
  const auto ends = [](const char *text, size_t size) { return std::memchr(text, 0, size) != nullptr; };
  if (!ends(header.uuid, sizeof header.uuid) || !ends(header.name, sizeof header.name) ||
      header.fingerprint_bytes > DC_FINGERPRINT_BYTES_MAX || header.fingerprint[header.fingerprint_bytes] != '\0') {
    return failure(DC_ERROR_DAMAGED, "the header of %s has text without an end", file);
  }
  if (const Status status = plan_layout(header.geometry, layout); !status.ok()) {
    return failure(DC_ERROR_DAMAGED, "the header of %s is not possible: %s", file, status.message().c_str());
  }
  if (layout->file_bytes != file_bytes) {
    return failure(DC_ERROR_DAMAGED, "%s has %llu bytes, its header asks for %llu", file,
                   static_cast<unsigned long long>(file_bytes), static_cast<unsigned long long>(layout->file_bytes));
  }
  return {};
}

}  // namespace ddpcache
