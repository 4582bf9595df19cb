// Saving and restoring against a copy of the same bytes, all in shared memory, so that no disk is measured.
#include "ddpcache/saving.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "support.hpp"

namespace bench {
namespace {

constexpr uint64_t kSampleBytes = 150'000;
constexpr int64_t kSamples = (uint64_t{512} << 20) / kSampleBytes;

class File {
 public:
  explicit File(const char *kind) : path_("/dev/shm/ddpcache-bench-" + std::to_string(getpid()) + "-" + kind) {}
  ~File() { unlink(path_.c_str()); }
  File(const File &) = delete;
  File &operator=(const File &) = delete;
  const char *path() const { return path_.c_str(); }
  double gigabytes() const {
    struct stat properties = {};
    if (stat(path(), &properties) != 0) stop("%s is not there", path());
    return static_cast<double>(properties.st_size) / 1e9;
  }

 private:
  const std::string path_;
};

// What cp does where it cannot share blocks.
void copy(const char *from, const char *to) {
  std::vector<uint8_t> buffer(1 << 20);
  const int source = open(from, O_RDONLY | O_CLOEXEC);
  const int target = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  for (ssize_t got = 1; got > 0;) {
    got = read(source, buffer.data(), buffer.size());
    if (got < 0 || write(target, buffer.data(), static_cast<size_t>(got)) != got) stop("%s cannot be copied", from);
  }
  close(source);
  close(target);
}

double save(const Cache &cache) {
  const File file("saved");
  dc_error error = {};
  const double passed = seconds([&] {
    require(dc_cache_save(cache.get(), file.path(), nullptr, nullptr, nullptr, &error), "dc_cache_save", error);
  });
  return file.gigabytes() / passed;
}

double restore(const File &file) {
  const std::string name = "bench-restored-" + std::to_string(getpid());
  dc_cache *cache = nullptr;
  dc_error error = {};
  const double passed = seconds([&] {
    require(dc_cache_restore(file.path(), name.c_str(), nullptr, nullptr, nullptr, nullptr, nullptr, &cache, &error),
            "dc_cache_restore", error);
  });
  dc_cache_close(cache);
  return file.gigabytes() / passed;
}

double fill_once(const uint8_t *sample) {
  Cache cache(options_for(kSamples, kSampleBytes));
  const double passed = seconds([&] {
    for (int64_t i = 0; i < kSamples; ++i) {
      cache.fill(i, kSampleBytes, [&](uint8_t *data) { std::memcpy(data, sample, kSampleBytes); });
    }
  });
  return static_cast<double>(kSamples) * kSampleBytes / 1e9 / passed;
}

double copy_once(const File &from) {
  const File to("copy");
  const double passed = seconds([&] { copy(from.path(), to.path()); });
  return from.gigabytes() / passed;
}

}  // namespace

void saving() {
  const std::vector<uint8_t> sample(kSampleBytes, 7);
  Cache cache(options_for(kSamples, kSampleBytes));
  for (int64_t i = 0; i < kSamples; ++i) {
    cache.fill(i, kSampleBytes, [&](uint8_t *data) { std::memcpy(data, sample.data(), kSampleBytes); });
  }
  const File file("source");
  dc_error error = {};
  require(dc_cache_save(cache.get(), file.path(), nullptr, nullptr, nullptr, &error), "dc_cache_save", error);
  const std::vector<std::pair<std::string, std::string>> facts = {{"samples", std::to_string(kSamples)}};
  measure("save, 150 KB", "GB/s",
          {{"ddpcache", [&] { return save(cache); }}, {"cp of the file", [&] { return copy_once(file); }}}, facts);
  measure("restore, 150 KB", "GB/s",
          {{"ddpcache", [&] { return restore(file); }},
           {"fills from memory", [&] { return fill_once(sample.data()); }},
           {"cp of the file", [&] { return copy_once(file); }}},
          facts);
}

}  // namespace bench
