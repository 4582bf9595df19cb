// What a new cache holds from the start. It is filled while the file has no name: nobody ever sees a part of it.
#pragma once

#include "cache.hpp"

namespace ddpcache {

class Content {
 public:
  virtual ~Content() = default;
  // Waits for the right to make this content, where another process is at it. With DC_OK the right is had for as long
  // as this object lives.
  virtual Status take_turn(const Directory &directory, const std::string &file_name) = 0;
  // Whether a cache that nobody else uses has as much.
  virtual bool is_in(Cache &cache) = 0;
  // With this process registered, and no lock held.
  virtual Status fill(Cache &cache) = 0;
};

// As Cache::open, but one that is created has `content`, and the options `born` instead of those that one that is there
// must have. In opening.cpp.
Status open_with_content(const char *name, const char *directory, const char *fingerprint,
                         const dc_cache_options &options, const dc_cache_options &born, Content &content,
                         Cache **cache);

// dc_cache_restore. In restoring.cpp.
struct RestoreRequest {
  const char *path;
  const char *name;
  const char *directory;            // nullptr: shared memory
  const char *fingerprint;          // nullptr: the file's
  const dc_cache_options *options;  // nullptr: the file's
  dc_progress progress;
  void *user;
};
Status restore_cache(const RestoreRequest &request, Cache **cache);

}  // namespace ddpcache
