// The shared words: their bits, and that every value that they can hold comes back.
#include "words.hpp"

#include <gtest/gtest.h>

namespace ddpcache {
namespace {

constexpr uint32_t kGenerations[] = {0, 1, 0x0AAAAAAA, kGenerationMask - 1, kGenerationMask};
constexpr uint32_t kTwelveBits[] = {0, 1, 0xAAA, 0xFFE, 0xFFF};
constexpr uint32_t kTwentyBits[] = {0, 1, 0xAAAAA, 0xFFFFE, 0xFFFFF};

TEST(EntryWord, HoldsItsFieldsWhereTheFormatSaysSo) {
  EXPECT_EQ(EntryWord::empty(5).bits(), 5u << 3);
  EXPECT_EQ(EntryWord::writing(1, {2, 3}).bits(), uint64_t{3} << 44 | uint64_t{2} << 32 | 1 << 3 | 1);
  EXPECT_EQ(EntryWord::ready(1, {2, 3}).bits(), uint64_t{3} << 44 | uint64_t{2} << 32 | 1 << 3 | 2);
  EXPECT_EQ(EntryWord::ready(1, {2, 3}).as_bad().bits() & 3, 3u);
}

TEST(EntryWord, GivesBackEveryFieldAndLeavesTheOthersAlone) {
  for (const uint32_t generation : kGenerations) {
    EXPECT_EQ(EntryWord::empty(generation).generation(), generation);
    for (const uint32_t twelve : kTwelveBits) {
      for (const uint32_t twenty : kTwentyBits) {
        const EntryWord writing = EntryWord::writing(generation, {twelve, twenty});
        EXPECT_EQ(writing.state(), State::writing);
        EXPECT_EQ(writing.generation(), generation);
        EXPECT_EQ(writing.owner(), (ClientLife{twelve, twenty}));
        EXPECT_FALSE(writing.has_waiters());
        EXPECT_TRUE(writing.with_waiters().has_waiters());
        EXPECT_EQ(writing.with_waiters().owner(), writing.owner());
        EXPECT_EQ(writing.with_waiters().generation(), generation);
        EXPECT_EQ(writing.with_waiters().without_waiters(), writing);
        const EntryWord ready = EntryWord::ready(generation, {twelve, twenty});
        EXPECT_EQ(ready.state(), State::ready);
        EXPECT_EQ(ready.place(), (Place{twelve, twenty}));
        EXPECT_EQ(ready.generation(), generation);
        EXPECT_EQ(ready.as_bad().state(), State::bad);
        EXPECT_EQ(ready.as_bad().generation(), generation);
      }
    }
  }
}

TEST(EntryWord, MovesToTheNextGenerationAndAroundAtTheEnd) {
  EXPECT_EQ(EntryWord::writing(7, {1, 1}).with_waiters().next_empty(), EntryWord::empty(8));
  EXPECT_EQ(EntryWord::writing(kGenerationMask, {1, 1}).next_empty(), EntryWord::empty(0));
}

TEST(EntryWord, ChangesItsLowHalfWheneverAWaiterMustLookAgain) {
  const EntryWord waiting = EntryWord::writing(7, {1, 1}).with_waiters();
  EXPECT_NE(waiting.low(), EntryWord::ready(7, {0, 0}).low());
  EXPECT_NE(waiting.low(), waiting.next_empty().low());
  EXPECT_NE(waiting.low(), EntryWord::writing(8, {1, 1}).with_waiters().low());
}

TEST(ExtentWord, GivesBackIndexAndGeneration) {
  for (const int64_t index : {int64_t{0}, int64_t{1}, int64_t{1} << 33, DC_LENGTH_MAX - 1}) {
    for (const uint32_t generation : kGenerations) {
      const ExtentWord word = ExtentWord::owned(index, generation);
      EXPECT_FALSE(word.never_owned());
      EXPECT_EQ(word.index(), index);
      EXPECT_EQ(word.generation(), generation);
    }
  }
  EXPECT_TRUE(ExtentWord().never_owned());
}

TEST(ClientWord, GivesBackLifeAndEpochAndCountsAroundAtTheEnd) {
  for (const Life life : {Life::free, Life::live, Life::dead}) {
    for (const uint32_t epoch : kTwentyBits) {
      EXPECT_EQ(ClientWord(life, epoch).life(), life);
      EXPECT_EQ(ClientWord(life, epoch).epoch(), epoch);
      EXPECT_EQ(ClientWord(life, epoch).next_epoch(), (epoch + 1) & kEpochMask);
    }
  }
}

TEST(Names, AreDistinctForDistinctPlacesAndNeverNothing) {
  EXPECT_NE(name_of({0, 0}), 0u);
  EXPECT_NE(name_of({0, 1}), name_of({1, 0}));
  EXPECT_NE(name_of({0xFFF, 0}), name_of({0, 1}));
  EXPECT_NE(name_of({0xFFF, 0xFFFFF}), name_of({0xFFE, 0xFFFFF}));
}

TEST(Marks, AreRaisedAndNeverLowered) {
  std::atomic<uint32_t> mark{5};
  raise_to(mark, 3u);
  EXPECT_EQ(mark.load(), 5u);
  raise_to(mark, 9u);
  EXPECT_EQ(mark.load(), 9u);
}

}  // namespace
}  // namespace ddpcache
