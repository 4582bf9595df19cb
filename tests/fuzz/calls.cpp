// Every function of the C interface, in any order, with any arguments.
#include "interface.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ddpcache::fuzz::Input input(data, size);
  ddpcache::fuzz::Interface(input).run();
  return 0;
}
