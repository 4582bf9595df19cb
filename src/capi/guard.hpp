// The catch-all of the C interface: no exception leaves the library.
#pragma once

#include <new>

#include "status.hpp"

namespace ddpcache {

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
