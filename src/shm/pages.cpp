#include "pages.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace ddpcache {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kPagesAtATime = 512;

void map_range(const uint8_t *begin, uint64_t bytes) {
  // Bounded by what interrupts it: a signal that this thread does not block, or memory that is being reclaimed.
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (madvise(const_cast<uint8_t *>(begin), bytes, MADV_POPULATE_READ) == 0) return;
    if (errno == EINVAL) break;
    if (errno != EINTR && errno != EAGAIN) return;
  }
  if (errno != EINVAL) return;
  for (uint64_t at = 0; at < bytes; at += kPage) static_cast<void>(*const_cast<const volatile uint8_t *>(begin + at));
}

}  // namespace

void map_pages(const uint8_t *begin, uint64_t bytes, bool resident_only) {
  if (!resident_only) {
    map_range(begin, bytes);
    return;
  }
  std::array<unsigned char, kPagesAtATime> resident;
  for (uint64_t at = 0; at < bytes; at += kPagesAtATime * kPage) {
    const uint64_t part = std::min(bytes - at, kPagesAtATime * kPage);
    if (mincore(const_cast<uint8_t *>(begin + at), part, resident.data()) != 0) return;
    const auto last = resident.begin() + part / kPage;
    const auto is_resident = [](unsigned char page) { return (page & 1) != 0; };
    // Run by run.
    for (auto first = resident.begin(); (first = std::find_if(first, last, is_resident)) != last;) {
      const auto after = std::find_if_not(first, last, is_resident);
      map_range(begin + at + static_cast<uint64_t>(first - resident.begin()) * kPage,
                static_cast<uint64_t>(after - first) * kPage);
      first = after;
    }
  }
}

}  // namespace ddpcache
