// The protocol without one of its rules: the search must find what breaks. The table is printed, as Markdown:
//
//     build/dev/tests/model/protocol/model_protocol --gtest_filter='Mutants.*' | grep '^|'
#include <gtest/gtest.h>

#include <iostream>

#include "scenes.hpp"

namespace ddpcache::model {
namespace {

TEST(Mutants, AreAllCaught) {
  std::cout << "| mutant | caught by | what is found | states searched |\n|---|---|---|---|\n";
  for (size_t m = 1; m < static_cast<size_t>(kFirstSpare); ++m) {
    const Mutant mutant = static_cast<Mutant>(m);
    const char *caught_by = nullptr;
    SearchResult result;
    for (const Scene &scene : scenes()) {
      Protocol protocol(scene, mutant);
      result = search(&protocol, 1'000'000);
      if (result.violation.empty()) continue;
      caught_by = scene.what;
      break;
    }
    EXPECT_NE(caught_by, nullptr) << name_of_mutant(mutant);
    std::cout << "| " << name_of_mutant(mutant) << " | " << (caught_by ? caught_by : "NOTHING") << " | "
              << result.violation << " | " << result.states << " |" << std::endl;
  }
}

// Two checks that the code makes are needed only where words of the file may be damaged. Should the protocol come to
// rest on one of them, it is a rule of it, and this test says so.
TEST(Mutants, OfChecksAgainstDamageBreakNothingElse) {
  for (size_t m = static_cast<size_t>(kFirstSpare); m < static_cast<size_t>(Mutant::count); ++m) {
    for (const Scene &scene : scenes()) {
      Protocol protocol(scene, static_cast<Mutant>(m));
      EXPECT_EQ(search(&protocol, 500'000).violation, "")
          << name_of_mutant(static_cast<Mutant>(m)) << ": " << scene.what;
    }
  }
}

}  // namespace
}  // namespace ddpcache::model
