// ddpcache/error.hpp: what the C++ interface throws, or returns.
//
// Where exceptions are disabled (-fno-exceptions, or DDPCACHE_EXCEPTIONS defined as 0), whatever would throw calls
// `failure_handler` with the error instead, which by default prints the sentence and aborts. The calls that a correct
// program must expect to fail (those that open, load, fill, intern, save, check and resume) have a form named try_...
// that returns a Result or a status, with exceptions and without.
#ifndef DDPCACHE_ERROR_HPP
#define DDPCACHE_ERROR_HPP

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "ddpcache/base.h"

#ifndef DDPCACHE_EXCEPTIONS
#ifdef __cpp_exceptions
#define DDPCACHE_EXCEPTIONS 1
#else
#define DDPCACHE_EXCEPTIONS 0
#endif
#endif

// An inline namespace keeps these names apart from the library's own when it is linked statically, and two of them keep
// apart what was compiled with exceptions and without, since a program may have both.
#if DDPCACHE_EXCEPTIONS
#define DDPCACHE_CXX cxx
#else
#define DDPCACHE_CXX cxx_without_exceptions
#endif

namespace ddpcache {
inline namespace DDPCACHE_CXX {

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

#if !DDPCACHE_EXCEPTIONS
/// Hears of a failure where an exception would be thrown. If it returns, the process is aborted.
using FailureHandler = void (*)(const Error &error);

/// Set it before other threads use the library. It is one for all parts of a program that have no exceptions.
inline FailureHandler failure_handler = [](const Error &error) {
  std::fprintf(stderr, "ddpcache: %s\n", error.what());
};
#endif

namespace detail {

template <typename Reason>
[[noreturn]] void raise(const Reason &reason) {
#if DDPCACHE_EXCEPTIONS
  throw reason;
#else
  failure_handler(reason);
  std::abort();
#endif
}

/// Raises what a status stands for.
[[noreturn]] inline void raise_as_its_class(const Error &error) {
  if (error.status() == DC_FULL) raise(Full());
  if (error.status() == DC_BUSY) raise(Busy());
  if (error.status() == DC_INTERRUPTED) raise(Interrupted());
  raise(error);
}

/// Runs a call of the caller's; false, with the exception kept, where it throws.
template <typename Call>
bool completes(std::exception_ptr &thrown, Call &&call) {
#if DDPCACHE_EXCEPTIONS
  try {
    call();
  } catch (...) {
    thrown = std::current_exception();
    return false;
  }
#else
  static_cast<void>(thrown);
  call();
#endif
  return true;
}

inline std::int32_t check(std::int32_t status) {
  if (status < 0) raise(Error(status));
  return status;
}

inline std::int32_t check(std::int32_t status, const dc_error &error) {
  if (status < 0) raise(Error(status, error.message));
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

/// A value, or why there is none. Besides errors also outcomes without a value: DC_FULL, DC_BUSY.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::move(value)) {}
  Result(Error error) : content_(std::move(error)) {}

  explicit operator bool() const noexcept { return content_.index() == 0; }
  /// DC_OK where there is a value.
  std::int32_t status() const noexcept { return *this ? static_cast<std::int32_t>(DC_OK) : error().status(); }
  /// Only where there is none.
  const Error &error() const noexcept { return *std::get_if<1>(&content_); }
  /// Only where there is a value.
  T &operator*() noexcept { return *std::get_if<0>(&content_); }
  const T &operator*() const noexcept { return *std::get_if<0>(&content_); }
  T *operator->() noexcept { return std::get_if<0>(&content_); }
  const T *operator->() const noexcept { return std::get_if<0>(&content_); }
  /// The value; throws Full, Busy or Error where there is none.
  T &value() & {
    if (!*this) detail::raise_as_its_class(error());
    return **this;
  }
  T value() && { return std::move(value()); }

 private:
  std::variant<T, Error> content_;
};

namespace detail {

/// What a call with an error record came to. Expected outcomes leave the record alone.
template <typename T>
Result<T> result(std::int32_t status, const dc_error &error, T value) {
  if (status < 0) return Error(status, error.message);
  if (status == DC_INTERRUPTED) return Error(Interrupted());
  if (status != DC_OK) return Error(status);
  return value;
}

}  // namespace detail

}  // namespace DDPCACHE_CXX
}  // namespace ddpcache

#endif
