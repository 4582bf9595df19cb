// What a name leads to. All of it is done under the user's name lock, so that nobody else changes a name meanwhile, and
// nobody becomes attached to what was found unattached.
#pragma once

#include "format.hpp"
#include "locks.hpp"

namespace ddpcache {

// An existing file, checked but not yet trusted to be in use.
struct Found {
  Descriptor file;
  Header header;
  Layout layout;
  FileIdentity identity;
  bool attached = false;  // by another open file description
};

// Opens what a name leads to. What has the name but is no sound cache is an error, whether in use or not: it is not
// ours to replace.
Status find(const Directory &directory, const std::string &file_name, Found *found, Access access = Access::read_write);

bool is_kept(const Found &found);

// Removes this user's caches that nobody is attached to and that are not kept. What is not a sound cache is left alone:
// it is not ours to judge here.
Status collect_garbage(const Directory &directory, int32_t *removed);

}  // namespace ddpcache
