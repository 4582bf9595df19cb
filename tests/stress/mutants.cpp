// The tests against torn reads, tested: each step that the protocol needs is taken away in turn (DC_MUTANT in the
// library), and the hunt, or the test that stops a process at the right place, must see it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "../support/source_names.hpp"

namespace ddpcache::test {
namespace {

struct Mutant {
  const char *name;
  const char *program;  // beside this one's folder
  std::vector<const char *> arguments;
};

// Each by a test that stops a process at the right place, and those that soon show by chance by the hunt too.
const std::vector<const char *> kHunt = {"--seconds", "180"};

const std::vector<Mutant> kMutants = {
    {"reader-does-not-recheck", "process/process_dropping", {"--gtest_filter=Droppable.ReaderThatNamesTooLate*"}},
    {"filler-does-not-scan-names", "process/process_dropping", {"--gtest_filter=Droppable.SampleThatAnotherProcess*"}},
    {"filler-does-not-check", "process/process_torn", {"--gtest_filter=TakenOver.BeforeItNamedItsExtent*"}},
    {"publish-before-payload", "process/process_crash", {"--gtest_filter=Theatre.AFillerKilledWithHalf*"}},
    {"publish-by-store", "process/process_torn", {"--gtest_filter=TakenOver.BeforeItsCommit*"}},
    {"copy-is-not-checked", "process/process_read_only", {"--gtest_filter=*ThatCopiesAnExtentWhichChangesHands*"}},
    {"drop-keeps-generation", "process/process_read_only", {"--gtest_filter=*ThatCopiesAnExtentWhichItsOwnIndex*"}},
    {"view-keeps-no-name", "process/process_dropping", {"--gtest_filter=Droppable.SampleThatAnotherProcess*"}},
    {"reader-does-not-recheck", "stress/torn_reads", kHunt},
    {"filler-does-not-scan-names", "stress/torn_reads", kHunt},
    {"copy-is-not-checked", "stress/torn_reads", kHunt},
    {"view-keeps-no-name", "stress/torn_reads", kHunt},
};

// How a program ends with this mutant.
int run(const Mutant &mutant, const char *name) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string program = (self.parent_path().parent_path() / mutant.program).string();
  std::vector<char *> arguments = {const_cast<char *>(program.c_str())};
  for (const char *argument : mutant.arguments) arguments.push_back(const_cast<char *>(argument));
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    setenv("DDPCACHE_MUTANT", name, 1);
    execv(program.c_str(), arguments.data());
    _exit(127);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class Mutants : public ::testing::TestWithParam<size_t> {};

INSTANTIATE_TEST_SUITE_P(Of, Mutants, ::testing::Range(size_t{0}, kMutants.size()), [](const auto &row) {
  const Mutant &mutant = kMutants[row.param];
  std::string name = mutant.name + std::string("_by_") + std::filesystem::path(mutant.program).filename().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(Mutants, AreCaught) {
  const Mutant &mutant = kMutants[GetParam()];
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  if (mutant.arguments == kHunt) {
    GTEST_SKIP() << "a sanitizer slows the hunt so much that what it catches in minutes is a matter of luck";
  }
#endif
  const auto begin = std::chrono::steady_clock::now();
  const int ended = run(mutant, mutant.name);
  // 1: what it saw; a signal: what it died of. Any other number says that it could not begin.
  EXPECT_TRUE(ended == 1 || ended > 128) << mutant.name << " is not seen by " << mutant.program << ": " << ended;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  std::printf("mutant | caught by | seconds\n%s | %s | %.1f\n", mutant.name, mutant.program, passed.count());
}

// A mutant that the library has and the table has not would pass for caught.
TEST(MutantTable, HasEveryMutantOfTheLibrary) {
  std::set<std::string> listed;
  for (const Mutant &mutant : kMutants) listed.insert(mutant.name);
  EXPECT_EQ(listed, names_behind("DC_MUTANT(\"", DDPCACHE_SOURCES));
}

}  // namespace
}  // namespace ddpcache::test
