// How a cache comes to be open: created, attached to, adopted or replaced.
//
// Everything that reads or changes what a name leads to happens under the user's name lock, so two openers never
// disagree about whether a cache is in use. Only the making of a new file, which may take long, is done outside; it is
// then linked if the name is still free.
#include <cerrno>

#include "birth.hpp"
#include "cache.hpp"
#include "clock.hpp"
#include "content.hpp"
#include "fault.hpp"
#include "names.hpp"
#include "trust.hpp"

namespace ddpcache {

// One open or attach: what was asked for, and the attempts to get it.
class Opening {
 public:
  Opening(const char *name, const char *fingerprint, const dc_cache_options *options, int64_t timeout_ns,
          Access access = Access::read_write)
      : name_(name),
        fingerprint_(fingerprint ? fingerprint : ""),
        options_(options),
        timeout_ns_(timeout_ns),
        access_(access) {}

  // For a cache that is created: its options, where they are not those that one that is there must have, and its
  // content.
  void create_with(const dc_cache_options &born, Content &content) {
    born_ = &born;
    content_ = &content;
  }

  Status run(const char *directory, Cache **cache) {
    // Before anything is looked at: what cannot be made replaces nothing.
    if (options_) {
      if (Status status = check_geometry(requested_geometry(*options_)); !status.ok()) return status;
    }
    deadline_ns_ = deadline_after(timeout_ns_);
    if (Status status = Directory::open(directory, &directory_); !status.ok()) return status;
    if (options_ && options_->checksums == DC_CHECKSUMS_OFF && directory_.file_system().medium == Medium::disk) {
      raised_ = *options_;
      raised_.checksums = DC_CHECKSUMS_FILL;  // without them nothing can be believed after a power cut
      options_ = &raised_;
    }
    file_name_ = Directory::cache_file(name_);
    subject_ = directory_.described(file_name_);
    // Each round ends, or another process created, or removed, the cache in the meantime: progress, until the deadline.
    while (true) {
      Status status = open_existing(cache);
      if (status.code() != DC_ERROR_NOT_FOUND || !options_) return status;
      if (content_ && !has_turn_) {
        if (status = content_->take_turn(directory_, file_name_); !status.ok()) return status;
        has_turn_ = true;
        deadline_ns_ = deadline_after(timeout_ns_);
        continue;  // who had the turn before has probably made the cache
      }
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
    const std::lock_guard process_lock(process_mutex());
    NameLock lock;
    Status locked = access_ == Access::read_only ? NameLock::acquire_existing(directory_, deadline_ns_, &lock)
                                                 : NameLock::acquire(directory_, deadline_ns_, &lock);
    if (!locked.ok()) return locked;
    Found found;
    if (Status status = find(directory_, file_name_, &found, access_); !status.ok()) {
      return status.code() == DC_ERROR_NOT_FOUND && options_ ? clear_the_way() : status;
    }
    const Status same = compare(found);
    const bool adopt = !found.attached && same.ok() && (options_ ? !fingerprint_.empty() : is_kept(found));
    if (found.attached ? same.ok() : adopt) {
      opened->segment_.header = found.header;
      opened->segment_.layout = found.layout;
      opened->segment_.identity = found.identity;
      opened->segment_.medium = directory_.file_system().medium;
      opened->origin_.adopted = adopt;
      if (Status status = opened->segment_.map(found.file.get(), access_); !status.ok()) return status;
      if (adopt) {
        if (Status status = revive(opened->segment_, found.file.get(), subject_); !status.ok()) return status;
      }
      return finish(opened, std::move(found.file), cache);
    }
    if (found.attached) return same;
    if (!options_) return failure(DC_ERROR_NOT_FOUND, "nobody is attached to %s", subject_.c_str());
    if (!content_) {  // else it stays until the new one is complete
      if (Status status = directory_.remove(file_name_); !status.ok()) return status;
    }
    return clear_the_way();
  }

  // What nobody uses any more goes before it is looked how much is free. DC_ERROR_NOT_FOUND: a cache may be created.
  Status clear_the_way() const {
    int32_t removed = 0;
    Status status = collect_garbage(directory_, &removed);
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
    if (there.checksums != options_->checksums) {
      constexpr const char *kWords[] = {"off", "fill", "read"};  // check_geometry has seen both
      return failure(DC_ERROR_MISMATCH, "%s has checksums \"%s\", asked for was \"%s\"", subject_.c_str(),
                     kWords[there.checksums], kWords[options_->checksums]);
    }
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
    std::unique_ptr<Cache> opened(new Cache);
    Descriptor file;
    dc_cache_options born = content_ ? *born_ : *options_;
    born.checksums = options_->checksums;  // part of the identity, whatever raised it
    const Birth birth = {born, name_, fingerprint_, directory_, subject_};
    if (Status status = make_file(birth, &file, &opened->segment_); !status.ok()) return status;
    opened->origin_.created = true;
    if (Status status = enter(*opened, std::move(file)); !status.ok()) return status;
    if (content_) {
      if (Status status = content_->fill(*opened); !status.ok()) return status;
      deadline_ns_ = deadline_after(timeout_ns_);
    }

    const std::lock_guard process_lock(process_mutex());
    NameLock lock;
    if (Status status = NameLock::acquire(directory_, deadline_ns_, &lock); !status.ok()) return status;
    if (content_) {
      if (Status status = remove_unused(); !status.ok()) return status;
    }
    DC_FAULT_POINT("before-link");
    if (Status status = directory_.link(opened->clients_.checked_fd(), file_name_); !status.ok()) return status;
    DC_FAULT_POINT("linked");
    return give(opened, cache);
  }

  // Registers this process in a file that has no name yet: whoever finds it later finds it in use.
  static Status enter(Cache &opened, Descriptor file) {
    const std::lock_guard process_lock(process_mutex());
    // A child that was forked until here shares the description, and locks on that would live as long as the child.
    if (Status status = reopen(file.get(), &file); !status.ok()) return status;
    if (Status status = opened.clients_.begin(std::move(file)); !status.ok()) return status;
    return opened.clients_.join();
  }

  // Makes the name free for a cache that is complete, with the name lock held. What is in use stays, for the link to
  // find.
  Status remove_unused() const {
    Found found;
    Status status = find(directory_, file_name_, &found);
    if (status.code() == DC_ERROR_NOT_FOUND) return {};
    return status.ok() && !found.attached ? directory_.remove(file_name_) : status;
  }

  // Registers this process in a file that was found. With process mutex and name lock held.
  Status finish(std::unique_ptr<Cache> &opened, Descriptor file, Cache **cache) {
    if (Status status = opened->clients_.begin(std::move(file)); !status.ok()) return status;
    if (Status status = opened->clients_.join(); !status.ok()) return status;
    // Who removed the file by hand meanwhile has left this process with a cache that nobody else will find.
    if (!directory_.leads_to(file_name_, opened->segment_.identity)) return DC_ERROR_NOT_FOUND;
    if (opened->origin_.adopted && content_ && !content_->is_in(*opened)) return clear_the_way();
    return give(opened, cache);
  }

  Status give(std::unique_ptr<Cache> &opened, Cache **cache) {
    const Segment &segment = opened->segment_;
    // Relaxed: the name lock is held.
    if (options_ && options_->keep && segment.control().keep.exchange(1, std::memory_order_relaxed) == 0 &&
        segment.medium == Medium::disk) {
      if (Status status = sync_control(segment); !status.ok()) return status;
    }
    opened->directory_ = directory_.path();
    *cache = opened.release();
    return {};
  }

  const std::string name_;
  const std::string fingerprint_;
  const dc_cache_options *options_;         // nullptr: only attach
  const dc_cache_options *born_ = nullptr;  // where there is content
  Content *content_ = nullptr;
  bool has_turn_ = false;
  dc_cache_options raised_;  // what options_ then is
  const int64_t timeout_ns_;
  const Access access_;
  int64_t deadline_ns_ = 0;
  Directory directory_;
  std::string file_name_;
  std::string subject_;
};

Status Cache::open(const char *name, const char *directory, const char *fingerprint, const dc_cache_options &options,
                   Cache **cache) {
  return Opening(name, fingerprint, &options, options.timeout_ns).run(directory, cache);
}

Status open_with_content(const char *name, const char *directory, const char *fingerprint,
                         const dc_cache_options &options, const dc_cache_options &born, Content &content,
                         Cache **cache) {
  Opening opening(name, fingerprint, &options, options.timeout_ns);
  opening.create_with(born, content);
  return opening.run(directory, cache);
}

Status Cache::attach(const char *name, const char *directory, int64_t timeout_ns, Cache **cache) {
  return Opening(name, nullptr, nullptr, timeout_ns).run(directory, cache);
}

Status Cache::attach_read_only(const char *name, const char *directory, int64_t timeout_ns, Cache **cache) {
  return Opening(name, nullptr, nullptr, timeout_ns, Access::read_only).run(directory, cache);
}

}  // namespace ddpcache
