// How a process leaves a cache, and the last one a file.
#include "cache.hpp"
#include "clock.hpp"
#include "locks.hpp"

namespace ddpcache {
namespace {

constexpr int64_t kCloseWaitNs = 100'000'000;

}  // namespace

Status Cache::close() {
  if (clients_.has_open_fills() || Fill::thread_is_using(this)) {
    return failure(DC_ERROR_STATE, "fills of this process are open: commit or abort them before closing");
  }
  stop_populating();
  {
    const std::lock_guard<std::mutex> process_lock(process_mutex());
    clients_.detach();
    Directory where;
    NameLock lock;
    const std::string file_name = Directory::cache_file(segment_.header.name);
    // Whatever fails here leaves the file to the next create or gc, which see that nobody is attached.
    if (segment_.control().keep.load() == 0 && Directory::open(directory_.c_str(), &where).ok() &&
        NameLock::acquire(where, deadline_after(kCloseWaitNs), &lock).ok()) {
      const int fd = clients_.checked_fd();
      // Once more: a client that asked to keep it may have come and gone meanwhile.
      if (fd >= 0 && probe(fd, kAttachByte) == ProbeResult::free && segment_.control().keep.load() == 0 &&
          where.leads_to(file_name, segment_.identity)) {
        static_cast<void>(where.remove(file_name));
      }
    }
  }
  if (clients_.close_views()) delete this;
  return {};
}

Cache::~Cache() {
  clients_.retire();
  // Views that a child inherited are its parent's to keep alive, so their memory stays mapped.
  if (clients_.is_inherited()) segment_.abandon();
}

}  // namespace ddpcache
