// What the files of the C interface share: checks of arguments, and the catch-all that lets no exception leave the
// library.
#pragma once

#include <new>

#include "status.hpp"

namespace ddpcache {

// What a program compiled against a later version may have set, and this version does not know.
inline Status check_unknown_options(const void *options, uint32_t struct_size, size_t known) {
  const unsigned char *bytes = static_cast<const unsigned char *>(options);
  for (size_t i = known; i < struct_size; ++i) {
    if (bytes[i] != 0) {
      return failure(DC_ERROR_UNSUPPORTED, "byte %zu of the options is set, of which this version knows %zu bytes", i,
                     known);
    }
  }
  return DC_OK;
}

inline Status null_argument(const char *name) { return failure(DC_ERROR_ARGUMENT, "%s is NULL", name); }

// Runs `body`, which returns a Status, and reports it as a number and in the caller's optional record.
template <typename Body>
int32_t guarded(dc_error *error, Body &&body) noexcept {
  try {
    const Status status = body();
    if (status.code() < 0) export_error(status, error);
    return status.code();
  } catch (const std::bad_alloc &) {
    export_error(Status(DC_ERROR_NO_MEMORY), error);
    return DC_ERROR_NO_MEMORY;
  } catch (...) {
    export_error(Status(DC_ERROR_INTERNAL), error);
    return DC_ERROR_INTERNAL;
  }
}

}  // namespace ddpcache
