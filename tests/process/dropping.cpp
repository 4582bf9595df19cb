// Removal against processes that look, remove, fork and die: nobody ever sees other bytes, and no space is lost for
// good.
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "theatre.hpp"

namespace ddpcache::test {
namespace {

class Droppable : public ::testing::Test {
 protected:
  Droppable() { EXPECT_EQ(reader_.ask(attach()), "0"); }
  static dc_cache_options options() {
    dc_cache_options options = options_for(1000, 2 << 20, kBytes);
    options.droppable = 1;
    return options;
  }
  std::string attach() const { return std::string("attach ") + name_.c_str(); }

  // Fills until nothing is to be had, trying a little longer than the first refusal; how many were stored.
  int64_t fill_up() {
    int64_t stored = 0;
    for (int refused = 0; refused < 5; ++next_) put(cache_, next_, kBytes) == DC_OK ? ++stored : ++refused;
    return stored;
  }
  void expect_sound() {
    for (int64_t i = 0; i < 1000; ++i) {
      EXPECT_TRUE(dc_cache_contains(cache_, i) == DC_MISS || holds(cache_, i, kBytes));
    }
    report_of(cache_);
  }

  const CacheName name_;
  const Handle cache_ = open_cache(name_, options());
  Actor reader_;
  int64_t next_ = 100;
};

TEST_F(Droppable, SampleThatAnotherProcessLooksAtIsNotOverwritten) {
  ASSERT_EQ(put(cache_, 1, kBytes), DC_OK);
  ASSERT_EQ(reader_.ask("view 1"), "0");
  fill_up();
  ASSERT_EQ(dc_cache_remove(cache_, 1), DC_OK);
  EXPECT_EQ(reader_.ask("get 1 20000"), "0");
  EXPECT_EQ(fill_up(), 0);
  EXPECT_EQ(reader_.ask("view-right 20000"), "1");
  EXPECT_EQ(report_of(cache_).extents_named, 1u);
  EXPECT_EQ(reader_.ask("release"), "0");
  EXPECT_EQ(fill_up(), 1);
  expect_sound();
}

TEST_F(Droppable, SampleOfAReaderThatWasKilledIsUsedAgain) {
  ASSERT_EQ(put(cache_, 1, kBytes), DC_OK);
  ASSERT_EQ(reader_.ask("view 1"), "0");
  fill_up();
  ASSERT_EQ(dc_cache_remove(cache_, 1), DC_OK);
  EXPECT_EQ(fill_up(), 0);
  reader_.kill_and_reap();
  EXPECT_EQ(report_of(cache_).extents_named, 0u) << "a name of the dead is none";
  EXPECT_EQ(fill_up(), 1);
  expect_sound();
}

TEST_F(Droppable, SampleOfAStoppedReaderIsKept) {
  ASSERT_EQ(put(cache_, 1, kBytes), DC_OK);
  ASSERT_EQ(reader_.ask("view 1"), "0");
  reader_.signal(SIGSTOP);
  reader_.await_stop();
  fill_up();
  ASSERT_EQ(dc_cache_remove(cache_, 1), DC_OK);
  EXPECT_EQ(fill_up(), 0);
  reader_.signal(SIGCONT);
  EXPECT_EQ(reader_.ask("view-right 20000"), "1");
}

TEST_F(Droppable, SampleOfAClosedHandlesViewIsKept) {
  ASSERT_EQ(put(cache_, 1, kBytes), DC_OK);
  ASSERT_EQ(reader_.ask("view 1"), "0");
  ASSERT_EQ(reader_.ask("close"), "0");
  fill_up();
  ASSERT_EQ(dc_cache_remove(cache_, 1), DC_OK);
  EXPECT_EQ(fill_up(), 0);
  EXPECT_EQ(reader_.ask("view-right 20000"), "1");
  EXPECT_EQ(reader_.ask("release"), "0");
  EXPECT_EQ(fill_up(), 1);
  expect_sound();
}

TEST_F(Droppable, SampleOfAReaderWithoutItsLockIsKeptWhileItLives) {
  ASSERT_EQ(put(cache_, 1, kBytes), DC_OK);
  ASSERT_EQ(reader_.ask("view 1"), "0");
  ASSERT_EQ(reader_.ask("close-descriptors"), "0");
  fill_up();
  ASSERT_EQ(dc_cache_remove(cache_, 1), DC_OK);
  EXPECT_EQ(fill_up(), 0);
  EXPECT_EQ(reader_.ask("view-right 20000"), "1");
  EXPECT_EQ(reader_.ask("view 100"), "0") << "it goes on reading, and naming";
  reader_.kill_and_reap();
  EXPECT_EQ(fill_up(), 1);
  expect_sound();
}

// A view that was taken before a fork is its parent's, whatever the child does.
TEST_F(Droppable, ChildsReleaseLeavesTheParentsViewAlone) {
  ASSERT_EQ(put(cache_, 1, kBytes), DC_OK);
  ASSERT_EQ(reader_.ask("view 1"), "0");
  fill_up();
  EXPECT_EQ(reader_.ask("in-child release"), "0");
  EXPECT_EQ(reader_.ask("in-child close"), "0");
  EXPECT_EQ(reader_.ask("in-child view-right 20000"), "1");
  ASSERT_EQ(dc_cache_remove(cache_, 1), DC_OK);
  EXPECT_EQ(fill_up(), 0);
  EXPECT_EQ(reader_.ask("view-right 20000"), "1");
  EXPECT_EQ(reader_.ask("release"), "0");
  EXPECT_EQ(fill_up(), 1);
}

TEST_F(Droppable, ChildsOwnViewCountsAsTheChilds) {
  ASSERT_EQ(put(cache_, 1, kBytes), DC_OK);
  ASSERT_NE(reader_.ask("fork"), "");
  ASSERT_EQ(reader_.ask("view 1"), "0");
  fill_up();
  ASSERT_EQ(dc_cache_remove(cache_, 1), DC_OK);
  reader_.kill_and_reap();  // the parent, which has named nothing
  EXPECT_EQ(fill_up(), 0);
  EXPECT_EQ(reader_.ask("view-right 20000"), "1");
  EXPECT_EQ(reader_.ask("release"), "0");
  EXPECT_EQ(fill_up(), 1);
}

TEST_F(Droppable, ProcessWithMoreViewsThanNamesHoldsEverythingRemovedUntilItHasFewer) {
  ASSERT_EQ(put(cache_, 1, kBytes), DC_OK);
  ASSERT_EQ(put(cache_, 2, kBytes), DC_OK);
  ASSERT_EQ(reader_.ask("views 1 1500"), "1500");
  fill_up();
  ASSERT_EQ(dc_cache_remove(cache_, 2), DC_OK);
  EXPECT_EQ(fill_up(), 0) << "one of the views that have no name may be of it";
  EXPECT_EQ(reader_.ask("release"), "0");
  EXPECT_EQ(fill_up(), 1);
  ASSERT_EQ(reader_.ask("views 1 1500"), "1500");
  ASSERT_EQ(dc_cache_remove(cache_, 1), DC_OK);
  EXPECT_EQ(fill_up(), 0);
  reader_.kill_and_reap();
  EXPECT_EQ(fill_up(), 1);
  expect_sound();
}

// It is stopped between its look at the entry and its naming of the extent, which then goes to another sample.
TEST_F(Droppable, ReaderThatNamesTooLateSeesAMissAndNoOtherSample) {
  Actor late({"reader-looked:stop"});
  ASSERT_EQ(late.ask(attach()), "0");
  ASSERT_EQ(put(cache_, 1, kBytes), DC_OK);
  fill_up();
  late.tell("view 1");
  late.await_stop();
  ASSERT_EQ(dc_cache_remove(cache_, 1), DC_OK);
  EXPECT_EQ(fill_up(), 1);
  late.signal(SIGCONT);
  EXPECT_EQ(late.hear(), std::to_string(DC_MISS));
  expect_sound();
}

// In a full cache, where searches have failed already: what the dead one removed is found.
TEST_F(Droppable, RemoverKilledInTheMiddleLeavesTheRestAndLosesNoSpace) {
  const int64_t stored = fill_up();
  ASSERT_GT(stored, 20);
  for (const int64_t removed : {int64_t{1}, int64_t{5}, stored - 1}) {
    Actor remover({"dropped:kill:" + std::to_string(removed)});
    ASSERT_EQ(remover.ask(attach()), "0");
    std::vector<int64_t> before;
    for (int64_t i = 0; i < 1000; ++i) {
      if (dc_cache_contains(cache_, i) == DC_OK) before.push_back(i);
    }
    ASSERT_EQ(static_cast<int64_t>(before.size()), stored);
    EXPECT_EQ(remover.ask("clear"), "");
    EXPECT_EQ(remover.reap(), SIGKILL);
    for (size_t i = 0; i < before.size(); ++i) {
      const bool gone = static_cast<int64_t>(i) < removed;  // it goes by the index
      EXPECT_TRUE(gone ? dc_cache_contains(cache_, before[i]) == DC_MISS : holds(cache_, before[i], kBytes)) << i;
    }
    EXPECT_EQ(fill_up(), removed);
    expect_sound();
  }
}

TEST_F(Droppable, RemoverKilledAtItsOnlyRemovalLosesNoSpace) {
  Actor remover({"dropped:kill"});
  ASSERT_EQ(remover.ask(attach()), "0");
  ASSERT_EQ(put(cache_, 1, kBytes), DC_OK);
  fill_up();
  EXPECT_EQ(remover.ask("remove 1"), "");
  remover.reap();
  EXPECT_EQ(fill_up(), 1);
}

// As above, by a fill that is given up: its extent is named by nobody and belongs to no entry, and searches have
// failed.
TEST_F(Droppable, FillerKilledInItsAbortLosesNoSpace) {
  Actor filler({"released:kill"});
  ASSERT_EQ(filler.ask(attach()), "0");
  ASSERT_EQ(filler.ask("begin 1 0"), "0");
  ASSERT_EQ(filler.ask("allocate 20000"), "0");
  fill_up();
  EXPECT_EQ(filler.ask("abort"), "");
  EXPECT_EQ(filler.reap(), SIGKILL);
  EXPECT_EQ(fill_up(), 1);
  expect_sound();
}

// A filler that looks for memory meets the name of a dead reader, and may die or be stopped in saying that it is dead.
class SearcherPoint : public Droppable, public ::testing::WithParamInterface<const char *> {
 protected:
  void leave_a_dead_reader() {
    ASSERT_EQ(put(cache_, 1, kBytes), DC_OK);
    ASSERT_EQ(reader_.ask("view 1"), "0");
    fill_up();
    ASSERT_EQ(dc_cache_remove(cache_, 1), DC_OK);
    reader_.kill_and_reap();
  }
};

INSTANTIATE_TEST_SUITE_P(Search, SearcherPoint, ::testing::Values("probed-free", "declared-dead"), point_name);

TEST_P(SearcherPoint, WhereTheSearcherIsKilledAThirdGoesOn) {
  Actor searcher({std::string(GetParam()) + ":kill"});
  ASSERT_EQ(searcher.ask(attach()), "0");
  ASSERT_NO_FATAL_FAILURE(leave_a_dead_reader());
  EXPECT_EQ(searcher.ask("put 900 20000"), "");
  EXPECT_EQ(searcher.reap(), SIGKILL);
  EXPECT_EQ(put(cache_, 900, kBytes, 60 * kSecond), DC_OK);
  EXPECT_EQ(fill_up(), 0);
  EXPECT_EQ(report_of(cache_).extents_free, 0u);
  expect_sound();
}

TEST_P(SearcherPoint, WhereTheSearcherIsStoppedAThirdGoesOn) {
  Actor searcher({std::string(GetParam()) + ":stop"});
  ASSERT_EQ(searcher.ask(attach()), "0");
  ASSERT_NO_FATAL_FAILURE(leave_a_dead_reader());
  searcher.tell("put 900 20000");
  searcher.await_stop();
  EXPECT_EQ(fill_up(), 1);
  EXPECT_EQ(put(cache_, 900, kBytes), DC_BUSY) << "it is stopped, not dead";
  searcher.signal(SIGCONT);
  EXPECT_EQ(searcher.hear(), std::to_string(DC_FULL));
  EXPECT_EQ(report_of(cache_).extents_free, 0u);
  expect_sound();
}

TEST_F(Droppable, LoadOfAChildWithoutARecordEnds) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the undefined-behaviour sanitizer itself needs a descriptor to look at an object's type";
#endif
  ASSERT_EQ(put(cache_, 1, kBytes), DC_OK);
  ASSERT_EQ(reader_.ask("no-descriptors"), "0");
  const std::string answer = reader_.ask("in-child load 1 20000 100");
  EXPECT_TRUE(answer == "exit 0" || answer == "exit " + std::to_string(DC_FULL) ||
              answer == "exit " + std::to_string(-DC_ERROR_UNREGISTERED))
      << answer;
}

}  // namespace
}  // namespace ddpcache::test
