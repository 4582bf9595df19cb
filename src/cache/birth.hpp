// The making of a cache's file: everything but its name. Until it is linked, it is nobody's, and goes with its maker.
#pragma once

#include "ddpcache/cache.h"
#include "segment.hpp"

namespace ddpcache {

// What the file shall be.
struct Birth {
  const dc_cache_options &options;
  const std::string &name;
  const std::string &fingerprint;
  const Directory &directory;
  const std::string &subject;  // the file as messages name it
};

// Decides capacity and layout by what is free, reserves all but the arena, writes the header and maps the file.
// DC_ERROR_NO_SPACE says what is needed, what is there and how to get it.
Status make_file(const Birth &birth, Descriptor *file, Segment *segment);

}  // namespace ddpcache
