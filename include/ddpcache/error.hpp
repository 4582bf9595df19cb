// ddpcache/error.hpp: what the C++ interface throws.
#ifndef DDPCACHE_ERROR_HPP
#define DDPCACHE_ERROR_HPP

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "ddpcache/base.h"

namespace ddpcache {
// An inline namespace of its own keeps these names apart from the library's own when it is linked statically.
inline namespace cxx {

/// An error of the library: its status and a full sentence.
class Error : public std::runtime_error {
 public:
  Error(std::int32_t status, const std::string &message) : std::runtime_error(message), status_(status) {}
  explicit Error(std::int32_t status) : Error(status, dc_strerror(status)) {}
  /// One of dc_status.
  std::int32_t status() const noexcept { return status_; }

 private:
  std::int32_t status_;
};

/// DC_FULL: the cache has no room for the sample.
class Full : public Error {
 public:
  Full() : Error(DC_FULL) {}
};

/// DC_BUSY: another client was still filling the sample at the deadline.
class Busy : public Error {
 public:
  Busy() : Error(DC_BUSY) {}
};

/// DC_INTERRUPTED: a save or restore was stopped by its progress.
class Interrupted : public Error {
 public:
  Interrupted() : Error(DC_INTERRUPTED, "stopped by its progress") {}
};

namespace detail {

inline std::int32_t check(std::int32_t status) {
  if (status < 0) throw Error(status);
  return status;
}

inline std::int32_t check(std::int32_t status, const dc_error &error) {
  if (status < 0) throw Error(status, error.message);
  return status;
}

/// Repeats a call that waits, with the time that is left, for as long as signals interrupt it.
template <typename Call>
std::int32_t until_uninterrupted(std::chrono::nanoseconds timeout, Call &&call) {
  const auto begin = std::chrono::steady_clock::now();
  std::int32_t status = call(timeout.count());
  while (status == DC_INTERRUPTED) {
    const std::chrono::nanoseconds left = timeout - (std::chrono::steady_clock::now() - begin);
    status = call(std::max<std::int64_t>(left.count(), 0));
  }
  return status;
}

inline const char *text_or_null(const std::string &text) { return text.empty() ? nullptr : text.c_str(); }

}  // namespace detail

}  // namespace cxx
}  // namespace ddpcache

#endif
