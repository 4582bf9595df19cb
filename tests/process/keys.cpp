// Processes that are killed or stopped while they give a key its index.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "actors.hpp"
#include "segment.hpp"

namespace ddpcache::test {
namespace {

class Keyed : public ::testing::Test {
 protected:
  Keyed() {
    const Descriptor file(open(name_.path().c_str(), O_RDWR | O_CLOEXEC));
    EXPECT_EQ(pread(file.get(), &segment_.header, sizeof(Header), 0), static_cast<ssize_t>(sizeof(Header)));
    EXPECT_TRUE(plan_layout(segment_.header.geometry, &segment_.layout).ok());
    EXPECT_TRUE(segment_.map(file.get()).ok());
  }
  ~Keyed() override { report_of(cache_); }

  static dc_cache_options options() {
    dc_cache_options options = options_for(100, 1 << 20, 64);
    options.keyed = 1;
    return options;
  }
  std::string attach() const { return std::string("attach ") + name_.c_str(); }
  static KeyHash hash_of(const std::string &key) {
    return KeyHash::of(reinterpret_cast<const uint8_t *>(key.data()), key.size());
  }
  // Another key with the tag and the home of `key`: no text that has these is to be found.
  static KeyHash rival_of(const std::string &key) {
    const KeyHash hash = hash_of(key);
    return {hash.tag, hash.rest ^ 1};
  }
  int64_t intern_hash(KeyHash key) {
    int64_t index = -1;
    bool fresh = false;
    EXPECT_EQ(segment_.keys().intern(key, &index, &fresh), DC_OK);
    return index;
  }
  int64_t intern_here(const std::string &key) {
    int64_t index = -1;
    EXPECT_EQ(intern(cache_, key, &index), DC_OK);
    return index;
  }
  static std::string found(int64_t index) { return "0 " + std::to_string(index); }

  const CacheName name_;
  const Handle cache_ = open_cache(name_, options());
  Segment segment_;
};

// A process that interns "a" stops before each step in turn, while others get ahead of it.
class StoppedAt : public Keyed, public ::testing::WithParamInterface<const char *> {
 protected:
  StoppedAt() {
    EXPECT_EQ(stopped_.ask(attach()), "0");
    stopped_.tell("intern a");
    stopped_.await_stop();
  }
  std::string go_on() {
    stopped_.signal(SIGCONT);
    return stopped_.hear();
  }
  const int64_t home_ = segment_.keys().home(hash_of("a"));
  Actor stopped_{{.fault = std::string(GetParam()) + ":stop"}};
};

INSTANTIATE_TEST_SUITE_P(Interning, StoppedAt, ::testing::Values("key-slot-free", "key-tagged", "key-rest-free"),
                         [](const auto &instance) {
                           std::string name = instance.param;
                           for (char &c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST_P(StoppedAt, FindsTheIndexThatTheKeyWasGivenMeanwhile) {
  EXPECT_EQ(intern_here("a"), home_);
  EXPECT_EQ(go_on(), found(home_));
  EXPECT_EQ(report_of(cache_).keys, 1u);
  EXPECT_EQ(info_of(cache_).keys, 1u) << "counted by the one who set the rest";
}

TEST_P(StoppedAt, GoesOnWhereAnotherKeyOfTheTagHasTakenTheSlot) {
  EXPECT_EQ(intern_hash(rival_of("a")), home_);
  EXPECT_EQ(go_on(), found(home_ + 1));
  EXPECT_EQ(intern_here("a"), home_ + 1);
  EXPECT_EQ(report_of(cache_).keys, 2u);
}

TEST_P(StoppedAt, AndAKeyOfAnotherTagFindPlacesOfTheirOwn) {
  const KeyHash other = {hash_of("a").tag ^ 2, hash_of("a").rest};
  const int64_t others = intern_hash(other);
  EXPECT_EQ(intern_hash(other), others);
  const bool was_free = std::string(GetParam()) == "key-slot-free";
  EXPECT_EQ(others, was_free ? home_ : home_ + 1);
  EXPECT_EQ(go_on(), found(was_free ? home_ + 1 : home_));
}

// A process dies after it has set the tag of "a" at its home.
class HalfDone : public Keyed {
 protected:
  HalfDone() {
    Actor killed({.fault = "key-tagged:kill"});
    EXPECT_EQ(killed.ask(attach()), "0");
    EXPECT_EQ(killed.ask("intern a"), "");
    EXPECT_EQ(killed.reap(), SIGKILL);
    EXPECT_EQ(report_of(cache_).keys_unfinished, 1u);
    EXPECT_EQ(report_of(cache_).keys, 0u);
  }
  const int64_t home_ = segment_.keys().home(hash_of("a"));
};

TEST_F(HalfDone, KeyOfTheDeadGoesToTheNextWhoHasIt) {
  int64_t index = -1;
  EXPECT_EQ(dc_cache_lookup(cache_, reinterpret_cast<const uint8_t *>("a"), 1, &index), DC_MISS);
  EXPECT_EQ(intern_here("a"), home_);
  EXPECT_EQ(report_of(cache_).keys, 1u);
  EXPECT_EQ(report_of(cache_).keys_unfinished, 0u);
}

TEST_F(HalfDone, SlotOfTheDeadGoesToAnotherKeyOfTheTag) {
  EXPECT_EQ(intern_hash(rival_of("a")), home_);
  EXPECT_EQ(intern_here("a"), home_ + 1);
  EXPECT_EQ(report_of(cache_).keys, 2u);
}

TEST_F(HalfDone, KeysOfOtherTagsPassTheSlotOfTheDead) {
  EXPECT_EQ(intern_hash({hash_of("a").tag ^ 2, hash_of("a").rest}), home_ + 1);
  EXPECT_EQ(intern_here("a"), home_);
}

TEST_F(Keyed, KilledAfterBothHalvesTheKeyIsThere) {
  Actor killed({.fault = "key-set:kill"});
  ASSERT_EQ(killed.ask(attach()), "0");
  ASSERT_EQ(killed.ask("intern a"), "");
  const dc_cache_report report = report_of(cache_);
  EXPECT_EQ(report.keys, 1u);
  EXPECT_EQ(info_of(cache_).keys, 0u) << "a count that the kill has cost";
  EXPECT_EQ(intern_here("a"), segment_.keys().home(hash_of("a")));
  EXPECT_EQ(report_of(cache_).keys, 1u);
}

TEST_F(Keyed, ForkedAndUnregisteredProcessesInternToo) {
  Actor actor;
  ASSERT_EQ(actor.ask(attach()), "0");
  const std::string a = actor.ask("intern a");
  EXPECT_EQ(a, found(intern_here("a")));
  EXPECT_EQ(actor.ask("in-child intern a"), a);
  const std::string b = actor.ask("in-child intern b");
  EXPECT_EQ(actor.ask("lookup b"), b);
  EXPECT_EQ(actor.ask("lookup c"), "1 -1");
  actor.ask("close-descriptors");
  EXPECT_EQ(actor.ask("intern a"), a);
  EXPECT_EQ(actor.ask("intern c"), found(intern_here("c")));
  EXPECT_EQ(report_of(cache_).keys, 3u);
}

TEST_F(Keyed, KeysOutliveAllWhoGaveThem) {
  CacheName name;
  name.may_stay();
  dc_cache_options kept = options();
  kept.keep = 1;
  Handle cache = open_cache(name, kept);
  int64_t before = -1, after = -1;
  ASSERT_EQ(intern(cache, "a", &before), DC_OK);
  cache.close();
  cache = open_cache(name, kept);
  ASSERT_EQ(info_of(cache).adopted, 1u);
  EXPECT_EQ(dc_cache_lookup(cache, reinterpret_cast<const uint8_t *>("a"), 1, &after), DC_OK);
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace ddpcache::test
