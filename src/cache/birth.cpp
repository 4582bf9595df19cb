#include "birth.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "cache.hpp"
#include "fault.hpp"
#include "process.hpp"
#include "space.hpp"
#include "trust.hpp"

namespace ddpcache {
namespace {

std::string random_uuid() {
  uint8_t b[16];
  if (getrandom(b, sizeof b, 0) != sizeof b) return "";
  b[6] = static_cast<uint8_t>((b[6] & 0x0F) | 0x40);  // RFC 9562, version 4
  b[8] = static_cast<uint8_t>((b[8] & 0x3F) | 0x80);
  char text[40];
  std::snprintf(text, sizeof text, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
                b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
  return text;
}

int64_t unix_now_ns() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

Status no_space(const Birth &birth, uint64_t needed, const Space &space) {
  return failure(DC_ERROR_NO_SPACE,
                 "a cache at %s needs %s, but %s: ask for a smaller capacity, allow a partial cache, or %s",
                 birth.subject.c_str(), readable_bytes(needed).c_str(), space.described().c_str(), space.remedy());
}

// Decides capacity and layout by what is free.
Status fit(const Birth &birth, const Space &space, Geometry *geometry, Layout *layout) {
  const uint64_t available = space.available();
  if (geometry->capacity_bytes == 0) geometry->capacity_bytes = available / 2;
  const bool automatic = geometry->sample_bytes_max == 0;
  for (bool reduced = false;; reduced = true) {
    if (automatic) {
      geometry->sample_bytes_max = default_sample_bytes_max(geometry->sample_bytes, geometry->capacity_bytes);
    }
    if (Status status = plan_layout(*geometry, layout); !status.ok()) {
      // A capacity that the caller did not name is too small for want of space, and for no fault of his.
      const bool ours = reduced || birth.options.capacity_bytes == 0;
      return ours && layout->step_bytes > geometry->capacity_bytes ? no_space(birth, layout->step_bytes, space)
                                                                   : status;
    }
    if (layout->file_bytes <= available) return {};
    if (!birth.options.partial || reduced || layout->arena_offset >= available) {
      return no_space(birth, layout->file_bytes, space);
    }
    geometry->capacity_bytes = available - layout->arena_offset;
  }
}

// Gives the file its length, and memory or disk for all but the arena.
Status reserve_file(const Birth &birth, int fd, const Space &space, const Layout &layout) {
  if (const uint64_t limit = file_size_limit(); limit < layout.file_bytes) {
    return failure(DC_ERROR_NO_SPACE,
                   "a cache at %s needs a file of %s, but this process may write files of %s only: "
                   "raise the limit (ulimit -f)",
                   birth.subject.c_str(), readable_bytes(layout.file_bytes).c_str(), readable_bytes(limit).c_str());
  }
  if (ftruncate(fd, static_cast<off_t>(layout.file_bytes)) != 0) {
    return system_failure("ftruncate", birth.subject, errno);
  }
  const Status status = reserve(fd, 0, layout.arena_offset);
  return status.code() == DC_FULL ? no_space(birth, layout.arena_offset, space) : status;
}

Status complete_header(const Birth &birth, const Geometry &geometry, Header *header) {
  std::memset(static_cast<void *>(header), 0, sizeof *header);  // padding is under the checksum too
  header->geometry = geometry;
  header->job_id = birth.options.job_id;
  header->created_unix_ns = unix_now_ns();
  header->creator_pid = getpid();
  header->fingerprint_bytes = static_cast<uint32_t>(birth.fingerprint.size());
  std::memcpy(header->fingerprint, birth.fingerprint.data(), birth.fingerprint.size());
  std::memcpy(header->name, birth.name.data(), birth.name.size());
  const std::string uuid = random_uuid(), boot = boot_id();
  if (uuid.empty()) return system_failure("getrandom", "16 bytes", errno);
  std::memcpy(header->uuid, uuid.data(), uuid.size());
  std::memcpy(header->boot_id, boot.data(), std::min(boot.size(), sizeof header->boot_id - 1));
  seal_header(header);
  return {};
}

}  // namespace

Status make_file(const Birth &birth, Descriptor *file, Segment *segment) {
  if (Status status = birth.directory.create_unnamed(file); !status.ok()) return status;
  DC_FAULT_POINT("unnamed");
  struct stat properties;
  if (fstat(file->get(), &properties) != 0) return system_failure("fstat", birth.subject, errno);
  segment->identity = {properties.st_dev, properties.st_ino};
  segment->medium = birth.directory.file_system().medium;
  const Space space = look_at_space(file->get());
  Geometry geometry = requested_geometry(birth.options);
  geometry.page_bytes = birth.directory.file_system().page_bytes;
  geometry.huge_pages = birth.options.huge_pages;
  if (Status status = fit(birth, space, &geometry, &segment->layout); !status.ok()) return status;
  if (Status status = reserve_file(birth, file->get(), space, segment->layout); !status.ok()) return status;
  DC_FAULT_POINT("space-reserved");
  if (Status status = complete_header(birth, geometry, &segment->header); !status.ok()) return status;
  if (Status status = segment->map(file->get()); !status.ok()) return status;
  // Before any step is reserved. On a disk's file system it would be a wish of this process's own, and for nothing.
  if (birth.options.interleave && birth.directory.file_system().medium != Medium::disk) {
    interleave(segment->arena(), segment->layout.arena_bytes());
  }
  // Through the mapping, since a hugetlbfs has no write(2).
  segment->stored_header() = segment->header;
  DC_FAULT_POINT("header-written");
  if (birth.options.keep) segment->control().keep.store(1, std::memory_order_relaxed);  // nobody else has it yet
  return begin_life(*segment, file->get(), birth.subject);
}

}  // namespace ddpcache
