// What a directory lies on, and whether a cache may lie there.
//
// A cache needs three things of a file system: OFD locks and shared mappings that hold between all processes which see
// the file; files without a name that can be linked later; and a fallocate(2) that really reserves, so that no later
// write through a mapping finds the space gone. Which have all three is a list, not a guess: see docs/decisions/040.
#pragma once

#include <cstdint>
#include <string>

#include "status.hpp"

namespace ddpcache {

enum class Medium { memory, huge_pages, disk };

inline constexpr uint64_t kSmallPageBytes = 4096;

struct FileSystem {
  Medium medium = Medium::memory;
  uint64_t page_bytes = kSmallPageBytes;  // files consist of whole ones, and so does what is reserved of them
};

// By the type and block size that statfs(2) gives. DC_ERROR_UNSUPPORTED, with the name of the type, why and what to
// take instead, where a cache may not lie. `subject` is the directory.
Status classify_file_system(uint64_t type, uint64_t block_bytes, const std::string &subject, FileSystem *found);

// The same, for an open file or directory.
Status look_at_file_system(int fd, const std::string &subject, FileSystem *found);

}  // namespace ddpcache
