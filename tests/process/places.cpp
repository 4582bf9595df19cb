// Clients in PID namespaces and on file systems of their own.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "actors.hpp"

namespace ddpcache::test {
namespace {

class Places : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!may_unshare()) GTEST_SKIP() << "making namespaces and mounts is not permitted here";
  }

  static bool begins(const std::string &text, int32_t status) {
    return text.rfind(std::to_string(status) + ' ', 0) == 0;
  }
  static bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }
};

TEST_F(Places, TwoProcessesThatAreBothPid1BothCountAsAlive) {
  const CacheName name;
  const Handle cache = open_cache(name, options_for(100, 1 << 20));
  Stage own_namespace;
  own_namespace.pid_namespace = true;
  Actor first(own_namespace), second(own_namespace);
  ASSERT_EQ(first.ask(std::string("attach ") + name.c_str()), "0");
  ASSERT_EQ(second.ask(std::string("attach ") + name.c_str()), "0");
  EXPECT_EQ(info_of(cache).clients_attached, 3u);
  ASSERT_EQ(first.ask("begin 7 0"), "0");
  ASSERT_EQ(first.ask("allocate 1000"), "0");
  EXPECT_EQ(second.ask("load 7 1000 200"), std::to_string(DC_BUSY) + " 0");
  EXPECT_EQ(put(cache, 7, 1000, 100 * kMillisecond), DC_BUSY);
  first.kill_and_reap();
  EXPECT_EQ(second.ask("load 7 1000 60000"), "0 1") << "its death is noticed from another namespace";
  EXPECT_TRUE(holds(cache, 7, 1000));
  // That it is dead cannot be proved from here, so its bytes stay out of use.
  EXPECT_EQ(report_of(cache).extents_named, 1u);
}

TEST_F(Places, AProcessWithoutItsLockKeepsItsBytesInEveryNamespace) {
  const CacheName name;
  const Handle cache = open_cache(name, options_for(1000, 2 << 20, 20'000));
  Stage own_namespace;
  own_namespace.pid_namespace = true;
  Actor lost(own_namespace), other(own_namespace);
  ASSERT_EQ(lost.ask(std::string("attach ") + name.c_str()), "0");
  ASSERT_EQ(other.ask(std::string("attach ") + name.c_str()), "0");
  ASSERT_EQ(lost.ask("begin 7 0"), "0");
  ASSERT_EQ(lost.ask("allocate 20000"), "0");
  ASSERT_EQ(lost.ask("close-descriptors"), "0");
  EXPECT_EQ(other.ask("load 7 20000 60000"), "0 1");
  for (int64_t i = 100, refused = 0; refused < 3; ++i) {
    refused += other.ask("put " + std::to_string(i) + " 20000") != "0";
    refused += put(cache, 500 + i, 20'000) != DC_OK;
  }
  EXPECT_EQ(report_of(cache).extents_named, 1u);
  ASSERT_EQ(lost.ask("write 0 20000"), "0");
  EXPECT_EQ(lost.ask("commit"), std::to_string(DC_ERROR_LOST));
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_TRUE(dc_cache_contains(cache, i) == DC_MISS || holds(cache, i, 20'000));
  }
  report_of(cache);
}

TEST_F(Places, ADeathIsProvedWithinItsOwnNamespaceOnly) {
  const CacheName name;
  dc_cache_options options = options_for(100, 1 << 20);
  options.clients_max = 2;
  const Handle cache = open_cache(name, options);
  Stage own_namespace;
  own_namespace.pid_namespace = true;
  Actor first(own_namespace);
  ASSERT_EQ(first.ask(std::string("attach ") + name.c_str()), "0");
  first.kill_and_reap();
  dc_cache *second = nullptr;
  EXPECT_EQ(dc_cache_attach(name.c_str(), nullptr, kSecond, &second, nullptr), DC_ERROR_CLIENTS)
      << "its record is not taken while it might live";
  report_of(cache);
}

class SmallShm : public Places {
 protected:
  static constexpr int kMegabytes = 64;
  Stage stage() const {
    Stage own;
    own.shm_megabytes = kMegabytes;
    return own;
  }
};

TEST_F(SmallShm, RefusesACacheOfAGigabyteAndSaysWhatToDo) {
  Actor actor(stage());
  const std::string refused = actor.ask("open big 1000 1073741824 0 16 0 0");
  EXPECT_TRUE(begins(refused, DC_ERROR_NO_SPACE)) << refused;
  for (const char *part : {"/dev/shm/ddpcache.", "needs 102", "64 MiB free", "--shm-size", "emptyDir", "Memory"}) {
    EXPECT_TRUE(has(refused, part)) << part << " is not in: " << refused;
  }
  EXPECT_EQ(actor.ask("files /dev/shm"), "1") << "the lock file alone";
}

TEST_F(SmallShm, MakesAPartialCacheThatWorksUntilItIsFull) {
  for (const char *capacity : {"1073741824", "1099511627776"}) {
    Actor actor(stage());
    ASSERT_EQ(actor.ask(std::string("open big 1000 ") + capacity + " 0 16 1 0"), "0");
    int64_t stored = 0;
    std::string status;
    while ((status = actor.ask("put " + std::to_string(stored) + " 100000")) == "0") ++stored;
    EXPECT_EQ(status, std::to_string(DC_FULL)) << "not a SIGBUS";
    EXPECT_GE(stored, 400) << "most of 64 MB is used";
    for (int64_t i = 0; i < stored; i += 13) EXPECT_EQ(actor.ask("get " + std::to_string(i) + " 100000"), "1");
    EXPECT_EQ(actor.ask("close"), "0");
  }
}

TEST_F(SmallShm, TakesHalfOfWhatIsFreeWhereNoCapacityIsAsked) {
  Actor actor(stage());
  ASSERT_EQ(actor.ask("open big 1000 0 0 16 0 0"), "0");
  int64_t stored = 0;
  while (actor.ask("put " + std::to_string(stored) + " 100000") == "0") ++stored;
  EXPECT_GE(stored, 240);
  EXPECT_LE(stored, 330);
}

TEST_F(SmallShm, FilledByAnotherProgramStopsGrowthAndNothingElse) {
  Actor actor(stage());
  ASSERT_EQ(actor.ask("open big 1000 50000000 0 16 0 0"), "0");
  int64_t stored = 0;
  ASSERT_NO_FATAL_FAILURE(fill_beside_a_hog(&actor, &stored));
  EXPECT_LT(stored, 60) << "only what was reserved before";
  EXPECT_EQ(actor.ask("load 900 100000 0"), std::to_string(DC_FULL) + " 1") << "decoded for the caller alone";
  expect_growth_without_the_hog(&actor);
}

// Not "out of range": the sizes are possible, the place is too small for them.
TEST_F(SmallShm, TooSmallForOneSampleIsAnErrorOfSpace) {
  Actor actor(stage());
  for (const char *wish : {"1073741824 100000000 16 0 0", "1073741824 100000000 16 1 0", "0 100000000 16 0 0"}) {
    const std::string refused = actor.ask(std::string("open big 1000 ") + wish);
    EXPECT_TRUE(begins(refused, DC_ERROR_NO_SPACE)) << refused;
    EXPECT_TRUE(has(refused, "--shm-size")) << refused;
  }
}

TEST_F(SmallShm, FullFromTheStartIsAnError) {
  Actor actor(stage());
  ASSERT_EQ(actor.ask("hog"), "0");
  for (const char *partial : {"0", "1"}) {
    const std::string refused = actor.ask(std::string("open big 1000 1048576 0 16 ") + partial + " 0");
    EXPECT_TRUE(begins(refused, DC_ERROR_NO_SPACE)) << refused;
  }
}

}  // namespace
}  // namespace ddpcache::test
