// The C++ objects in a program that is compiled without exceptions.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../support/caches.hpp"
#include "ddpcache/ddpcache.hpp"

#ifdef __cpp_exceptions
#error "this file is to be compiled with -fno-exceptions"
#endif

namespace {

using ddpcache::test::CacheName;

ddpcache::CacheOptions small() {
  ddpcache::CacheOptions options(100);
  options.capacity_bytes = 1 << 20;
  options.clients_max = 16;
  return options;
}

// A loader that says whether it could.
bool write_index(ddpcache::Filling &filling, std::int64_t index) {
  ddpcache::Result<std::int64_t *> values = filling.try_allocate<std::int64_t>({1});
  if (values) **values = index;
  return static_cast<bool>(values);
}

class CxxWithoutExceptions : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(opened_) << opened_.error().what(); }

  const CacheName name_;
  ddpcache::Result<ddpcache::Cache> opened_ = ddpcache::Cache::try_open(name_.c_str(), "plain", small());
};

TEST_F(CxxWithoutExceptions, LoadsAndThenHits) {
  ddpcache::Cache &cache = *opened_;
  ddpcache::Result<ddpcache::View> view = cache.try_load(7, write_index);
  ASSERT_TRUE(view);
  EXPECT_EQ(view.status(), DC_OK);
  EXPECT_EQ(view->array(0).values<std::int64_t>()[0], 7);
  const std::optional<ddpcache::View> again = cache.view(7);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->data(), view->data());
}

TEST_F(CxxWithoutExceptions, WhatCannotBeOpenedIsAResultWithItsSentence) {
  const auto other = ddpcache::Cache::try_open(name_.c_str(), "another", small());
  ASSERT_FALSE(other);
  EXPECT_EQ(other.status(), DC_ERROR_FINGERPRINT);
  EXPECT_NE(std::string(other.error().what()).find("another"), std::string::npos) << other.error().what();
  EXPECT_EQ(ddpcache::Cache::try_attach("no-such-cache").status(), DC_ERROR_NOT_FOUND);
  EXPECT_EQ(ddpcache::Cache::try_attach_read_only("no-such-cache").status(), DC_ERROR_NOT_FOUND);
  EXPECT_EQ(ddpcache::Cache::try_saved("/no/such/file").status(), DC_ERROR_NOT_FOUND);
  EXPECT_EQ(opened_->try_save("/no/such/folder/file").status(), DC_ERROR_SYSTEM);
}

TEST_F(CxxWithoutExceptions, ALoaderThatSaysNoGivesTheEntryBack) {
  const auto refuses = [](ddpcache::Filling &, std::int64_t) { return false; };
  EXPECT_EQ(opened_->try_load(3, refuses).status(), DC_ERROR_LOADER);
  const auto large = [](ddpcache::Filling &filling, std::int64_t) {
    return static_cast<bool>(filling.try_allocate<std::uint8_t>({1 << 20}));
  };
  EXPECT_EQ(opened_->try_load(3, large).status(), DC_ERROR_TOO_LARGE);
  EXPECT_FALSE(opened_->contains(3));
  EXPECT_EQ(opened_->stats().open_fills, 0u);
}

TEST_F(CxxWithoutExceptions, WhoWaitsForAnotherFillerGetsBusyAsAResult) {
  ddpcache::Result<std::optional<ddpcache::Fill>> fill = opened_->try_begin_fill(2);
  ASSERT_TRUE(fill);
  ASSERT_TRUE(*fill);
  std::thread([&] {
    EXPECT_EQ(opened_->try_load(2, write_index, std::chrono::milliseconds(10)).status(), DC_BUSY);
    EXPECT_EQ(opened_->try_begin_fill(2, std::chrono::milliseconds(10)).status(), DC_BUSY);
  }).join();
  EXPECT_EQ((*fill)->try_commit(), DC_ERROR_STATE);  // nothing allocated
  ASSERT_TRUE(write_index(**fill, 2));
  EXPECT_EQ((*fill)->try_commit(), DC_OK);
  ddpcache::Result<std::optional<ddpcache::Fill>> present = opened_->try_begin_fill(2);
  ASSERT_TRUE(present);
  EXPECT_FALSE(*present);
}

TEST_F(CxxWithoutExceptions, ASoundCacheIsCheckedWithoutThrowing) {
  ASSERT_TRUE(opened_->try_load(1, write_index));
  const ddpcache::Result<dc_cache_report> report = opened_->try_check();
  ASSERT_TRUE(report) << report.error().what();
  EXPECT_EQ(report->entries_ready, 1u);
}

TEST(CxxSamplerWithoutExceptions, BadOptionsAndDamagedStatesAreResults) {
  ddpcache::SamplerOptions options(100);
  options.nodes = 0;
  EXPECT_EQ(ddpcache::Sampler::try_open(options).status(), DC_ERROR_RANGE);
  options.nodes = 1;
  ddpcache::Result<ddpcache::Sampler> sampler = ddpcache::Sampler::try_open(options);
  ASSERT_TRUE(sampler);
  std::vector<std::uint8_t> state = sampler->save_state(10);
  EXPECT_EQ(sampler->try_load_state(state), DC_OK);
  state[30] ^= 1;
  dc_error error;
  EXPECT_EQ(sampler->try_load_state(state, &error), DC_ERROR_SAMPLER_STATE);
  EXPECT_STREQ(error.message, "the sampler state is damaged: its checksum does not match");
  EXPECT_TRUE(ddpcache::detect_topology());
}

class CxxFailureHandler : public CxxWithoutExceptions {
 protected:
  // A process that is ended so leaves its cache to the next one that looks.
  void TearDown() override { EXPECT_GE(ddpcache::Cache::gc(), 0); }
};

TEST_F(CxxFailureHandler, SaysTheSentenceAndEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(opened_->contains(100), "^ddpcache: out of range");
  EXPECT_DEATH(ddpcache::Cache(name_.c_str(), "another", small()), "ddpcache: .*another");
  EXPECT_DEATH(opened_->load(1, [](ddpcache::Filling &, std::int64_t) {}), "ddpcache: .*loader");
}

TEST_F(CxxFailureHandler, MayBeTheProgramsOwn) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto leave = [](const ddpcache::Error &error) { std::_Exit(-error.status()); };
  const auto fail = [&] {
    ddpcache::failure_handler = leave;
    opened_->contains(100);
  };
  EXPECT_EXIT(fail(), ::testing::ExitedWithCode(-DC_ERROR_RANGE), "");
  const auto ignore = [&] {
    ddpcache::failure_handler = [](const ddpcache::Error &) {};
    opened_->contains(100);
  };
  EXPECT_EXIT(ignore(), ::testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
