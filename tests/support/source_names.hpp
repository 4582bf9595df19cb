// Names in the library's sources, so that a test's list of them is known to be whole.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

namespace ddpcache::test {

inline std::string text_of_file(const std::filesystem::path &path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// The first text in quotes behind each `opening`, before the statement's end.
inline std::set<std::string> names_behind(const std::string &opening, const std::filesystem::path &folder) {
  std::set<std::string> names;
  for (const auto &file : std::filesystem::recursive_directory_iterator(folder)) {
    if (!file.is_regular_file()) continue;
    const std::string text = text_of_file(file.path());
    for (size_t at = text.find(opening); at != std::string::npos; at = text.find(opening, at + 1)) {
      const size_t quote = text.find('"', at), statement_end = text.find(';', at);
      if (quote < statement_end) names.insert(text.substr(quote + 1, text.find('"', quote + 1) - quote - 1));
    }
  }
  return names;
}

}  // namespace ddpcache::test
