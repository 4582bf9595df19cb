#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "cache.hpp"
#include "fault.hpp"
#include "integers.hpp"

namespace ddpcache {

Status Cache::check_index(int64_t index) const {
  if (segment_.valid_index(index)) return {};
  return failure(DC_ERROR_RANGE, "index %lld is not in 0..%lld", static_cast<long long>(index),
                 static_cast<long long>(segment_.header.geometry.length - 1));
}

Status Cache::glance(int64_t index, EntryWord word, RecordGlance *glance) {
  Extent extent;
  if (segment_.find_extent(word.place(), &extent)) {
    const uint8_t *record = segment_.readable(extent);
    __builtin_prefetch(record + kLineBytes);  // the data, while the head is on its way
    if (glance_at_record(record, segment_.extent_bytes(extent), glance)) return {};
  }
  // Nothing that a correct client does leads here. Relaxed on failure: another reader found the same.
  uint64_t seen = word.bits();
  if (segment_.entry(index).compare_exchange_strong(seen, word.as_bad().bits(), std::memory_order_acq_rel,
                                                    std::memory_order_relaxed)) {
    tally(Counter::bad);
  }
  return DC_MISS;
}

Status Cache::find(int64_t index, Pin *pin, RecordGlance *found) {
  const Word &shared = segment_.entry(index);
  // EDGE publish: what READY leads to is complete. In a cache that never drops, it also stays: no name is needed.
  EntryWord word(shared.load(std::memory_order_acquire));
  if (!segment_.droppable()) return word.state() == State::ready ? glance(index, word, found) : Status(DC_MISS);
  // Bounded: each further round, of three at most, has seen the sample dropped and filled anew.
  for (int round = 0; round < 3 && word.state() == State::ready; ++round) {
    DC_FAULT_POINT("reader-looked");
    if (!pin->name(index, word.place())) return DC_MISS;
    const EntryWord still(shared.load());  // EDGE name
    if (still == word) return glance(index, word, found);
    word = still;
  }
  return DC_MISS;
}

Status Cache::look(int64_t index, dc_view *view) {
  const uint32_t generation = clients_.generation();
  Pin pin(*this);
  RecordGlance found;
  if (Status status = find(index, &pin, &found); !status.ok()) return status;
  clients_.add_view();
  view->data = found.data;
  view->bytes = found.bytes;
  view->index = index;
  view->array_count = found.array_count;
  view->slot = generation;
  view->record = found.record;
  view->record_bytes = found.record_bytes;
  view->owner = reinterpret_cast<dc_cache *>(this);
  view->reserved = pin.release();
  return {};
}

Status Cache::view(int64_t index, dc_view *view) {
  view->owner = nullptr;
  if (Status status = check_index(index); !status.ok()) return status;
  Status status = look(index, view);
  tally(status.ok() ? Counter::hits : Counter::misses);
  return status;
}

void Cache::release(dc_view *view) {
  Cache *cache = reinterpret_cast<Cache *>(view->owner);
  const dc_view released = *view;
  *view = {};
  // A view that was taken before a fork is the parent's, and so are its count and its name.
  if (!cache || released.slot != fork_generation()) return;
  if (released.reserved != Pin::kNone) cache->unpin(released.index, static_cast<uint32_t>(released.reserved));
  if (cache->clients_.drop_view()) delete cache;
}

Status Cache::contains(int64_t index) const {
  if (Status status = check_index(index); !status.ok()) return status;
  const EntryWord word(segment_.entry(index).load(std::memory_order_relaxed));  // nothing is read through it
  return word.state() == State::ready ? DC_OK : DC_MISS;
}

Status Cache::residency(int64_t first, int64_t count, uint8_t *bitmap) const {
  const int64_t length = segment_.header.geometry.length;
  if (first < 0 || count < 0 || first > length || count > length - first) {
    return failure(DC_ERROR_RANGE, "entries %lld + %lld are not within the length %lld", static_cast<long long>(first),
                   static_cast<long long>(count), static_cast<long long>(length));
  }
  if (count == 0) return {};
  std::memset(bitmap, 0, static_cast<size_t>(count / 8 + (count % 8 != 0)));
  for (int64_t i = 0; i < count; ++i) {
    const EntryWord word(segment_.entry(first + i).load(std::memory_order_relaxed));  // as in contains
    if (word.state() == State::ready) bitmap[i / 8] = static_cast<uint8_t>(bitmap[i / 8] | 1u << (i % 8));
  }
  return {};
}

// Copies one array; with `exact`, only where it has just `room` bytes.
Status Cache::copy_array(int64_t index, Pin *pin, uint32_t number, uint8_t *buffer, uint64_t room, bool exact,
                         uint64_t *bytes) {
  RecordGlance found;
  if (Status status = find(index, pin, &found); !status.ok()) return status;
  const uint8_t *data = found.data;
  *bytes = found.bytes;
  if (number > 0 && !find_array(found.record, found.record_bytes, number, &data, bytes)) {
    return failure(DC_ERROR_RECORD, "the sample at index %lld has %u arrays, there is no array %u",
                   static_cast<long long>(index), found.array_count, number);
  }
  if (exact && *bytes != room) {
    return failure(DC_ERROR_RECORD, "array %u of the sample at index %lld has %llu bytes, not %llu", number,
                   static_cast<long long>(index), static_cast<unsigned long long>(*bytes),
                   static_cast<unsigned long long>(room));
  }
  if (*bytes > room) return DC_ERROR_BUFFER;
  if (*bytes > 0) std::memcpy(buffer, data, *bytes);
  return {};
}

Status Cache::read(int64_t index, uint32_t number, uint8_t *buffer, uint64_t buffer_bytes, uint64_t *bytes) {
  if (Status status = check_index(index); !status.ok()) return status;
  clients_.generation();
  uint64_t length = 0;
  Pin pin(*this);
  Status status = copy_array(index, &pin, number, buffer, buffer_bytes, false, &length);
  tally(status.code() == DC_MISS ? Counter::misses : Counter::hits);
  if (status.ok()) tally(Counter::bytes_copied, length);
  if (bytes) *bytes = length;
  return status;
}

// One thread's part of a batch: samples first..last-1.
void Cache::copy_share(const int64_t *indices, int64_t first, int64_t last, uint32_t number, uint8_t *buffer,
                       uint64_t sample_bytes, int32_t *statuses) {
  Pin pin(*this);
  uint64_t hits = 0, misses = 0, copied = 0;
  for (int64_t i = first; i < last; ++i) {
    int32_t code = DC_ERROR_RANGE;
    if (segment_.valid_index(indices[i])) {
      uint64_t bytes = 0;
      code = copy_array(indices[i], &pin, number, buffer + static_cast<uint64_t>(i) * sample_bytes, sample_bytes, true,
                        &bytes)
                 .code();
      code == DC_MISS ? ++misses : ++hits;
      if (code == DC_OK) copied += bytes;
    }
    statuses[i] = code;
  }
  tally(Counter::hits, hits);
  tally(Counter::misses, misses);
  tally(Counter::bytes_copied, copied);
}

Status Cache::read_batch(const int64_t *indices, int64_t count, uint32_t number, uint8_t *buffer, uint64_t sample_bytes,
                         int32_t *statuses, uint32_t threads) {
  clients_.generation();
  std::vector<int32_t> own;
  if (!statuses) {
    own.resize(static_cast<size_t>(count));
    statuses = own.data();
  }
  const int64_t shares = std::clamp<int64_t>(threads, 1, std::max<int64_t>(1, count));
  const auto share = [&](int64_t s) {
    copy_share(indices, s * count / shares, (s + 1) * count / shares, number, buffer, sample_bytes, statuses);
  };
  std::vector<std::jthread> helpers;
  int64_t started = 1;
  try {
    for (; started < shares; ++started) helpers.emplace_back(share, started);
  } catch (const std::system_error &) {
    // No further thread is to be had: this one copies what is left.
  }
  share(0);
  for (int64_t s = started; s < shares; ++s) share(s);
  helpers.clear();
  int32_t worst = DC_OK;
  for (int64_t i = 0; i < count && worst >= 0; ++i) {
    if (statuses[i] < 0 || worst == DC_OK) worst = statuses[i];
  }
  return worst;
}

}  // namespace ddpcache
