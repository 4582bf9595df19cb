// Hits through C++: as hit.c.
#include <ddpcache/ddpcache.hpp>
#include <iostream>

static std::uint64_t hit(ddpcache::Cache &cache, std::int64_t length, std::int64_t count) {
  std::uint64_t bytes = 0;
  for (std::int64_t i = 0; i < count; ++i) bytes += cache.view(i % length)->bytes();
  return bytes;
}

int main(int, char **arguments) {
  ddpcache::Cache cache = ddpcache::Cache::attach(arguments[1]);
  const std::int64_t length = cache.info().length;
  for (std::int64_t count; std::cin >> count;) std::cout << hit(cache, length, count) << std::endl;
  return 0;
}
