// The player in C++: see ../README.md.
#include <ddpcache/ddpcache.hpp>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr std::uint8_t kBool = 6;

[[noreturn]] void fail(const std::string &reason) { throw std::runtime_error(reason); }

std::ifstream opened(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail("cannot open " + path);
  return file;
}

// What a record shall be.
struct Record {
  std::string structure;
  std::vector<dc_array> arrays;
};

std::string unhexed(const std::string &digits) {
  std::string text;
  if (digits == "-") return text;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    text += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return text;
}

dc_array array_of(std::istringstream &words) {
  dc_array array = {};
  std::string name;
  unsigned code = 0, bits = 0, lanes = 0;
  if (!(words >> name >> code >> bits >> lanes) || name.size() >= sizeof array.name) fail("not an array of a record");
  if (name != "-") name.copy(array.name, name.size());
  array.dtype_code = static_cast<std::uint8_t>(code);
  array.dtype_bits = static_cast<std::uint8_t>(bits);
  array.dtype_lanes = static_cast<std::uint16_t>(lanes);
  array.bytes = std::uint64_t{bits} * lanes / 8;
  for (std::int64_t extent; words >> extent; array.bytes *= static_cast<std::uint64_t>(extent)) {
    array.shape[array.dimensions++] = extent;
  }
  return array;
}

std::vector<Record> records_of(const std::string &path) {
  std::vector<Record> records;
  std::ifstream file = opened(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind, structure;
    words >> kind;
    if (kind == "record" && words >> structure) {
      records.push_back({unhexed(structure), {}});
    } else if (kind == "array" && !records.empty()) {
      records.back().arrays.push_back(array_of(words));
    } else {
      fail("unexpected: " + line);
    }
  }
  return records;
}

std::uint8_t byte_of(const dc_array &array, std::int64_t index, std::uint32_t number, std::uint64_t k) {
  const auto byte = static_cast<std::uint8_t>((static_cast<std::uint64_t>(index) * 31 + number * 7 + k) % 251);
  return array.dtype_code == kBool ? byte % 2 : byte;
}

// A loader, and what fills a Fill.
void write(ddpcache::Filling &filling, const Record &record) {
  std::vector<dc_array> arrays = record.arrays;
  filling.allocate(arrays.data(), arrays.size(), record.structure);
  for (std::uint32_t a = 0; a < arrays.size(); ++a) {
    for (std::uint64_t k = 0; k < arrays[a].bytes; ++k) arrays[a].data[k] = byte_of(arrays[a], filling.index(), a, k);
  }
}

void compare(const dc_array &wanted, const ddpcache::Array &found, std::int64_t index, std::uint32_t number) {
  const std::string what = "array " + std::to_string(number) + " of sample " + std::to_string(index);
  const dc_array &raw = found.raw();
  if (raw.dtype_code != wanted.dtype_code || raw.dtype_bits != wanted.dtype_bits ||
      raw.dtype_lanes != wanted.dtype_lanes) {
    fail(what + " is of type " + std::to_string(raw.dtype_code) + ", " + std::to_string(raw.dtype_bits) + " bits, " +
         std::to_string(raw.dtype_lanes) + " lanes");
  }
  if (found.name() != wanted.name) fail(what + " has the name " + found.name());
  if (found.shape() != std::vector<std::int64_t>(wanted.shape, wanted.shape + wanted.dimensions)) {
    fail(what + " has another shape");
  }
  if (found.bytes() != wanted.bytes) fail(what + " has " + std::to_string(found.bytes()) + " bytes");
  for (std::size_t k = 0; k < found.bytes(); ++k) {
    if (found.data()[k] != byte_of(wanted, index, number, k)) fail(what + " differs at byte " + std::to_string(k));
  }
}

void compare(const Record &wanted, const ddpcache::View &found, std::int64_t index) {
  if (found.index() != index || found.array_count() != wanted.arrays.size()) {
    fail("sample " + std::to_string(index) + " is number " + std::to_string(found.index()) + " with " +
         std::to_string(found.array_count()) + " arrays");
  }
  if (found.structure() != wanted.structure) fail("sample " + std::to_string(index) + ": " + found.structure());
  for (std::uint32_t a = 0; a < found.array_count(); ++a) compare(wanted.arrays[a], found.array(a), index, a);
}

struct Case {
  ddpcache::Sampler sampler;
  std::int64_t epoch;
  std::vector<std::int64_t> indices;
};

Case case_of(const std::string &line) {
  std::istringstream words(line);
  ddpcache::SamplerOptions options(0);
  std::int64_t epoch = 0, count = 0;
  words >> options.order >> options.tail >> options.shuffle >> options.length >> options.seed >> epoch >>
      options.nodes >> options.local_size >> options.node >> options.local_rank >> count;
  if (!words) fail("not a case: " + line);
  Case one{ddpcache::Sampler(options), epoch, {}};
  one.indices.assign(std::istream_iterator<std::int64_t>(words), {});
  if (one.indices.size() != static_cast<std::size_t>(count)) fail("a case with another number of indices: " + line);
  one.sampler.set_epoch(epoch);
  return one;
}

Case case_in(const std::string &path) {
  std::ifstream file = opened(path);
  std::string line;
  std::getline(file, line);
  return case_of(line);
}

// What the sampler deals from here to the end of its epoch must be the end of the case's indices.
void compare(Case &one) {
  const std::int64_t size = one.sampler.size();
  if (size > static_cast<std::int64_t>(one.indices.size())) fail(std::to_string(size) + " samples are left");
  const std::vector<std::int64_t> wanted(one.indices.end() - size, one.indices.end());
  if (one.sampler.read(0, size) != wanted) fail("the sampler reads other indices");
  std::vector<std::int64_t> dealt;
  while (const std::optional<std::int64_t> index = one.sampler.next()) dealt.push_back(*index);
  if (dealt != wanted) fail("the sampler deals other indices");
}

void sampler(const std::string &path) {
  std::ifstream file = opened(path);
  for (std::string line; std::getline(file, line);) {
    Case one = case_of(line);
    if (one.sampler.size() != static_cast<std::int64_t>(one.indices.size())) fail("another size: " + line);
    compare(one);
  }
}

void save(const std::string &path, std::int64_t consumed, const std::string &to) {
  const std::vector<std::uint8_t> state = case_in(path).sampler.save_state(consumed);
  std::ofstream file(to, std::ios::binary);
  file.write(reinterpret_cast<const char *>(state.data()), static_cast<std::streamsize>(state.size()));
  if (!file.flush()) fail("cannot write " + to);
}

void resume(const std::string &path, const std::string &from) {
  Case one = case_in(path);
  std::ifstream file = opened(from);
  one.sampler.load_state({std::istreambuf_iterator<char>(file), {}});
  one.sampler.set_epoch(one.epoch);  // as a trainer does after loading; it changes nothing
  compare(one);
}

class Player {
 public:
  // The answer to a line, behind `ok`.
  std::string play(const std::string &line) {
    std::istringstream words(line);
    std::string command, first, second, third;
    words >> command >> first >> second >> third;
    if (command == "fill" || command == "read" || command == "load") return with_cache(command, first, second);
    if (command == "close" && caches_.erase(first) == 0) fail("no cache " + first + " is open");
    if (command == "sampler") sampler(first);
    if (command == "save") save(first, std::stoll(second), third);
    if (command == "resume") resume(first, second);
    if (command != "close" && command != "sampler" && command != "save" && command != "resume") {
      fail("no such command: " + line);
    }
    return "";
  }

 private:
  std::string with_cache(const std::string &command, const std::string &name, const std::string &path) {
    const std::vector<Record> records = records_of(path);
    ddpcache::Cache &cache = open(name, static_cast<std::int64_t>(records.size()));
    int calls = 0;
    for (std::int64_t index = 0; index < static_cast<std::int64_t>(records.size()); ++index) {
      const Record &record = records[static_cast<std::size_t>(index)];
      if (command == "fill") {
        std::optional<ddpcache::Fill> fill = cache.begin_fill(index);
        if (!fill) fail("sample " + std::to_string(index) + " is there already");
        write(*fill, record);
        fill->commit();
      } else if (command == "read") {
        const std::optional<ddpcache::View> view = cache.view(index);
        if (!view) fail("sample " + std::to_string(index) + " is not there");
        compare(record, *view, index);
      } else {
        const auto loader = [&](ddpcache::Filling &filling, std::int64_t) {
          ++calls;
          write(filling, record);
        };
        compare(record, cache.load(index, loader), index);
      }
    }
    return command == "load" ? " " + std::to_string(calls) : "";
  }

  ddpcache::Cache &open(const std::string &name, std::int64_t length) {
    const auto found = caches_.find(name);
    if (found != caches_.end()) return found->second;
    ddpcache::CacheOptions options(length);
    options.capacity_bytes = 64 << 20;
    options.sample_bytes_max = 1 << 20;
    return caches_.emplace(name, ddpcache::Cache(name, "interop", options)).first->second;
  }

  std::map<std::string, ddpcache::Cache> caches_;
};

}  // namespace

int main() {
  Player player;
  for (std::string line; std::getline(std::cin, line) && line != "quit";) {
    try {
      const std::string answer = player.play(line);
      std::cout << "ok" << answer << std::endl;
    } catch (const std::exception &reason) {
      std::cout << "error " << reason.what() << std::endl;
    }
  }
  return 0;
}
