// ddpcache_bench ROW: measures one row of docs/benchmarks.md and prints it as one line of JSON or several.
#include <cstring>

#include "support.hpp"

int main(int count, char **arguments) {
  struct Row {
    const char *name;
    void (*run)();
  };
  constexpr Row kRows[] = {
      {"hit", bench::hit},
      {"batch", bench::read_batch},
      {"gather", bench::gather},
      {"first-pass", bench::first_pass},
      {"fill", bench::fill},
      {"checksums", bench::checksums},
      {"attach", bench::attach},
      {"arena", bench::arena},
      {"sampler-cost", bench::sampler_cost},
      {"hit-rate", bench::hit_rate},
      {"saving", bench::saving},
  };
  if (count == 4 && std::strcmp(arguments[1], "attach-once") == 0) {
    bench::attach_once(arguments[2], arguments[3]);
    return 0;
  }
  if (count == 4 && std::strcmp(arguments[1], "first-pass-once") == 0) {
    bench::first_pass_once(arguments[2], arguments[3]);
    return 0;
  }
  for (const Row &row : kRows) {
    if (count == 2 && std::strcmp(arguments[1], row.name) == 0) {
      row.run();
      return 0;
    }
  }
  std::string names;
  for (const Row &row : kRows) names += std::string(" ") + row.name;
  bench::stop("usage: ddpcache_bench NAME, one of:%s", names.c_str());
}
