// Mapping the pages of a shared file before they are touched, so that nobody has to wait for a fault.
#pragma once

#include <cstdint>

namespace ddpcache {

// Maps the pages of a mapping's range into this process for reading. With `resident_only`, those that are in memory: no
// input is waited for, and nothing that others need is displaced. What cannot be mapped is left out.
//
// By madvise(MADV_POPULATE_READ), and before Linux 5.14 by a look at each page. `begin` and `bytes` are multiples of
// the page size. Takes some 60 us a MiB.
void map_pages(const uint8_t *begin, uint64_t bytes, bool resident_only);

}  // namespace ddpcache
