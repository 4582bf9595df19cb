#include "ddpcache/base.h"
#include "status.hpp"

#define DC_TEXT_OF(x) #x
#define DC_TEXT(x) DC_TEXT_OF(x)

extern "C" {

const char *dc_version(void) {
  return DC_TEXT(DC_VERSION_MAJOR) "." DC_TEXT(DC_VERSION_MINOR) "." DC_TEXT(DC_VERSION_PATCH);
}

int32_t dc_abi_version(void) { return DC_ABI_VERSION; }

const char *dc_strerror(int32_t status) { return ddpcache::status_text(status); }

}  // extern "C"
