#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "cache.hpp"
#include "clock.hpp"
#include "integers.hpp"

namespace ddpcache {
namespace {

uint32_t clients_used(const Segment &segment) {
  return std::min(segment.control().clients_used.load(), segment.header.geometry.clients_max);
}

// The walk of dc_cache_check. Others go on meanwhile, so a word that looks wrong is wrong only if it is still the same
// after what it was compared with has been read.
class Checker {
 public:
  Checker(const Segment &segment, Clients &clients, dc_cache_report *report)
      : segment_(segment), clients_(clients), report_(report) {}

  Status run() {
    gather_clients();
    for (int64_t index = 0; index < segment_.header.geometry.length; ++index) check_entry(index);
    for (uint32_t step = 0; step < segment_.layout.steps; ++step) check_step(step);
    for (int64_t index = 0; segment_.keyed() && index < segment_.header.geometry.length; ++index) check_key(index);
    return report_->violations == 0 ? Status() : Status(DC_ERROR_DAMAGED, first_violation_);
  }

 private:
  [[gnu::format(printf, 2, 3)]] void violation(const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (report_->violations++ == 0) first_violation_ = text;
  }

  void gather_clients() {
    for (uint32_t number = 0; number < clients_used(segment_); ++number) {
      const ClientRecord &record = segment_.client(number);
      const ClientWord word(record.word.load());
      if (static_cast<uint64_t>(word.life()) > 2)
        violation("client %u is in no state: word %016lx", number, word.bits());
      if (word.life() == Life::free) continue;
      ++report_->clients;
      for (const Word &name : record.names) gather_name(number, name);
      const uint32_t readers = segment_.droppable() ? std::min(record.reader_names_used.load(), kReaderNames) : 0;
      for (uint32_t i = 0; i < readers; ++i) gather_name(number, segment_.reader_name(number, i));
    }
    std::sort(names_.begin(), names_.end());
  }

  void gather_name(uint32_t client, const Word &name) {
    const uint64_t named = name.load();
    if (named == 0) return;
    names_.push_back(named);
    Extent extent;
    if (!segment_.find_extent(place_of(named), &extent)) {
      violation("client %u names extent %u of step %u, which does not exist", client, place_of(named).slot,
                place_of(named).step);
    }
  }

  bool is_noted(ClientLife owner, int64_t index) const {
    const auto &fills = segment_.client(owner.client).fills;
    return std::any_of(fills.begin(), fills.end(), [&](const FillNote &note) {
      return note.index_plus_one.load() == static_cast<uint64_t>(index) + 1;
    });
  }

  void check_entry(int64_t index) {
    const Word &shared = segment_.entry(index);
    const EntryWord word(shared.load(std::memory_order_acquire));
    const char *fault = nullptr;
    char sums_text[128];
    switch (word.state()) {
      case State::empty: break;
      case State::bad: ++report_->entries_bad; break;
      case State::writing: {
        const bool known = word.owner().client < segment_.header.geometry.clients_max;
        const bool gone = clients_.is_gone(word.owner());
        ++(gone ? report_->entries_orphaned : report_->entries_writing);
        if (!known) fault = "is being filled by no client";
        if (!gone && !is_noted(word.owner(), index)) fault = "is being filled without a note of it";
        break;
      }
      case State::ready: {
        ++report_->entries_ready;
        report_->entries_unverified += word.is_unverified();
        Extent extent;
        RecordGlance glance;
        if (!segment_.find_extent(word.place(), &extent)) {
          fault = "leads outside the reserved arena";
        } else if (segment_.extent_word(word.place()).load() != ExtentWord::owned(index, word.generation()).bits()) {
          fault = "leads to an extent that is not its own";
        } else if (word.is_unverified()) {
          break;  // what it leads to is not believed anyway
        } else if (!glance_at_record(segment_.readable(extent), segment_.extent_bytes(extent), &glance)) {
          fault = "leads to a record that is not sound";
        } else if (!sum_is_right(index, extent, sums_text, sizeof sums_text)) {
          fault = sums_text;
        }
      }
    }
    // What was read of the record was read before this look at the entry.
    atomic_fence(std::memory_order_acquire);
    if (fault && shared.load() == word.bits()) {
      violation("entry %lld (word %016lx) %s", static_cast<long long>(index), word.bits(), fault);
    }
  }

  // A key that is found at its own slot is the first of its kind on the way from its home, and no free slot is before
  // it. What leads to a slot that holds a key can not change any more, so others who go on do not matter.
  void check_key(int64_t index) {
    const KeySlot &slot = segment_.key_slot(index);
    const uint64_t rest = slot.rest.load(std::memory_order_acquire);  // EDGE key
    const KeyHash key = {slot.tag.load(std::memory_order_relaxed), rest};
    if (rest == 0) {
      report_->keys_unfinished += key.tag != 0;
      return;
    }
    ++report_->keys;
    int64_t found = -1;
    const int32_t status = key.tag == 0 ? DC_MISS : segment_.keys().lookup(key, &found);
    if (status != DC_OK) {
      violation("the key of index %lld (words %016lx %016lx) is not to be found", static_cast<long long>(index),
                key.tag, key.rest);
    } else if (found != index) {
      violation("the key of index %lld (words %016lx %016lx) has index %lld too", static_cast<long long>(index),
                key.tag, key.rest, static_cast<long long>(found));
    }
  }

  // A checksum is compared wherever there is one.
  bool sum_is_right(int64_t index, const Extent &extent, char *text, size_t room) const {
    const uint8_t *record = segment_.readable(extent);
    const bool sealed = reinterpret_cast<const RecordHead *>(record)->checksum != 0;
    if (!sealed && !segment_.seals_records()) return true;
    RecordSums sums = {};
    if (sum_record(record, segment_.extent_bytes(extent), index, &sums) && sums.stored == sums.actual) return true;
    std::snprintf(text, room, "leads to a record with the checksum %016lx, whose bytes have %016lx", sums.stored,
                  sums.actual);
    return false;
  }

  void check_step(uint32_t step) {
    const uint64_t word = segment_.step_word(step).load();
    if (word == 0) return;
    ++report_->steps_reserved;
    if (word > segment_.layout.classes.size()) {
      violation("step %u is of size class %lu, of %zu", step, word, segment_.layout.classes.size());
      return;
    }
    for (uint32_t slot = 0; slot < segment_.layout.classes[word - 1].slots; ++slot) check_extent({step, slot});
  }

  void check_extent(Place place) {
    const Word &shared = segment_.extent_word(place);
    const ExtentWord word(shared.load(std::memory_order_acquire));
    if (word.never_owned()) {
      ++report_->extents_free;
      return;
    }
    if (!segment_.valid_index(word.index())) {
      violation("extent %u of step %u belongs to entry %lld, which does not exist", place.slot, place.step,
                static_cast<long long>(word.index()));
      return;
    }
    const Word &entry_word = segment_.entry(word.index());
    const EntryWord entry(entry_word.load());
    if (entry.generation() != word.generation() || entry.state() == State::empty) {
      // A name of a client that is provably dead is none.
      const bool named = std::binary_search(names_.begin(), names_.end(), name_of(place)) && clients_.is_named(place);
      ++(named ? report_->extents_named : report_->extents_free);
      return;
    }
    ++report_->extents_owned;
    const bool elsewhere = entry.state() == State::ready && entry.place() != place;
    if (elsewhere && entry_word.load() == entry.bits() && shared.load() == word.bits()) {
      violation("extent %u of step %u belongs to entry %lld, which is stored elsewhere", place.slot, place.step,
                static_cast<long long>(word.index()));
    }
  }

  const Segment &segment_;
  Clients &clients_;
  dc_cache_report *report_;
  std::vector<uint64_t> names_;
  std::string first_violation_;
};

}  // namespace

void Cache::info(dc_cache_info *info) {
  const Header &header = segment_.header;
  info->format_version = header.format_version;
  info->length = header.geometry.length;
  info->capacity_bytes = segment_.layout.arena_bytes();
  info->sample_bytes = header.geometry.sample_bytes;
  info->sample_bytes_max = header.geometry.sample_bytes_max;
  info->step_bytes = segment_.layout.step_bytes;
  info->steps = segment_.layout.steps;
  info->file_bytes = segment_.layout.file_bytes;
  info->control_bytes = segment_.layout.arena_offset;
  info->job_id = header.job_id;
  info->created_unix_ns = header.created_unix_ns;
  info->creator_pid = header.creator_pid;
  info->clients_max = header.geometry.clients_max;
  info->clients_attached = 0;
  for (uint32_t number = 0; number < clients_used(segment_); ++number) {
    info->clients_attached += ClientWord(segment_.client(number).word.load()).life() == Life::live;
  }
  info->created = origin_.created;
  info->adopted = origin_.adopted;
  info->droppable = header.geometry.droppable;
  info->keyed = header.geometry.keyed;
  info->keys = segment_.control().keys.load(std::memory_order_relaxed);  // a count for people
  info->keep = segment_.control().keep.load();
  info->read_only = segment_.read_only();
  info->numa_nodes = interleaved_nodes(segment_.readable_arena());
  info->page_bytes = header.geometry.page_bytes;
  if (header.geometry.huge_pages != 0) {
    for (const uint8_t *arena : {segment_.readable_arena(), static_cast<const uint8_t *>(segment_.arena())}) {
      info->page_bytes = std::max(info->page_bytes, largest_page(arena, segment_.layout.arena_bytes()));
    }
  }
  info->checksums = header.geometry.checksums;
  std::memcpy(info->uuid, header.uuid, sizeof info->uuid);
  std::memcpy(info->name, header.name, sizeof info->name);
  std::memcpy(info->fingerprint, header.fingerprint, sizeof info->fingerprint);
}

void Cache::stats(int32_t scope, dc_cache_stats *stats) {
  clients_.generation();
  const auto total = [this](Counter counter) {
    uint64_t sum = 0;
    for (uint32_t number = 0; number < clients_used(segment_); ++number) {
      sum += counted(segment_.client(number), counter);
    }
    return sum;
  };
  const auto wanted = [&](Counter counter) {
    if (scope == DC_STATS_CACHE) return total(counter);
    const ClientRecord *own = clients_.record();
    return own ? counted(*own, counter) - clients_.baseline(counter) : 0;
  };
  stats->hits = wanted(Counter::hits);
  stats->misses = wanted(Counter::misses);
  stats->fills = wanted(Counter::fills);
  stats->aborts = wanted(Counter::aborts);
  stats->waits = wanted(Counter::waits);
  stats->timeouts = wanted(Counter::timeouts);
  stats->bypasses = wanted(Counter::bypasses);
  stats->takeovers = wanted(Counter::takeovers);
  stats->bytes_filled = wanted(Counter::bytes_filled);
  stats->bytes_copied = wanted(Counter::bytes_copied);
  stats->removed = wanted(Counter::removed);
  stats->damaged = wanted(Counter::bad);
  const uint64_t filled = total(Counter::fills), gone = total(Counter::bad) + total(Counter::removed);
  stats->resident = filled - std::min(filled, gone);
  stats->reserved_bytes = 0;
  struct stat properties;
  const int fd = clients_.checked_fd();
  if (fd >= 0 && fstat(fd, &properties) == 0) stats->reserved_bytes = static_cast<uint64_t>(properties.st_blocks) * 512;

  stats->open_fills = 0;
  stats->oldest_fill_age_ns = 0;
  const int64_t now = now_ns();
  for (uint32_t number = 0; number < clients_used(segment_); ++number) {
    const ClientRecord &record = segment_.client(number);
    if (ClientWord(record.word.load()).life() != Life::live) continue;
    for (const FillNote &note : record.fills) {
      if (note.index_plus_one.load() == 0) continue;
      ++stats->open_fills;
      stats->oldest_fill_age_ns = std::max(stats->oldest_fill_age_ns, now - note.since_ns.load());
    }
  }
}

Status Cache::check(dc_cache_report *report) {
  clients_.generation();
  return Checker(segment_, clients_, report).run();
}

Status estimate(const dc_cache_options &options, uint64_t sample_bytes, uint64_t *capacity, uint64_t *total) {
  Geometry geometry = requested_geometry(options);
  geometry.capacity_bytes = 0;
  if (Status status = check_geometry(geometry); !status.ok()) return status;
  const uint64_t largest = options.sample_bytes ? options.sample_bytes : options.sample_bytes_max;
  if (sample_bytes > (largest ? largest : DC_SAMPLE_BYTES_MAX)) {
    return failure(DC_ERROR_TOO_LARGE, "a sample of %llu bytes is larger than the largest allowed, %llu",
                   static_cast<unsigned long long>(sample_bytes),
                   static_cast<unsigned long long>(largest ? largest : DC_SAMPLE_BYTES_MAX));
  }
  const uint64_t record_bytes = round_up(sample_bytes, kLineBytes) + kFixedHeadBytes;
  const uint64_t length = static_cast<uint64_t>(options.length);
  uint64_t wanted = 0;
  if (multiply_overflows(record_bytes, length, &wanted)) {
    return failure(DC_ERROR_RANGE, "%llu samples of %llu bytes are more than any machine holds",
                   static_cast<unsigned long long>(length), static_cast<unsigned long long>(sample_bytes));
  }
  // How a step is cut depends on the capacity, so the answer is approached from below; each round raises it.
  while (true) {
    geometry.capacity_bytes = wanted;
    geometry.sample_bytes_max =
        options.sample_bytes_max ? options.sample_bytes_max : default_sample_bytes_max(options.sample_bytes, wanted);
    if (geometry.sample_bytes_max < sample_bytes) {
      wanted = 256 * sample_bytes;  // of which the default largest sample is one 256th
      continue;
    }
    Layout layout;
    const Status status = plan_layout(geometry, &layout);
    if (layout.step_bytes > wanted) {
      wanted = layout.step_bytes;
      continue;
    }
    if (!status.ok()) return status;
    const uint64_t slots = layout.classes[layout.class_for(record_bytes)].slots;
    if (ceil_div(length, slots) <= layout.steps) {
      *capacity = wanted;
      *total = layout.file_bytes;
      return {};
    }
    wanted = std::max(wanted + wanted / 64 + kPageBytes, ceil_div(length, slots) * layout.step_bytes);
  }
}

}  // namespace ddpcache
