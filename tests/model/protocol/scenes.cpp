#include "scenes.hpp"

#include <utility>

namespace ddpcache::model {
namespace {

using enum Op;

std::vector<Scene> with_faults(int faults, std::vector<Scene> some) {
  for (Scene &scene : some) scene.faults = faults;
  return some;
}

// Two faults: every pair of kills, of lost locks, or of one and the other, at every two steps.
std::vector<Scene> small_scenes() {
  return with_faults(
      2, {
             {.what = "two fillers of one entry", .scripts = {{{fill, 0}}, {{fill, 0}}}},
             {.what = "a filler, and one whose loader fails", .scripts = {{{fail, 0}}, {{fill, 0}}}},
             {.what = "two fillers and a reader", .scripts = {{{fill, 0}}, {{fill, 0}}, {{read, 0}}}},
             {.what = "two entries and one extent", .scripts = {{{fill, 0}}, {{fill, 1}}}, .entries = 2, .slots = 1},
             {.what = "two fillers, and steps to be carved",
              .scripts = {{{fill, 0}}, {{fill, 1}}},
              .entries = 2,
              .steps = 2,
              .slots = 1,
              .carved = 0},
             {.what = "removed and filled elsewhere, while two read",
              .scripts = {{{remove, 0}}, {{fill, 1}}, {{read, 0}}, {{read, 1}}},
              .entries = 2,
              .slots = 1,
              .stored = {{0, 0}}},
             {.what = "removed and filled elsewhere, under a held view",
              .scripts = {{{remove, 0}, {fill, 1}}, {{hold, 0}}, {{fill, 1}}},
              .entries = 2,
              .slots = 1,
              .stored = {{0, 0}}},
             {.what = "removed and filled elsewhere, under a view that is only counted",
              .scripts = {{{remove, 0}}, {{fill, 1}}, {{hold, 0}}},
              .entries = 2,
              .slots = 1,
              .names = false,
              .stored = {{0, 0}}},
             {.what = "removed and filled elsewhere, while one copies",
              .scripts = {{{remove, 0}}, {{fill, 1}}, {{copy, 0}}},
              .entries = 2,
              .slots = 1,
              .stored = {{0, 0}}},
             {.what = "removed and filled again, while one reads",
              .scripts = {{{remove, 0}}, {{fill, 0}}, {{read, 0}}},
              .stored = {{0, 0}}},
             {.what = "removed by two and filled again",
              .scripts = {{{remove, 0}, {fill, 0}}, {{remove, 0}}, {{read, 0}}},
              .stored = {{0, 0}}},
             {.what = "one client holds, removes and fills",
              .scripts = {{{hold, 0}, {remove, 0}, {fill, 1}}, {{fill, 1}}},
              .entries = 2,
              .slots = 1,
              .stored = {{0, 0}}},
             {.what = "a new client, and one that holds a view",
              .scripts = {{{hold, 0}}, {{remove, 0}, {fill, 1}}, {{attach}, {fill, 1}}},
              .entries = 2,
              .slots = 1,
              .records = 2,
              .stored = {{0, 0}}},
             {.what = "three new clients for two records",
              .scripts = {{{attach}, {hold, 0}}, {{attach}, {hold, 0}}, {{attach}, {remove, 0}, {fill, 1}}},
              .entries = 2,
              .slots = 1,
              .records = 2,
              .stored = {{0, 0}}},
             {.what = "unsound, read twice and removed",
              .scripts = {{{read, 0}}, {{read, 0}}, {{remove, 0}, {fill, 0}}},
              .stored = {{0, 0, Content::unsound}}},
             {.what = "unverified and right, read twice and removed",
              .scripts = {{{read, 0}}, {{read, 0}}, {{remove, 0}, {fill, 0}}},
              .stored = {{0, 0, Content::unverified}}},
             {.what = "torn, where nothing is removed",
              .scripts = {{{read, 0}}, {{read, 0}, {fill, 0}}, {{read, 0}, {fill, 1}}},
              .entries = 2,
              .slots = 1,
              .droppable = false,
              .stored = {{0, 0, Content::torn}}},
         });
}

std::vector<Scene> large_scenes() {
  return with_faults(2, {
                            {.what = "two fillers, one whose loader fails, and a reader",
                             .scripts = {{{fail, 0}}, {{fill, 0}}, {{read, 0}}}},
                            {.what = "a new client while two fill",
                             .scripts = {{{fill, 0}}, {{fill, 0}}, {{attach}, {fill, 0}}},
                             .records = 2},
                            {.what = "two new clients and a filler",
                             .scripts = {{{fill, 0}}, {{attach}, {fill, 0}}, {{attach}, {read, 0}}},
                             .records = 2},
                            {.what = "a filler leaves, and another comes",
                             .scripts = {{{fill, 0}, {leave}}, {{attach}, {fill, 0}}},
                             .records = 1},
                            {.what = "clients whose death nobody can prove",
                             .scripts = {{{fill, 0}}, {{fill, 0}}, {{attach}, {read, 0}}},
                             .records = 3,
                             .provable = false},
                            {.what = "torn, read twice and removed",
                             .scripts = {{{read, 0}}, {{read, 0}, {fill, 0}}, {{remove, 0}, {fill, 0}}},
                             .stored = {{0, 0, Content::torn}}},
                        });
}

Scene three_fillers(int faults) {
  return {.what = "three fillers of one entry", .scripts = {{{fill, 0}}, {{fill, 0}}, {{fill, 0}}}, .faults = faults};
}

}  // namespace

const std::vector<Scene> &scenes() {
  static const std::vector<Scene> all = [] {
    std::vector<Scene> some = small_scenes();
    for (Scene &scene : large_scenes()) some.push_back(std::move(scene));
    some.push_back(three_fillers(1));
    return some;
  }();
  return all;
}

const std::vector<Scene> &long_scenes() {
  static const std::vector<Scene> all = [] {
    std::vector<Scene> some = with_faults(3, small_scenes());
    some.push_back(three_fillers(2));
    some.push_back({.what = "a new client while two fill, three leave",
                    .scripts = {{{fill, 0}, {leave}}, {{attach}, {fill, 0}}, {{fill, 0}}},
                    .records = 3,
                    .faults = 1});
    some.push_back({.what = "removed twice and filled elsewhere, under two views",
                    .scripts = {{{remove, 0}, {fill, 1}}, {{hold, 0}}, {{fill, 1}, {remove, 1}}, {{read, 1}}},
                    .entries = 2,
                    .slots = 1,
                    .faults = 1,
                    .stored = {{0, 0}}});
    return some;
  }();
  return all;
}

}  // namespace ddpcache::model
