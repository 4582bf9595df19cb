// How a cache comes to be open: created, attached to, adopted or replaced; and how it is closed and removed.
//
// Everything that reads or changes what a name leads to happens under the user's name lock, so two openers never
// disagree about whether a cache is in use. Only the making of a new file, which may take long, is done outside; it is
// then linked if the name is still free.
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "cache.hpp"
#include "clock.hpp"
#include "fault.hpp"
#include "space.hpp"

namespace ddpcache {
namespace {

constexpr int64_t kCloseWaitNs = 100'000'000;
constexpr int64_t kNameWaitNs = 10'000'000'000;

// An existing file, checked but not yet trusted to be in use.
struct Found {
  Descriptor file;
  Header header;
  Layout layout;
  FileIdentity identity;
  bool attached = false;  // by another open file description
};

Status read_header(const Descriptor &file, const struct stat &properties, const std::string &subject, Found *found) {
  const ssize_t got = pread(file.get(), &found->header, sizeof(Header), 0);
  if (got != static_cast<ssize_t>(sizeof(Header))) {
    return failure(DC_ERROR_DAMAGED, "%s has %lld bytes, too few for a cache", subject.c_str(),
                   static_cast<long long>(properties.st_size));
  }
  return check_header(found->header, static_cast<uint64_t>(properties.st_size), subject, &found->layout);
}

// Opens what a name leads to. With the name lock held, so that `attached` cannot change from false behind our back.
// What has the name but is no sound cache is an error, whether in use or not: it is not ours to replace.
Status find(const Directory &directory, const std::string &file_name, Found *found) {
  struct stat properties;
  if (Status status = directory.open_checked(file_name, &found->file, &properties); !status.ok()) return status;
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

// Removes this user's caches that nobody is attached to and that are not kept. With the name lock held. What is not a
// sound cache is left alone: it is not ours to judge here.
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

std::string random_uuid() {
  uint8_t b[16];
  if (getrandom(b, sizeof b, 0) != sizeof b) return "";
  b[6] = static_cast<uint8_t>((b[6] & 0x0F) | 0x40);  // RFC 9562, version 4
  b[8] = static_cast<uint8_t>((b[8] & 0x3F) | 0x80);
  char text[40];
  std::snprintf(text, sizeof text, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
                b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
  return text;
}

int64_t unix_now_ns() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

Status no_space(const std::string &subject, uint64_t needed, const Space &space) {
  return failure(DC_ERROR_NO_SPACE,
                 "a cache at %s needs %s, but %s: ask for a smaller capacity, allow a partial cache, or enlarge the "
                 "space (docker run --shm-size, Kubernetes emptyDir with medium Memory, mount -o remount,size=... "
                 "/dev/shm)",
                 subject.c_str(), readable_bytes(needed).c_str(), space.described().c_str());
}

}  // namespace

// One open or attach: what was asked for, and the attempts to get it.
class Opening {
 public:
  Opening(const char *name, const char *fingerprint, const dc_cache_options *options, int64_t timeout_ns)
      : name_(name), fingerprint_(fingerprint ? fingerprint : ""), options_(options), timeout_ns_(timeout_ns) {}

  Status run(const char *directory, Cache **cache) {
    // Before anything is looked at: what cannot be made replaces nothing.
    if (options_) {
      if (Status status = check_geometry(requested_geometry(*options_)); !status.ok()) return status;
    }
    deadline_ns_ = deadline_after(timeout_ns_);
    if (Status status = Directory::open(directory, &directory_); !status.ok()) return status;
    file_name_ = Directory::cache_file(name_);
    subject_ = directory_.described(file_name_);
    // Each round ends, or another process created, or removed, the cache in the meantime: progress, until the deadline.
    while (true) {
      Status status = open_existing(cache);
      if (status.code() != DC_ERROR_NOT_FOUND || !options_) return status;
      status = create(cache);
      if (status.code() != DC_PRESENT) return status;
      if (now_ns() >= deadline_ns_) {
        return failure(DC_ERROR_LOCKED, "%s was created and removed by others until the deadline", subject_.c_str());
      }
    }
  }

 private:
  // DC_ERROR_NOT_FOUND where there is none, or only one that was in nobody's use and has been removed.
  Status open_existing(Cache **cache) {
    std::unique_ptr<Cache> opened(new Cache);
    const std::lock_guard<std::mutex> process_lock(process_mutex());
    NameLock lock;
    if (Status status = NameLock::acquire(directory_, deadline_ns_, &lock); !status.ok()) return status;
    Found found;
    if (Status status = find(directory_, file_name_, &found); !status.ok()) return status;
    const Status same = compare(found);
    const bool adopt = !found.attached && same.ok() && (options_ ? !fingerprint_.empty() : is_kept(found));
    if (found.attached ? same.ok() : adopt) {
      opened->segment_.header = found.header;
      opened->segment_.layout = found.layout;
      opened->segment_.identity = found.identity;
      opened->origin_.adopted = adopt;
      if (Status status = opened->segment_.map(found.file.get()); !status.ok()) return status;
      return finish(opened, std::move(found.file), cache);
    }
    if (found.attached) return same;
    if (!options_) return failure(DC_ERROR_NOT_FOUND, "nobody is attached to %s", subject_.c_str());
    Status status = directory_.remove(file_name_);
    return status.ok() ? Status(DC_ERROR_NOT_FOUND) : status;
  }

  // Whether the cache that was found is the one that was asked for.
  Status compare(const Found &found) const {
    if (!options_) return {};
    const Geometry &there = found.header.geometry;
    const auto differs = [this](const char *what, uint64_t has, uint64_t asked) {
      return failure(DC_ERROR_MISMATCH, "%s has %s %llu, asked for was %llu", subject_.c_str(), what,
                     static_cast<unsigned long long>(has), static_cast<unsigned long long>(asked));
    };
    if (there.length != options_->length) {
      return differs("length", static_cast<uint64_t>(there.length), static_cast<uint64_t>(options_->length));
    }
    if (there.sample_bytes != options_->sample_bytes) {
      return differs("sample_bytes", there.sample_bytes, options_->sample_bytes);
    }
    if (there.droppable != options_->droppable) return differs("droppable", there.droppable, options_->droppable);
    if (there.keyed != options_->keyed) return differs("keyed", there.keyed, options_->keyed);
    if (options_->sample_bytes_max != 0 && there.sample_bytes_max != options_->sample_bytes_max) {
      return differs("sample_bytes_max", there.sample_bytes_max, options_->sample_bytes_max);
    }
    if (found.header.fingerprint != fingerprint_) {
      return failure(DC_ERROR_FINGERPRINT,
                     "%s holds the data of \"%.300s\", asked for was \"%.300s\": use another name, "
                     "or end the job that uses this one",
                     subject_.c_str(), found.header.fingerprint, fingerprint_.c_str());
    }
    return {};
  }

  Status create(Cache **cache) {
    Geometry geometry = requested_geometry(*options_);
    std::unique_ptr<Cache> opened(new Cache);
    Descriptor file;
    if (Status status = directory_.create_unnamed(&file); !status.ok()) return status;
    DC_FAULT_POINT("unnamed");
    const Space space = look_at_space(file.get());
    Layout &layout = opened->segment_.layout;
    if (Status status = fit(&geometry, space, &layout); !status.ok()) return status;
    if (Status status = write_file(file, geometry, layout, space, opened.get()); !status.ok()) return status;
    opened->origin_.created = true;

    const std::lock_guard<std::mutex> process_lock(process_mutex());
    NameLock lock;
    if (Status status = NameLock::acquire(directory_, deadline_ns_, &lock); !status.ok()) return status;
    // A child that was forked until here shares the description, and locks on that would live as long as the child.
    if (Status status = reopen(file.get(), &file); !status.ok()) return status;
    int32_t removed = 0;
    if (Status status = collect_garbage(directory_, &removed); !status.ok()) return status;
    // Attached before it has a name: whoever finds it finds it in use.
    if (lock_shared(file.get(), kAttachByte) != LockResult::taken) {
      return system_failure("fcntl(F_OFD_SETLK)", subject_, errno);
    }
    DC_FAULT_POINT("before-link");
    if (Status status = directory_.link(file, file_name_); !status.ok()) return status;
    DC_FAULT_POINT("linked");
    const Status status = finish(opened, std::move(file), cache);
    if (!status.ok()) static_cast<void>(directory_.remove(file_name_));
    return status;
  }

  // Decides capacity and layout by what is free.
  Status fit(Geometry *geometry, const Space &space, Layout *layout) const {
    const uint64_t available = space.available();
    if (geometry->capacity_bytes == 0) geometry->capacity_bytes = available / 2;
    const bool automatic = geometry->sample_bytes_max == 0;
    for (bool reduced = false;; reduced = true) {
      if (automatic) {
        geometry->sample_bytes_max = default_sample_bytes_max(geometry->sample_bytes, geometry->capacity_bytes);
      }
      if (Status status = plan_layout(*geometry, layout); !status.ok()) {
        // A capacity that the caller did not name is too small for want of space, and for no fault of his.
        const bool ours = reduced || options_->capacity_bytes == 0;
        return ours && layout->step_bytes > geometry->capacity_bytes ? no_space(subject_, layout->step_bytes, space)
                                                                     : status;
      }
      if (layout->file_bytes <= available) return {};
      if (!options_->partial || reduced || layout->arena_offset >= available) {
        return no_space(subject_, layout->file_bytes, space);
      }
      geometry->capacity_bytes = available - layout->arena_offset;
    }
  }

  Status write_file(const Descriptor &file, const Geometry &geometry, const Layout &layout, const Space &space,
                    Cache *opened) const {
    // Beyond this limit the kernel would send a signal that ends the process.
    rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < layout.file_bytes) {
      return failure(DC_ERROR_NO_SPACE,
                     "a cache at %s needs a file of %s, but this process may write files of %s only: "
                     "raise the limit (ulimit -f)",
                     subject_.c_str(), readable_bytes(layout.file_bytes).c_str(),
                     readable_bytes(limit.rlim_cur).c_str());
    }
    if (ftruncate(file.get(), static_cast<off_t>(layout.file_bytes)) != 0) {
      return system_failure("ftruncate", subject_, errno);
    }
    Status status = reserve(file.get(), 0, layout.arena_offset);
    if (status.code() == DC_FULL) return no_space(subject_, layout.arena_offset, space);
    if (!status.ok()) return status;
    Header header;
    std::memset(static_cast<void *>(&header), 0, sizeof header);  // padding is under the checksum too
    header.geometry = geometry;
    header.job_id = options_->job_id;
    header.created_unix_ns = unix_now_ns();
    header.creator_pid = getpid();
    header.fingerprint_bytes = static_cast<uint32_t>(fingerprint_.size());
    std::memcpy(header.fingerprint, fingerprint_.data(), fingerprint_.size());
    std::memcpy(header.name, name_.data(), name_.size());
    const std::string uuid = random_uuid(), boot = boot_id();
    if (uuid.empty()) return system_failure("getrandom", "16 bytes", errno);
    std::memcpy(header.uuid, uuid.data(), uuid.size());
    std::memcpy(header.boot_id, boot.data(), std::min(boot.size(), sizeof header.boot_id - 1));
    seal_header(&header);
    if (pwrite(file.get(), &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header)) {
      return system_failure("pwrite", subject_, errno);
    }
    DC_FAULT_POINT("header-written");
    struct stat properties;
    if (fstat(file.get(), &properties) != 0) return system_failure("fstat", subject_, errno);
    opened->segment_.header = header;
    opened->segment_.identity = {properties.st_dev, properties.st_ino};
    return opened->segment_.map(file.get());
  }

  // Registers this process. With process mutex and name lock held.
  Status finish(std::unique_ptr<Cache> &opened, Descriptor file, Cache **cache) {
    if (Status status = opened->clients_.begin(std::move(file)); !status.ok()) return status;
    if (Status status = opened->clients_.join(); !status.ok()) return status;
    // Who removed the file by hand meanwhile has left this process with a cache that nobody else will find.
    if (!opened->origin_.created && !directory_.leads_to(file_name_, opened->segment_.identity))
      return DC_ERROR_NOT_FOUND;
    if (options_ && options_->keep) opened->segment_.control().keep.store(1);
    opened->directory_ = directory_.path();
    *cache = opened.release();
    return {};
  }

  const std::string name_;
  const std::string fingerprint_;
  const dc_cache_options *options_;  // nullptr: only attach
  const int64_t timeout_ns_;
  int64_t deadline_ns_ = 0;
  Directory directory_;
  std::string file_name_;
  std::string subject_;
};

Status Cache::open(const char *name, const char *directory, const char *fingerprint, const dc_cache_options &options,
                   Cache **cache) {
  return Opening(name, fingerprint, &options, options.timeout_ns).run(directory, cache);
}

Status Cache::attach(const char *name, const char *directory, int64_t timeout_ns, Cache **cache) {
  return Opening(name, nullptr, nullptr, timeout_ns).run(directory, cache);
}

Status Cache::close() {
  if (clients_.has_open_fills() || Fill::thread_is_using(this)) {
    return failure(DC_ERROR_STATE, "fills of this process are open: commit or abort them before closing");
  }
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

Status list_caches(const char *directory, std::vector<std::string> *names) {
  Directory where;
  if (Status status = Directory::open(directory, &where); !status.ok()) return status;
  return where.list(names);
}

Status unlink_cache(const char *name, const char *directory) {
  Directory where;
  if (Status status = Directory::open(directory, &where); !status.ok()) return status;
  const std::lock_guard<std::mutex> process_lock(process_mutex());
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
  const std::lock_guard<std::mutex> process_lock(process_mutex());
  NameLock lock;
  if (Status status = NameLock::acquire(where, deadline_after(kNameWaitNs), &lock); !status.ok()) return status;
  return collect_garbage(where, removed);
}

}  // namespace ddpcache
