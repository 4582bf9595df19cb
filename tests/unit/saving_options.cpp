// What a restored cache may differ in from the saved one, and from one that is there.
#include <gtest/gtest.h>

#include <random>

#include "saving_fixture.hpp"

namespace ddpcache::test {
namespace {

TEST_F(Saving, AnotherFingerprintIsAnErrorWithBoth) {
  Handle cache = open_cache(name_, options_for(5, 1 << 20), "digits v1");
  save(cache, path_);
  const Restored wrong = restore(path_, other_, nullptr, "digits v2");
  EXPECT_EQ(wrong.status, DC_ERROR_FINGERPRINT);
  EXPECT_NE(wrong.message.find("digits v1"), std::string::npos) << wrong.message;
  EXPECT_NE(wrong.message.find("digits v2"), std::string::npos) << wrong.message;
  EXPECT_FALSE(other_.exists());
}

TEST_F(Saving, OptionsThatCannotHoldItAreErrorsWithBothNumbers) {
  Handle cache = open_cache(name_, options_for(100, 8 << 20, 0, 40'000));
  for (int64_t i = 0; i < 100; ++i) ASSERT_EQ(put(cache, i, 30'000), DC_OK);
  save(cache, path_);
  struct Case {
    dc_cache_options options;
    int32_t status;
    const char *text[2];
  };
  dc_cache_options keyed = options_for(0, 0);
  keyed.keyed = 1;
  for (const Case &c : {Case{options_for(99, 0), DC_ERROR_MISMATCH, {"100", "99"}},
                        Case{keyed, DC_ERROR_MISMATCH, {"not keyed", "is keyed"}},
                        Case{options_for(0, 0, 0, 29'999), DC_ERROR_TOO_LARGE, {"30000", "29999"}},
                        Case{options_for(0, 0, 10'000), DC_ERROR_TOO_LARGE, {"30064", "10000"}},
                        Case{options_for(0, 2 << 20), DC_ERROR_NO_SPACE, {"100 samples", "1.977 MiB"}},
                        Case{options_for(0, 3'100'000), DC_ERROR_NO_SPACE, {"100 samples", "is full with"}},
                        Case{options_for(0, uint64_t{1} << 50), DC_ERROR_NO_SPACE, {"1 PiB", "free"}}}) {
    const Restored back = restore(path_, other_, &c.options);
    EXPECT_EQ(back.status, c.status) << back.message;
    for (const char *text : c.text) EXPECT_NE(back.message.find(text), std::string::npos) << back.message;
    EXPECT_FALSE(other_.exists());
  }
}

TEST_F(Saving, OptionsThatAreGivenCount) {
  Handle cache = open_cache(name_, options_for(100, 8 << 20, 0, 40'000));
  ASSERT_EQ(put(cache, 7, 30'000), DC_OK);
  save(cache, path_);
  dc_cache_options options = options_for(0, 16 << 20, 0, 50'000);
  options.droppable = 1;
  options.keep = 1;
  options.job_id = 77;
  Restored back = restore(path_, other_, &options);
  ASSERT_EQ(back.status, DC_OK) << back.message;
  const dc_cache_info info = info_of(back.cache);
  EXPECT_EQ(info.droppable, 1u);
  EXPECT_EQ(info.keep, 1u);
  EXPECT_EQ(info.job_id, 77u);
  EXPECT_EQ(info.sample_bytes_max, 50'000u);
  EXPECT_GE(info.capacity_bytes, 15u << 20);
  EXPECT_TRUE(holds(back.cache, 7, 30'000));
}

// Fills come in another order than they did, and what is full to the last piece has room again.
TEST_F(Saving, AFullCacheOfManySizesFitsItsOwnFile) {
  const unsigned seed = 20261130;
  std::mt19937 random(seed);
  SCOPED_TRACE(seed);
  Handle cache = open_cache(name_, options_for(5000, 24 << 20, 0, 300'000));
  std::vector<uint64_t> sizes(5000);
  uint64_t stored = 0;
  int refused = 0;
  for (int tries = 0; tries < 20'000 && refused < 2000; ++tries) {
    const int64_t index = static_cast<int64_t>(random() % 5000);
    if (sizes[static_cast<size_t>(index)] != 0) continue;
    const uint64_t bytes = uint64_t{1} << (random() % 19);
    const int32_t status = put(cache, index, bytes + 1);
    if (status == DC_OK) sizes[static_cast<size_t>(index)] = bytes + 1;
    stored += status == DC_OK;
    refused += status != DC_OK;
  }
  ASSERT_GT(refused, 100);
  EXPECT_EQ(save(cache, path_), static_cast<int64_t>(stored));
  cache.close();
  const Restored back = restore(path_, other_);
  ASSERT_EQ(back.status, DC_OK) << back.message;
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_TRUE(sizes[i] == 0 || holds(back.cache, static_cast<int64_t>(i), sizes[i])) << i;
  }
}

TEST_F(Saving, ACacheInUseIsAttachedToInsteadOfRead) {
  Handle cache = open_cache(name_, options_for(50, 4 << 20));
  ASSERT_EQ(put(cache, 0, 1000), DC_OK);
  save(cache, path_);
  ASSERT_EQ(put(cache, 1, 1000), DC_OK);
  const Restored back = restore(path_, name_);
  ASSERT_EQ(back.status, DC_OK) << back.message;
  EXPECT_EQ(info_of(back.cache).created, 0u);
  EXPECT_STREQ(info_of(back.cache).uuid, info_of(cache).uuid);
  EXPECT_EQ(dc_cache_contains(back.cache, 1), DC_OK);

  Handle different = open_cache(other_, options_for(60, 4 << 20));
  const Restored refused = restore(path_, other_);
  EXPECT_EQ(refused.status, DC_ERROR_MISMATCH) << refused.message;
  const CacheName third;
  Handle foreign = open_cache(third, options_for(50, 4 << 20), "other data");
  EXPECT_EQ(restore(path_, third).status, DC_ERROR_FINGERPRINT);
}

TEST_F(Saving, AKeptCacheIsUsedWhereItHasAsMuchAndReplacedWhereItHasLess) {
  dc_cache_options options = options_for(50, 4 << 20);
  options.keep = 1;
  Handle cache = open_cache(name_, options);
  ASSERT_EQ(put(cache, 0, 1000), DC_OK);
  ASSERT_EQ(put(cache, 1, 1000), DC_OK);
  save(cache, path_);
  const std::string uuid = info_of(cache).uuid;
  cache.close();
  Restored again = restore(path_, name_);
  ASSERT_EQ(again.status, DC_OK) << again.message;
  EXPECT_EQ(info_of(again.cache).adopted, 1u);
  EXPECT_EQ(info_of(again.cache).uuid, uuid);
  again.cache.close();

  Handle emptier = open_cache(other_, options);
  ASSERT_EQ(put(emptier, 7, 1000), DC_OK);
  emptier.close();
  ASSERT_TRUE(other_.exists());
  const Restored fuller = restore(path_, other_);
  ASSERT_EQ(fuller.status, DC_OK) << fuller.message;
  EXPECT_EQ(info_of(fuller.cache).created, 1u);
  EXPECT_EQ(dc_cache_contains(fuller.cache, 1), DC_OK);
  EXPECT_EQ(dc_cache_contains(fuller.cache, 7), DC_MISS);
}

// Whatever goes wrong with the file, a kept cache that it was to replace stays.
TEST_F(Saving, ADamagedFileReplacesNothing) {
  dc_cache_options options = options_for(50, 4 << 20);
  Handle cache = open_cache(name_, options);
  ASSERT_EQ(put(cache, 0, 1000), DC_OK);
  save(cache, path_);
  std::string bytes = bytes_of(path_);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_bytes(path_, bytes);
  options.keep = 1;
  Handle kept = open_cache(other_, options, "other data");
  ASSERT_EQ(put(kept, 3, 1000), DC_OK);
  kept.close();
  EXPECT_EQ(restore(path_, other_).status, DC_ERROR_DAMAGED);
  const Handle still = open_cache(other_, options, "other data");
  EXPECT_EQ(info_of(still).adopted, 1u);
  EXPECT_TRUE(holds(still, 3, 1000));
}

}  // namespace
}  // namespace ddpcache::test
