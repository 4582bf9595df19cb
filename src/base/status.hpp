// A status with its sentence, as it travels inside the library; the C interface turns it into a number and a dc_error.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <string>
#include <utility>

#include "ddpcache/base.h"

namespace ddpcache {

// [[nodiscard]]: an ignored status is a lost error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(int32_t code) : code_(code) {}  // NOLINT(google-explicit-constructor): `return DC_MISS;` is what callers mean
  Status(int32_t code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == DC_OK; }
  int32_t code() const { return code_; }
  const std::string &message() const { return message_; }

 private:
  int32_t code_ = DC_OK;
  std::string message_;
};

// A status with a sentence made as by printf.
[[gnu::format(printf, 2, 3)]] Status failure(int32_t code, const char *format, ...);

// A status of DC_ERROR_SYSTEM that names the call and the reason in errno.
Status system_failure(const char *call, const std::string &subject, int error_number);

// The fixed sentence of a status code.
const char *status_text(int32_t code);

// Copies a status into the caller's optional record, with the fixed text where it has no sentence of its own.
void export_error(const Status &status, dc_error *error);

}  // namespace ddpcache
