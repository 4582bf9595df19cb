// How a process leaves a cache, and the last one a file.
#include <unistd.h>

#include "cache.hpp"
#include "clock.hpp"
#include "locks.hpp"
#include "trust.hpp"

namespace ddpcache {
namespace {

constexpr int64_t kRemoveWaitNs = 100'000'000;
constexpr int64_t kClosedWaitNs = 10'000'000'000;

}  // namespace

Status Cache::close() {
  if (clients_.has_open_fills() || Fill::thread_is_using(this)) {
    return failure(DC_ERROR_STATE, "fills of this process are open: commit or abort them before closing");
  }
  stop_populating();
  {
    const std::lock_guard process_lock(process_mutex());
    clients_.detach();
  }
  if (segment_.control().keep.load(std::memory_order_relaxed) == 0) {
    remove_if_last();
  } else if (segment_.medium == Medium::disk && !segment_.read_only()) {
    put_on_disk_if_last();
  }
  if (clients_.close_views()) delete this;
  return {};
}

// Whatever fails here leaves the file to the next create or gc, which see that nobody is attached.
void Cache::remove_if_last() {
  const std::lock_guard process_lock(process_mutex());
  Directory where;
  NameLock lock;
  const std::string file_name = Directory::cache_file(segment_.header.name);
  if (!Directory::open(directory_.c_str(), &where).ok() ||
      !NameLock::acquire(where, deadline_after(kRemoveWaitNs), &lock).ok()) {
    return;
  }
  const int fd = clients_.checked_fd();
  // Once more: a client that asked to keep it may have come and gone meanwhile.
  if (fd >= 0 && probe(fd, kAttachByte) == ProbeResult::free &&
      segment_.control().keep.load(std::memory_order_relaxed) == 0 && where.leads_to(file_name, segment_.identity)) {
    static_cast<void>(where.remove(file_name));
  }
}

// Whatever fails here leaves a file that is not called closed, of which the next boot verifies each sample. What this
// process still does to it, ending its views and its record, means nothing to another boot.
void Cache::put_on_disk_if_last() {
  Directory where;
  const std::string file_name = Directory::cache_file(segment_.header.name);
  const auto is_last = [&] {
    const int fd = clients_.checked_fd();
    return fd >= 0 && probe(fd, kAttachByte) == ProbeResult::free && where.leads_to(file_name, segment_.identity);
  };
  if (!Directory::open(directory_.c_str(), &where).ok() || !is_last()) return;
  // Nearly all is written here, where nobody waits for it. The kernel tells of a failed write once a descriptor.
  if (fsync(clients_.checked_fd()) != 0) return;
  const std::lock_guard process_lock(process_mutex());
  NameLock lock;
  if (!NameLock::acquire(where, deadline_after(kClosedWaitNs), &lock).ok() || !is_last()) return;
  close_file(segment_, clients_.checked_fd());
}

Cache::~Cache() {
  clients_.retire();
  // Views that a child inherited are its parent's to keep alive, so their memory stays mapped.
  if (clients_.is_inherited()) segment_.abandon();
}

}  // namespace ddpcache
