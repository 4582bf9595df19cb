// Copying samples out, one or a batch, and describing them.
#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <thread>
#include <vector>

#include "cache.hpp"
#include "hash.hpp"
#include "signals.hpp"

namespace ddpcache {
namespace {

// Starting a thread and waiting for its end takes as long as copying some hundred kilobytes: see decision 080.
constexpr uint64_t kBytesPerThread = 1 << 20;
// A thread takes its part in as many blocks, where there are samples enough: large ones and misses lie anywhere.
constexpr int64_t kBlocksPerThread = 8;

// How many samples ahead an entry's word is fetched, and then the description that it leads to: far enough for memory
// to answer while a few KiB are copied, near enough to be still in a core's cache when samples have some 100 KB.
constexpr int64_t kEntriesAhead = 6;
constexpr int64_t kDescriptionsAhead = 3;

uint64_t place_bytes(const dc_gather &part, int64_t i) {
  return part.offsets ? static_cast<uint64_t>(part.offsets[i + 1] - part.offsets[i]) : part.sample_bytes;
}

uint8_t *place(const dc_gather &part, int64_t i) {
  return part.buffer +
         (part.offsets ? static_cast<uint64_t>(part.offsets[i]) : static_cast<uint64_t>(i) * part.sample_bytes);
}

uint64_t total_bytes(const Batch &batch) {
  uint64_t total = 0;
  for (const dc_gather &part : batch.parts) {
    total += part.offsets ? static_cast<uint64_t>(part.offsets[batch.count] - part.offsets[0])
                          : static_cast<uint64_t>(batch.count) * part.sample_bytes;
  }
  return total;
}

// The first status that is not DC_OK, errors before DC_MISS.
int32_t worst_of(std::span<const int32_t> statuses) {
  int32_t worst = DC_OK;
  for (size_t i = 0; i < statuses.size() && worst >= 0; ++i) {
    if (statuses[i] < 0 || worst == DC_OK) worst = statuses[i];
  }
  return worst;
}

}  // namespace

// Hints only: nothing is read through the word, so it needs no name and may be stale.
void Cache::look_ahead(std::span<const int64_t> indices, int64_t i) const {
  const int64_t count = static_cast<int64_t>(indices.size());
  const auto valid = [&](int64_t at) { return at < count && segment_.valid_index(indices[static_cast<size_t>(at)]); };
  if (const int64_t at = i + kEntriesAhead; valid(at)) {
    __builtin_prefetch(&segment_.entry(indices[static_cast<size_t>(at)]));
  }
  if (const int64_t at = i + kDescriptionsAhead; valid(at)) {
    const EntryWord word(segment_.entry(indices[static_cast<size_t>(at)]).load(std::memory_order_relaxed));
    Extent extent;
    if (word.state() == State::ready && segment_.find_extent(word.place(), &extent)) {
      __builtin_prefetch(segment_.readable(extent));
    }
  }
}

Status Cache::locate(int64_t index, uint32_t last, Pin *pin, Located *found) {
  RecordGlance &glance = found->glance;
  if (Status status = find(index, pin, &glance); !status.ok()) return status;
  found->arrays[0] = {glance.data, glance.bytes};
  last = std::min(last, glance.array_count - 1);
  if (last == 0 || find_arrays(glance.record, glance.record_bytes, last, found->arrays.data())) return {};
  return DC_ERROR_RECORD;  // without a sentence, which a thread of a batch would have to allocate
}

Status Cache::read(int64_t index, uint32_t number, uint8_t *buffer, uint64_t buffer_bytes, uint64_t *bytes) {
  if (Status status = check_index(index); !status.ok()) return status;
  clients_.generation();
  Pin pin(*this);
  Located found;
  Status status = locate(index, number, &pin, &found);
  tally(status.code() == DC_MISS ? Counter::misses : Counter::hits);
  if (bytes) *bytes = 0;
  if (!status.ok()) return status;
  if (number >= found.glance.array_count) {
    return failure(DC_ERROR_RECORD, "the sample at index %lld has %u arrays, there is no array %u",
                   static_cast<long long>(index), found.glance.array_count, number);
  }
  const ArrayBytes &array = found.arrays[number];
  if (bytes) *bytes = array.bytes;
  if (array.bytes > buffer_bytes) return DC_ERROR_BUFFER;
  if (array.bytes > 0) std::memcpy(buffer, array.data, array.bytes);
  tally(Counter::bytes_copied, array.bytes);
  return {};
}

// The sizes of all parts are compared before the first is copied.
int32_t Cache::copy_sample(const Batch &batch, int64_t i, Pin *pin, uint64_t *copied) {
  uint32_t last = 0;
  for (const dc_gather &part : batch.parts) last = std::max(last, part.number);
  Located found;
  if (Status status = locate(batch.indices[i], last, pin, &found); !status.ok()) return status.code();
  for (const dc_gather &part : batch.parts) {
    if (part.number >= found.glance.array_count || found.arrays[part.number].bytes != place_bytes(part, i)) {
      return DC_ERROR_RECORD;
    }
  }
  for (const dc_gather &part : batch.parts) {
    const ArrayBytes &array = found.arrays[part.number];
    if (array.bytes > 0) std::memcpy(place(part, i), array.data, array.bytes);
    *copied += array.bytes;
  }
  return DC_OK;
}

void Cache::copy_blocks(const Batch &batch, int64_t block, Atomic<int64_t> *next) {
  Pin pin(*this);
  uint64_t hits = 0, misses = 0, copied = 0;
  for (int64_t first; (first = next->fetch_add(block, std::memory_order_relaxed)) < batch.count;) {
    for (int64_t i = first; i < std::min(first + block, batch.count); ++i) {
      look_ahead({batch.indices, static_cast<size_t>(batch.count)}, i);
      batch.statuses[i] = DC_ERROR_RANGE;
      if (!segment_.valid_index(batch.indices[i])) continue;
      try {
        batch.statuses[i] = copy_sample(batch, i, &pin, &copied);
      } catch (const std::bad_alloc &) {
        batch.statuses[i] = DC_ERROR_NO_MEMORY;  // for a read-only client's own copy; nobody catches it on this thread
      }
      batch.statuses[i] == DC_MISS ? ++misses : ++hits;
    }
  }
  tally(Counter::hits, hits);
  tally(Counter::misses, misses);
  tally(Counter::bytes_copied, copied);
}

Status Cache::gather(Batch batch, uint32_t threads) {
  clients_.generation();
  std::vector<int32_t> own;
  if (!batch.statuses) {
    own.resize(static_cast<size_t>(batch.count));
    batch.statuses = own.data();
  }
  const uint64_t useful = std::min(total_bytes(batch) / kBytesPerThread, static_cast<uint64_t>(batch.count));
  const int64_t workers = static_cast<int64_t>(std::clamp<uint64_t>(useful, 1, std::max(1u, threads)));
  const int64_t block = workers == 1 ? batch.count : std::max<int64_t>(1, batch.count / (workers * kBlocksPerThread));
  Atomic<int64_t> next{0};
  std::vector<std::jthread> helpers;
  if (workers > 1) {
    const SignalsBlocked blocked;
    try {
      for (int64_t i = 1; i < workers; ++i) helpers.emplace_back([&] { copy_blocks(batch, block, &next); });
    } catch (const std::exception &) {
      // No further thread, or no memory for one, is to be had: those there are copy all.
    }
  }
  copy_blocks(batch, std::max<int64_t>(1, block), &next);
  helpers.clear();
  return worst_of({batch.statuses, static_cast<size_t>(batch.count)});
}

int32_t Cache::describe(int64_t index, uint32_t number, Pin *pin, dc_array *description, uint32_t *array_count,
                        uint64_t *structure) {
  RecordGlance found;
  if (Status status = find(index, pin, &found); !status.ok()) return status.code();
  dc_array array;
  const bool sound = number < found.array_count && read_array(found.record, found.record_bytes, number, &array);
  uint64_t bytes = 0;
  const char *text = structure ? read_structure(found.record, found.record_bytes, &bytes) : nullptr;
  if (text) *structure = std::max<uint64_t>(1, hash64(text, bytes));
  if (array_count) *array_count = found.array_count;
  if (!sound) return DC_ERROR_RECORD;
  array.data = nullptr;  // nothing is held
  if (description) *description = array;
  return DC_OK;
}

Status Cache::describe_batch(const int64_t *indices, int64_t count, uint32_t number, dc_array *descriptions,
                             uint32_t *array_counts, uint64_t *structures, int32_t *statuses) {
  clients_.generation();
  Pin pin(*this);
  int32_t worst = DC_OK;
  for (int64_t i = 0; i < count; ++i) {
    look_ahead({indices, static_cast<size_t>(count)}, i);
    uint32_t array_count = 0;
    uint64_t structure = 0;
    const int32_t status = segment_.valid_index(indices[i])
                               ? describe(indices[i], number, &pin, descriptions ? &descriptions[i] : nullptr,
                                          &array_count, structures ? &structure : nullptr)
                               : DC_ERROR_RANGE;
    if (array_counts) array_counts[i] = array_count;
    if (structures) structures[i] = structure;
    if (statuses) statuses[i] = status;
    if (worst == DC_OK || (worst > 0 && status < 0)) worst = status;
  }
  return worst;
}

Status Cache::structure(int64_t index, uint8_t *buffer, uint64_t buffer_bytes, uint64_t *bytes) {
  if (Status status = check_index(index); !status.ok()) return status;
  clients_.generation();
  Pin pin(*this);
  RecordGlance found;
  *bytes = 0;
  if (Status status = find(index, &pin, &found); !status.ok()) return status;
  const char *text = read_structure(found.record, found.record_bytes, bytes);
  if (*bytes > buffer_bytes) return DC_ERROR_BUFFER;
  if (text) std::memcpy(buffer, text, *bytes);
  return {};
}

}  // namespace ddpcache
