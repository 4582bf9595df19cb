// The locks and threads of a process; as atomic.hpp says, the explorer of tests/model/weak has its own.
#pragma once

#include <mutex>
#include <thread>

namespace ddpcache {

using Mutex = std::mutex;
using Thread = std::thread;

}  // namespace ddpcache
