// Every run of every scene keeps every promise.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "../../support/soak.hpp"
#include "scenes.hpp"

namespace ddpcache::model {
namespace {

std::string name_of_scene(const ::testing::TestParamInfo<Scene> &scene) {
  std::string name = scene.param.what;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name + "_with_faults_" + std::to_string(scene.param.faults);
}

std::string story_of(const SearchResult &result) {
  std::string story = result.violation + ":";
  for (const std::string &step : result.trace) story += "\n  client " + step;
  return story;
}

void expect_every_run_to_hold(const Scene &scene) {
  Protocol protocol(scene);
  const auto begin = std::chrono::steady_clock::now();
  const SearchResult result = search(&protocol);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(result.violation, "") << story_of(result);
  EXPECT_TRUE(result.complete);
  EXPECT_GT(result.ends, 0u);
  std::cout << "| " << scene.what << " | " << scene.scripts.size() << " | " << scene.faults << " | " << result.states
            << " | " << result.ends << " | " << seconds.count() << " s |" << std::endl;
}

class EveryRun : public ::testing::TestWithParam<Scene> {};

INSTANTIATE_TEST_SUITE_P(Of, EveryRun, ::testing::ValuesIn(scenes()), name_of_scene);

TEST_P(EveryRun, KeepsEveryPromiseAndEnds) { expect_every_run_to_hold(GetParam()); }

class EveryRunOfMany : public ::testing::TestWithParam<Scene> {};

INSTANTIATE_TEST_SUITE_P(Of, EveryRunOfMany, ::testing::ValuesIn(long_scenes()), name_of_scene);

TEST_P(EveryRunOfMany, KeepsEveryPromiseAndEnds) {
  if (!test::soaking()) GTEST_SKIP() << "tests/run soak searches it";
  expect_every_run_to_hold(GetParam());
}

// A row that no client of the model takes would be one that the search says nothing of.
TEST(TableOfMoves, IsTakenRowByRowByTheModel) {
  std::bitset<static_cast<size_t>(Move::count)> taken;
  for (const Scene &scene : scenes()) {
    Protocol protocol(scene);
    search(&protocol, 100'000);
    taken |= protocol.moves();
  }
  for (const MoveRow &row : kMoves) {
    EXPECT_TRUE(row.alone || taken.test(static_cast<size_t>(row.move))) << row.name;
  }
}

}  // namespace
}  // namespace ddpcache::model
