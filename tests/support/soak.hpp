// Long tests run for a short while in the ordinary run, and for their whole length under `tests/run soak`, which sets
// DDPCACHE_SOAK=1. A program of such tests is declared with SOAK, so that they have its label and a longer watchdog.
#pragma once

#include <cstdlib>
#include <string_view>

namespace ddpcache::test {

inline bool soaking() {
  const char *wish = std::getenv("DDPCACHE_SOAK");
  return wish && std::string_view(wish) == "1";
}

// How many rounds, seconds or processes.
template <typename Number>
Number soaked(Number ordinarily, Number whole) {
  return soaking() ? whole : ordinarily;
}

}  // namespace ddpcache::test
