// hello_cache: ten samples in a cache that any number of programs, in any language, share while one of them runs.
//
// Start it, or its namesakes in the other languages, several times at once with the same name: each sample is decoded
// by one of them and found by the others.
//
//     c++ -std=c++17 hello_cache.cpp $(pkg-config --cflags --libs ddpcache) -o hello_cache
//     ./hello_cache [NAME]
#include <cstdio>
#include <ddpcache/ddpcache.hpp>
#include <exception>
#include <iostream>

int main(int count, char **arguments) try {
  constexpr std::int64_t kLength = 10, kRows = 2, kColumns = 3;
  ddpcache::CacheOptions options(kLength);
  options.capacity_bytes = 1 << 20;
  ddpcache::Cache cache(count > 1 ? arguments[1] : "hello_cache", "hello_cache 1", options);

  // Stands for reading and decoding a file: it learns the shape, asks for memory, and decodes straight into it.
  int decoded = 0;
  const auto decode = [&](ddpcache::Filling &filling, std::int64_t index) {
    std::int32_t *values = filling.allocate<std::int32_t>({kRows, kColumns});
    for (int i = 0; i < kRows * kColumns; ++i) values[i] = static_cast<std::int32_t>(index) * 100 + i;
    ++decoded;
  };
  for (std::int64_t index = 0; index < kLength; ++index) {
    const ddpcache::View view = cache.load(index, decode);
    const ddpcache::Array array = view.array(0);
    const auto values = array.values<std::int32_t>();
    std::printf("sample %d: %d x %d, from %d to %d\n", int(index), int(array.shape()[0]), int(array.shape()[1]),
                values[0], values[values.size() - 1]);
  }
  std::printf("decoded %d, found %d\n", decoded, int(kLength) - decoded);
  return 0;
} catch (const std::exception &reason) {
  std::cerr << reason.what() << "\n";
  return 1;
}
