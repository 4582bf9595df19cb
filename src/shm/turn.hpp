// The right to do something long about a cache's name, of which one process at a time has one. Unlike the name lock it
// is held for minutes, and says how far its holder has come.
//
// It is an OFD write lock on bytes of the user's lock file, which is and stays empty: the first byte of a range that
// follows from the name is the right itself, and the more bytes of the range are locked, the further the holder is. So
// who waits reads both from the kernel, in any PID namespace, and both end with the holder.
#pragma once

#include <string>

#include "files.hpp"
#include "fork.hpp"

namespace ddpcache {

// While it is taken it is in the list of what forks have to see to, of which a child has a copy: it must not lie on the
// stack of a thread, which children of other threads use again.
class Turn final : public ForkAware {
 public:
  // What the whole of the work is, for `say`.
  static constexpr uint32_t kWhole = (1u << 20) - 1;

  Turn() = default;
  Turn(const Turn &) = delete;
  Turn &operator=(const Turn &) = delete;
  ~Turn() { give_up(); }

  // Takes the right where it is free: `taken`. Else how far its holder is, 0..kWhole. Never waits.
  Status try_take(const Directory &directory, const std::string &name, bool *taken, uint32_t *holder_at);
  bool taken() const { return taken_; }
  // How far this holder is.
  void say(uint32_t at);
  void give_up();

  void after_fork_in_child() noexcept override { close_own(); }
  void descriptor_given_to_another(int fd) noexcept override {
    if (file_.get() == fd) file_.release();
  }

 private:
  Status lock(const Directory &directory, bool *taken, uint32_t *holder_at);
  void close_own() noexcept;

  Descriptor file_;
  FileIdentity identity_;
  int64_t first_byte_ = 0;
  uint32_t said_ = 0;
  bool taken_ = false;
  uint32_t process_ = 0;  // fork generation of who took it
};

}  // namespace ddpcache
