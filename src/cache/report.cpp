#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "cache.hpp"
#include "checker.hpp"
#include "clock.hpp"
#include "integers.hpp"
#include "space.hpp"

namespace ddpcache {
namespace {

uint32_t clients_used(const Segment &segment) {
  return std::min(segment.control().clients_used.load(std::memory_order_relaxed), segment.header.geometry.clients_max);
}

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
    info->clients_attached +=
        ClientWord(segment_.client(number).word.load(std::memory_order_relaxed)).life() == Life::live;
  }
  info->created = origin_.created;
  info->adopted = origin_.adopted;
  info->droppable = header.geometry.droppable;
  info->keyed = header.geometry.keyed;
  info->keys = segment_.control().keys.load(std::memory_order_relaxed);  // a count for people
  info->keep = segment_.control().keep.load(std::memory_order_relaxed);
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
  stats->reserved_bytes = reserved_bytes(clients_.checked_fd());

  stats->open_fills = 0;
  stats->oldest_fill_age_ns = 0;
  const int64_t now = now_ns();
  for (uint32_t number = 0; number < clients_used(segment_); ++number) {
    const ClientRecord &record = segment_.client(number);
    if (ClientWord(record.word.load(std::memory_order_relaxed)).life() != Life::live) continue;
    for (const FillNote &note : record.fills) {
      if (note.index_plus_one.load(std::memory_order_relaxed) == 0) continue;
      ++stats->open_fills;
      stats->oldest_fill_age_ns =
          std::max(stats->oldest_fill_age_ns, age_ns(now, note.since_ns.load(std::memory_order_relaxed)));
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
