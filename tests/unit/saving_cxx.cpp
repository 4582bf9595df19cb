// Saving and restoring by the C++ interface.
#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>
#include <string>

#include "../support/caches.hpp"
#include "ddpcache/ddpcache.hpp"

namespace ddpcache::test {
namespace {

TEST(SavingInCxx, SaysWhatTheCInterfaceSays) {
  const CacheName name, other;
  const std::string path = std::filesystem::temp_directory_path() / (std::string(name.c_str()) + ".saved");
  ddpcache::CacheOptions options(20);
  options.capacity_bytes = 4 << 20;
  ddpcache::Cache cache(name.c_str(), "c++", options);
  for (int64_t i = 0; i < 5; ++i) ASSERT_EQ(put(cache.raw(), i, 500), DC_OK);
  int calls = 0;
  EXPECT_EQ(cache.save(path, [&](uint64_t, uint64_t) { return ++calls > 0; }), 5);
  EXPECT_GE(calls, 2);
  EXPECT_THROW(cache.save(path, [](uint64_t, uint64_t) { return false; }), ddpcache::Interrupted);
  EXPECT_THROW(cache.save(path, [](uint64_t, uint64_t) -> bool { throw std::out_of_range("mine"); }),
               std::out_of_range);
  EXPECT_THROW(cache.save("/"), ddpcache::Error);
  EXPECT_EQ(ddpcache::Cache::saved(path).samples, 5);
  EXPECT_THROW(ddpcache::Cache::saved("/"), ddpcache::Error);
  ddpcache::Cache back = ddpcache::Cache::restore(path, other.c_str(), "c++");
  EXPECT_TRUE(holds(back.raw(), 4, 500));
  const CacheName third;
  EXPECT_THROW(ddpcache::Cache::restore(path, third.c_str(), "", nullptr, "", [](uint64_t, uint64_t) { return false; }),
               ddpcache::Interrupted);
  try {
    ddpcache::Cache::restore(path, third.c_str(), "c--");
    ADD_FAILURE();
  } catch (const ddpcache::Error &error) {
    EXPECT_EQ(error.status(), DC_ERROR_FINGERPRINT);
  }
  EXPECT_FALSE(third.exists());
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace ddpcache::test
