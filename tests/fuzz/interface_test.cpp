// That the target `calls` leaves nothing of the C interface out.
#include "interface.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace ddpcache::fuzz {
namespace {

std::string contents(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(FuzzInterface, CallsEveryExportedFunction) {
  std::istringstream list(contents(DDPCACHE_EXPORT_LIST));
  std::vector<std::string> exported, called;
  for (std::string word; list >> word;) {
    if (word.starts_with("dc_") && word.ends_with(";")) exported.push_back(word.substr(0, word.size() - 1));
  }
  for (const Interface::Call &call : Interface::calls()) called.emplace_back(call.name);
  EXPECT_FALSE(exported.empty());
  EXPECT_EQ(called, exported) << "add what is missing to interface_calls.inc and interface_calls.cpp";
}

TEST(FuzzInterface, ItsCorpusReachesEveryFunction) {
  Interface::counts().clear();
  for (const auto &entry : std::filesystem::directory_iterator(DDPCACHE_FUZZ_CORPUS "/calls")) {
    const std::string bytes = contents(entry.path());
    Input input(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
    Interface(input).run();
  }
  for (const Interface::Call &call : Interface::calls()) EXPECT_GT(Interface::counts()[call.name], 0u) << call.name;
}

}  // namespace
}  // namespace ddpcache::fuzz
