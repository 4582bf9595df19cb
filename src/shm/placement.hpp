// On which NUMA nodes memory lies, and in pages of which size. All of it is a wish: what cannot be had is done without,
// and can be asked afterwards.
#pragma once

#include <cstdint>
#include <istream>
#include <string>

namespace ddpcache {

// Asks for the pages of a shared mapping, of which none may exist yet, to be taken from all nodes in turn that this
// process may use. A tmpfs or hugetlbfs keeps the wish with the file, for all processes.
void interleave(uint8_t *begin, uint64_t bytes);

// Over how many nodes the memory at this address is spread; 1 where it is not, or where the kernel knows no nodes.
uint32_t interleaved_nodes(const uint8_t *at);

// Asks for transparent huge pages in this process's mapping.
void ask_huge_pages(uint8_t *begin, uint64_t bytes);

// The largest page that maps any of the range in this process now; 0 where /proc does not tell. The kernel walks the
// page tables of the whole process for this: some 10 ms a GiB mapped in small pages.
uint64_t largest_page(const uint8_t *begin, uint64_t bytes);

// The same, of a text like /proc/self/smaps and with the given size of a huge page.
uint64_t largest_page_in(std::istream &smaps, uint64_t begin, uint64_t end, uint64_t huge_bytes);

}  // namespace ddpcache
