#include "names.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <mutex>

#include "cache.hpp"
#include "clock.hpp"

namespace ddpcache {
namespace {

constexpr int64_t kNameWaitNs = 10'000'000'000;

Status read_header(const Descriptor &file, const struct stat &properties, const std::string &subject, Found *found) {
  const ssize_t got = pread(file.get(), &found->header, sizeof(Header), 0);
  if (got != static_cast<ssize_t>(sizeof(Header))) {
    return failure(DC_ERROR_DAMAGED, "%s has %lld bytes, too few for a cache", subject.c_str(),
                   static_cast<long long>(properties.st_size));
  }
  return check_header(found->header, static_cast<uint64_t>(properties.st_size), subject, &found->layout);
}

}  // namespace

Status find(const Directory &directory, const std::string &file_name, Found *found, Access access) {
  struct stat properties;
  if (Status status = directory.open_checked(file_name, &found->file, &properties, access); !status.ok()) return status;
  found->identity = {properties.st_dev, properties.st_ino};
  switch (probe(found->file.get(), kAttachByte)) {
    case ProbeResult::failed: return system_failure("fcntl(F_OFD_GETLK)", directory.described(file_name), errno);
    case ProbeResult::held: found->attached = true; break;
    case ProbeResult::free: break;
  }
  return read_header(found->file, properties, directory.described(file_name), found);
}

bool is_kept(const Found &found) {
  uint32_t keep = 0;
  const off_t offset = static_cast<off_t>(found.layout.control_offset + offsetof(ControlLine, keep));
  return pread(found.file.get(), &keep, sizeof keep, offset) == sizeof keep && keep != 0;
}

Status collect_garbage(const Directory &directory, int32_t *removed) {
  std::vector<std::string> names;
  if (Status status = directory.list(&names); !status.ok()) return status;
  for (const std::string &name : names) {
    Found found;
    const std::string file_name = Directory::cache_file(name);
    if (!find(directory, file_name, &found).ok() || found.attached || is_kept(found)) continue;
    if (directory.remove(file_name).ok()) ++*removed;
  }
  return {};
}

Status list_caches(const char *directory, std::vector<std::string> *names) {
  Directory where;
  if (Status status = Directory::open(directory, &where); !status.ok()) return status;
  return where.list(names);
}

Status unlink_cache(const char *name, const char *directory) {
  Directory where;
  if (Status status = Directory::open(directory, &where); !status.ok()) return status;
  const std::lock_guard process_lock(process_mutex());
  NameLock lock;
  if (Status status = NameLock::acquire(where, deadline_after(kNameWaitNs), &lock); !status.ok()) return status;
  Descriptor file;
  struct stat properties;
  const std::string file_name = Directory::cache_file(name);
  if (Status status = where.open_checked(file_name, &file, &properties); !status.ok()) return status;
  return where.remove(file_name);
}

Status collect_garbage(const char *directory, int32_t *removed) {
  Directory where;
  if (Status status = Directory::open(directory, &where); !status.ok()) return status;
  const std::lock_guard process_lock(process_mutex());
  NameLock lock;
  if (Status status = NameLock::acquire(where, deadline_after(kNameWaitNs), &lock); !status.ok()) return status;
  return collect_garbage(where, removed);
}

}  // namespace ddpcache
