// Small real caches that are kept from input to input: damaged, used, and put back as they were by a copy of their
// bytes, which is a thousand times as fast as to make them anew.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "ddpcache/batch.h"
#include "ddpcache/cache.h"
#include "ddpcache/keys.h"
#include "ddpcache/report.h"
#include "ddpcache/saving.h"
#include "input.hpp"
#include "moves.hpp"
#include "segment.hpp"

namespace ddpcache::fuzz {

inline dc_array bytes_of(int64_t count) {
  dc_array array = {};
  array.shape[0] = count;
  array.dimensions = 1;
  array.dtype_code = 1;
  array.dtype_bits = 8;
  array.dtype_lanes = 1;
  return array;
}

class Playground {
 public:
  static constexpr int64_t kLength = 24;
  static constexpr int64_t kStored = 12;
  static constexpr int64_t kSampleBytes = 256;

  Playground(const char *kind, const dc_cache_options &options) {
#ifdef DDPCACHE_FAULTS
    moves_are_judged.store(false);
#endif
    const std::string name = "fuzz-" + std::to_string(getpid()) + "-" + kind;
    dc_error error = {};
    const auto open = [&](int32_t status) {
      if (status != DC_OK) finding(__FILE__, __LINE__, error.message);
    };
    open(dc_cache_open(name.c_str(), nullptr, "fuzz", &options, &writer_, &error));
    open(dc_cache_attach_read_only(name.c_str(), nullptr, 1'000'000'000, &reader_, &error));
    const std::string path = "/dev/shm/ddpcache." + std::to_string(geteuid()) + "." + name;
    file_ = Descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    // Whatever ends this process, nothing is left.
    open(dc_cache_unlink(name.c_str(), nullptr, &error));
    map_again();
    fill();
    image_.assign(file_bytes(), file_bytes() + words_.layout.file_bytes);
  }
  Playground(const Playground &) = delete;
  Playground &operator=(const Playground &) = delete;

  dc_cache *writer() const { return writer_; }
  dc_cache *reader() const { return reader_; }
  // Its words and bytes, through a mapping of this program's own.
  const Segment &words() const { return words_; }
  int fd() const { return file_.get(); }
  void call_it_on_a_disk(bool on_disk) { words_.medium = on_disk ? Medium::disk : Medium::memory; }

  // After a recovery, which has put away every client: as if this one had come again.
  void rejoin() {
    const size_t record = words_.layout.clients_offset;
    std::memcpy(file_bytes(), image_.data(), kPageBytes);
    std::memcpy(file_bytes() + record, image_.data() + record, offsetof(ClientRecord, stats));
    words_.control().clients_used.store(1);
  }
  void restore() { std::memcpy(file_bytes(), image_.data(), image_.size()); }

 private:
  uint8_t *file_bytes() const { return reinterpret_cast<uint8_t *>(&words_.stored_header()); }

  void map_again() {
    struct stat properties = {};
    DC_MUST(file_.valid() && fstat(file_.get(), &properties) == 0);
    DC_MUST(pread(file_.get(), &words_.header, sizeof(Header), 0) == static_cast<ssize_t>(sizeof(Header)));
    DC_MUST(check_header(words_.header, static_cast<uint64_t>(properties.st_size), "it", &words_.layout).ok());
    DC_MUST(words_.map(file_.get()).ok());
    // Of the arena the library reserves only what it uses; here all of it is touched.
    DC_MUST(fallocate(file_.get(), 0, 0, properties.st_size) == 0);
  }

  // Samples of some shapes and sizes, one of them removed and one given up where that can be.
  void fill() const {
    for (int64_t i = 0; i < kStored; ++i) {
      if (words_.keyed()) {
        const std::string key = "key " + std::to_string(i);
        int64_t index = -1;
        DC_MUST(dc_cache_intern(writer_, reinterpret_cast<const uint8_t *>(key.data()), key.size(), &index) == DC_OK);
      }
      dc_fill *fill = nullptr;
      DC_MUST(dc_cache_fill_begin(writer_, 2 * i % kLength, 0, &fill) == DC_OK);
      std::array<dc_array, 3> arrays = {bytes_of(17 * i % 120), bytes_of(64), bytes_of(0)};
      if (i % 3 == 1) std::strcpy(arrays[0].name, "image");
      DC_MUST(dc_cache_fill_allocate(fill, arrays.data(), 1 + i % 3, i % 4 == 2 ? "{\"a\": 0}" : nullptr, nullptr) ==
              DC_OK);
      for (uint32_t a = 0; a <= i % 3; ++a) {
        if (arrays[a].bytes > 0) std::memset(arrays[a].data, static_cast<int>(i), arrays[a].bytes);
      }
      DC_MUST(dc_cache_fill_commit(fill) == DC_OK);
    }
    if (words_.droppable()) DC_MUST(dc_cache_remove(writer_, 4) == DC_OK);
  }

  dc_cache *writer_ = nullptr;
  dc_cache *reader_ = nullptr;
  Descriptor file_;
  Segment words_;
  std::vector<uint8_t> image_;
};

// One of each kind, made at the first use.
inline Playground &playground(uint32_t kind) {
  static std::array<Playground *, 4> all = [] {
    dc_cache_options options;
    dc_cache_options_init(&options, sizeof options);
    options.length = Playground::kLength;
    options.clients_max = 3;
    options.capacity_bytes = 64 << 10;
    options.sample_bytes_max = 2'000;
    dc_cache_options droppable = options, fixed = options, checked = options;
    droppable.droppable = droppable.keyed = 1;
    droppable.checksums = DC_CHECKSUMS_FILL;
    fixed.sample_bytes = Playground::kSampleBytes;
    fixed.sample_bytes_max = 0;
    fixed.droppable = 1;
    fixed.checksums = DC_CHECKSUMS_READ;
    checked.keyed = 1;
    checked.checksums = DC_CHECKSUMS_READ;
    return std::array<Playground *, 4>{new Playground("plain", options), new Playground("droppable", droppable),
                                       new Playground("fixed", fixed), new Playground("checked", checked)};
  }();
  return *all[kind % all.size()];
}

}  // namespace ddpcache::fuzz
