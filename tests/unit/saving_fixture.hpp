// What the tests of saving share.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "../support/caches.hpp"
#include "ddpcache/saving.h"

namespace ddpcache::test {

namespace fs = std::filesystem;

// A directory of the test's own.
class Folder {
 public:
  explicit Folder(const fs::path &in = fs::temp_directory_path()) {
    std::string pattern = (in / "ddpcache-saving-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
  }
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;
  ~Folder() { fs::remove_all(path_); }
  std::string file(const std::string &name) const { return path_ + "/" + name; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto &entry : fs::directory_iterator(path_)) names.push_back(entry.path().filename());
    return names;
  }

 private:
  std::string path_;
};

inline std::string bytes_of(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_bytes(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline int64_t save(dc_cache *cache, const std::string &path) {
  int64_t saved = -1;
  dc_error error = {};
  EXPECT_EQ(dc_cache_save(cache, path.c_str(), nullptr, nullptr, &saved, &error), DC_OK) << error.message;
  return saved;
}

struct Restored {
  int32_t status;
  std::string message;
  Handle cache;
};

inline Restored restore(const std::string &path, const CacheName &name, const dc_cache_options *options = nullptr,
                        const char *fingerprint = nullptr) {
  dc_cache *cache = nullptr;
  dc_error error = {};
  const int32_t status =
      dc_cache_restore(path.c_str(), name.c_str(), nullptr, fingerprint, options, nullptr, nullptr, &cache, &error);
  EXPECT_EQ(status == DC_OK, cache != nullptr);
  return {status, error.message, Handle(cache)};
}

inline dc_saved_info saved_info(const std::string &path) {
  dc_saved_info info = {};
  info.struct_size = sizeof info;
  dc_error error = {};
  EXPECT_EQ(dc_saved_info_get(path.c_str(), &info, &error), DC_OK) << error.message;
  return info;
}

class Saving : public ::testing::Test {
 protected:
  const Folder folder_;
  const CacheName name_, other_;
  const std::string path_ = folder_.file("saved.cache");
};

}  // namespace ddpcache::test
