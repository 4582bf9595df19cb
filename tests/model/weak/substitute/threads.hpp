// Stands before src/base/threads.hpp: a mutex as the explorer sees it, and threads of the library's own that do not
// run.
#pragma once

#include <mutex>
#include <utility>

#include "explorer.hpp"

namespace ddpcache {

class Mutex {
 public:
  Mutex() { weak::explorer().write(this); }
  void lock() {
    weak::explorer().read(this);  // that it was made
    weak::explorer().lock(this);
  }
  void unlock() { weak::explorer().unlock(this); }
};

class Thread {
 public:
  Thread() = default;
  template <typename Run>
  explicit Thread(Run &&) {}
  bool joinable() const { return false; }
  void join() {}
};

}  // namespace ddpcache
