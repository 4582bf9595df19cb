// After a kill at any point of the library, every extent that no entry holds and nobody names can be filled: exactly as
// many samples fit as in a fresh cache, and the check finds nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "../support/caches.hpp"
#include "../support/source_names.hpp"
#include "actors.hpp"
#include "ddpcache/saving.h"

namespace ddpcache::test {
namespace {

constexpr uint64_t kBytes = 20'000;

// What the victim is doing when it dies.
enum class Plot { attach, fill, abort, remove, view, copy, take_over, wait, intern, create, save, elsewhere };

struct Point {
  const char *name;
  Plot plot;
  const char *where = nullptr;  // the test that kills there, where a cache of another kind or file is needed
};

const std::vector<Point> kPoints = {
    {"record-locked", Plot::attach},
    {"registering", Plot::attach},
    {"noted", Plot::fill},
    {"claimed", Plot::fill},
    {"cursor-moved", Plot::fill},
    {"step-reserved", Plot::fill},
    {"step-taken", Plot::fill},
    {"extent-taken", Plot::fill},
    {"extent-named", Plot::fill},
    {"allocated", Plot::fill},
    {"before-publish", Plot::fill},
    {"published", Plot::fill},
    {"released", Plot::abort},
    {"dropped", Plot::remove},
    {"reader-looked", Plot::view},
    {"head-copied", Plot::copy},
    {"probed-free", Plot::take_over},
    {"declared-dead", Plot::take_over},
    {"taken-over", Plot::take_over},
    {"waiting", Plot::wait},
    {"key-slot-free", Plot::intern},
    {"key-tagged", Plot::intern},
    {"key-rest-free", Plot::intern},
    {"key-set", Plot::intern},
    {"unnamed", Plot::create},
    {"space-reserved", Plot::create},
    {"header-written", Plot::create},
    {"before-link", Plot::create},
    {"linked", Plot::create},
    {"save-begun", Plot::save},
    {"save-record", Plot::save},
    {"save-written", Plot::save},
    {"save-synced", Plot::save},
    {"save-linked", Plot::save},
    {"save-renamed", Plot::save},
    // Where a file system has no unnamed files, of which the tests have none.
    {"save-named", Plot::elsewhere},
    {"restore-begun", Plot::elsewhere, "saving.cpp"},
    {"restore-record", Plot::elsewhere, "saving.cpp"},
    {"restore-verified", Plot::elsewhere, "saving.cpp"},
    {"verifying", Plot::elsewhere, "trust.cpp"},
    {"recovering", Plot::elsewhere, "trust.cpp"},
    {"entries-recovered", Plot::elsewhere, "trust.cpp"},
    {"recovered", Plot::elsewhere, "trust.cpp"},
    {"reopened", Plot::elsewhere, "trust.cpp"},
    {"closing", Plot::elsewhere, "trust.cpp"},
    {"synced", Plot::elsewhere, "trust.cpp"},
    {"closed", Plot::elsewhere, "trust.cpp"},
};

std::vector<Point> points_here() {
  std::vector<Point> here;
  for (const Point &point : kPoints) {
    if (point.plot != Plot::elsewhere) here.push_back(point);
  }
  return here;
}

dc_cache_options options(Plot plot) {
  dc_cache_options options = options_for(1000, 2 << 20, kBytes);
  options.droppable = plot != Plot::fill;  // else a filler searches before it takes what is fresh
  options.keyed = plot == Plot::intern;
  return options;
}

// Until nothing is to be had, trying a little longer than the first refusal.
void fill_up(dc_cache *cache) {
  static int64_t next = 100;
  for (int refused = 0; refused < 5; next = next == 999 ? 100 : next + 1) {
    const int32_t status = put(cache, next, kBytes, 60 * kSecond);
    if (status == DC_PRESENT) continue;
    ASSERT_TRUE(status == DC_OK || status == DC_FULL) << dc_strerror(status);
    refused = status == DC_OK ? 0 : refused + 1;
  }
}

uint64_t room_of_a_fresh_cache(Plot plot) {
  const CacheName name;
  const Handle cache = open_cache(name, options(plot));
  fill_up(cache);
  return report_of(cache).entries_ready;
}

class Kill : public ::testing::TestWithParam<Point> {
 protected:
  std::string attach() const { return std::string("attach ") + name_.c_str(); }
  void open() { cache_ = open_cache(name_, options(GetParam().plot)); }

  // Lets the victim do what leads it to its point; the last command is the one that it dies of.
  void play(Actor &victim);
  void play_abort(Actor &victim);
  void play_take_over(Actor &victim);
  void play_wait(Actor &victim);
  void play_save(Actor &victim);

  const CacheName name_;
  Handle cache_;
};

void Kill::play(Actor &victim) {
  const Plot plot = GetParam().plot;
  if (plot == Plot::create) {
    EXPECT_EQ(victim.ask(std::string("open ") + name_.c_str() + " 1000 2097152 20000 64 0 1"), "");
    return;
  }
  open();
  if (plot != Plot::fill) {
    ASSERT_EQ(put(cache_, 1, kBytes), DC_OK);
  }
  if (plot == Plot::take_over) return play_take_over(victim);
  if (plot == Plot::attach) {
    EXPECT_EQ(victim.ask(attach()), "");
    return;
  }
  ASSERT_EQ(victim.ask((plot == Plot::copy ? "attach-read-only " : "attach ") + std::string(name_.c_str())), "0");
  switch (plot) {
    case Plot::fill: EXPECT_EQ(victim.ask("put 7 20000"), ""); break;
    case Plot::abort: play_abort(victim); break;
    case Plot::wait: play_wait(victim); break;
    case Plot::save: play_save(victim); break;
    case Plot::intern: EXPECT_EQ(victim.ask("intern it"), ""); break;
    default:
      // In a full cache, where searches have failed already.
      fill_up(cache_);
      EXPECT_EQ(victim.ask(plot == Plot::remove ? "remove 1" : "view 1"), "");
  }
}

void Kill::play_abort(Actor &victim) {
  ASSERT_EQ(victim.ask("begin 7 0"), "0");
  ASSERT_EQ(victim.ask("allocate 20000"), "0");
  fill_up(cache_);
  EXPECT_EQ(victim.ask("abort"), "");
}

void Kill::play_take_over(Actor &victim) {
  Actor first;
  ASSERT_EQ(first.ask(attach()), "0");
  const bool at_attach = std::string(GetParam().name) != "taken-over";
  if (!at_attach) {
    ASSERT_EQ(victim.ask(attach()), "0");
  }
  ASSERT_EQ(first.ask("begin 7 0"), "0");
  ASSERT_EQ(first.ask("allocate 20000"), "0");
  first.kill_and_reap();
  EXPECT_EQ(victim.ask(at_attach ? attach() : "put 7 20000"), "");
}

void Kill::play_wait(Actor &victim) {
  dc_fill *fill = nullptr;
  ASSERT_EQ(dc_cache_fill_begin(cache_, 7, 0, &fill), DC_OK);
  EXPECT_EQ(victim.ask("load 7 20000 60000"), "");
  EXPECT_EQ(dc_cache_fill_abort(fill), DC_OK);
}

void Kill::play_save(Actor &victim) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("ddpcache-" + std::string(name_.c_str()));
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "saved").string();
  dc_error error = {};
  if (std::string(GetParam().name) == "save-linked") {
    EXPECT_EQ(dc_cache_save(cache_, path.c_str(), nullptr, nullptr, nullptr, &error), DC_OK) << error.message;
  }
  EXPECT_EQ(victim.ask("save " + path), "");
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(At, Kill, ::testing::ValuesIn(points_here()), [](const auto &point) {
  std::string name = point.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(Kill, LeavesAsMuchRoomAsAFreshCacheHas) {
  Actor victim({.fault = std::string(GetParam().name) + ":kill"});
  play(victim);
  if (HasFatalFailure()) return;
  ASSERT_EQ(victim.reap(), SIGKILL) << "it comes by this point";
  if (!cache_) open();
  dc_error error = {};
  EXPECT_EQ(dc_cache_check(cache_, nullptr, &error), DC_OK) << "before anything is put right: " << error.message;
  // A claim of the dead is taken over by whoever asks for it, and with it its extent.
  ASSERT_GE(put(cache_, 7, kBytes, 60 * kSecond), DC_OK);
  fill_up(cache_);
  const dc_cache_report full = report_of(cache_);
  EXPECT_EQ(full.entries_ready, room_of_a_fresh_cache(GetParam().plot));
  EXPECT_EQ(full.extents_free + full.extents_named + full.entries_writing + full.entries_orphaned, 0u);
}

// A point that nobody kills at would be one that nobody knows of.
TEST(KillPoints, AreAllOnTheList) {
  std::set<std::string> listed;
  const std::filesystem::path root = DDPCACHE_ROOT;
  for (const Point &point : kPoints) {
    listed.insert(point.name);
    if (!point.where) continue;
    const std::string text = text_of_file(root / "tests/process" / point.where);
    EXPECT_NE(text.find('"' + std::string(point.name)), std::string::npos) << point.name << " in " << point.where;
  }
  std::set<std::string> there = names_behind("DC_FAULT_POINT(\"", root / "src");
  there.merge(names_behind("leave(EntryWord", root / "src"));  // which names its point where it is called
  EXPECT_EQ(listed, there);
}

}  // namespace
}  // namespace ddpcache::test
