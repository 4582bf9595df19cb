// What the arguments of calls are made of.
#include <unistd.h>

#include <array>

#include "interface.hpp"

namespace ddpcache::fuzz {
namespace {

constexpr uint32_t kStructMost = 70'000;  // more than any function takes

std::string own(const char *text) { return "fuzz-" + std::to_string(getpid()) + text; }

}  // namespace

const char *Interface::name() {
  static const std::array<std::string, 2> good = {own("-a"), own("-b")};
  if (!rarely()) return good[input_.below(good.size())].c_str();
  return text(300);
}

const char *Interface::directory() {
  if (!rarely()) return nullptr;
  constexpr std::array<const char *, 5> kOthers = {"", "/dev/shm", "/nonexistent", "/dev/null", "relative"};
  return kOthers[input_.below(kOthers.size())];
}

// NULL, or up to so many bytes of the input.
const char *Interface::text(uint32_t bytes_max) {
  if (rarely()) return nullptr;
  const uint32_t length = rarely() ? input_.take<uint16_t>() % (bytes_max + 1) : input_.below(16);
  const std::span<const uint8_t> bytes = input_.bytes(length);
  uint8_t *copy = memory(length + 1, true);  // it ends where it ends
  std::memset(copy, 'x', length);
  if (!bytes.empty()) std::memcpy(copy, bytes.data(), bytes.size());
  return reinterpret_cast<const char *>(copy);
}

const char *Interface::path() {
  static const std::string good = "/dev/shm/" + own(".file");
  if (!rarely()) return good.c_str();
  constexpr std::array<const char *, 5> kOthers = {nullptr, "", "/dev/null", "/dev/shm", "/nonexistent/file"};
  return kOthers[input_.below(kOthers.size())];
}

std::span<const uint8_t> Interface::key() {
  const std::span<const uint8_t> bytes = input_.bytes(rarely() ? input_.byte() : input_.below(4));
  uint8_t *copy = memory(bytes.size(), true);
  if (!bytes.empty()) std::memcpy(copy, bytes.data(), bytes.size());
  return {copy, bytes.size()};
}

dc_error *Interface::error() { return input_.coin() ? nullptr : output<dc_error>(); }

uint8_t *Interface::memory(uint64_t bytes, bool never_null) {
  if (!never_null && rarely()) return nullptr;
  memory_.push_back(std::calloc(1, bytes));
  DC_MUST(memory_.back() != nullptr);
  return static_cast<uint8_t *>(memory_.back());
}

int64_t *Interface::indices(int64_t count) {
  int64_t *all = array_of<int64_t>(static_cast<uint64_t>(std::max<int64_t>(0, count)));
  for (int64_t i = 0; all && i < count; ++i) all[i] = index();
  return all;
}

uint8_t *Interface::sized(uint32_t right_size) {
  const uint32_t size =
      rarely() ? static_cast<uint32_t>(input_.number()) : right_size + 8 * (rarely() ? input_.byte() : 0);
  uint8_t *made = memory(std::clamp<uint32_t>(size, sizeof size, kStructMost));
  if (made) std::memcpy(made, &size, sizeof size);
  return made;
}

dc_cache_options *Interface::cache_options() {
  dc_cache_options options;
  DC_MUST(dc_cache_options_init(&options, sizeof options) == DC_OK);
  options.length = rarely() ? input_.signed_number() : 32;
  // What is made of it is written in whole: tens of megabytes would be made here in each second input.
  if (options.length > 5'000 && options.length <= DC_LENGTH_MAX) options.length %= 5'000;
  options.clients_max = rarely() ? static_cast<uint32_t>(input_.number()) : 1 + input_.below(3);
  if (options.clients_max <= DC_CLIENTS_MAX) options.clients_max %= 64;
  if (options.clients_max == 0) options.clients_max = 5;
  options.capacity_bytes = rarely() ? input_.number() : 1 << 18;
  options.sample_bytes = input_.below(4) ? 0 : rarely() ? input_.number() : 128;
  options.sample_bytes_max = options.sample_bytes ? 0 : rarely() ? input_.number() : 3'000;
  options.timeout_ns = rarely() ? input_.signed_number() % 1'000'000 : 100'000'000;
  options.job_id = input_.byte();
  options.keep = rarely() ? input_.byte() : input_.coin();
  options.partial = rarely() ? input_.byte() : 0;
  options.droppable = rarely() ? input_.byte() : input_.coin();
  options.keyed = rarely() ? input_.byte() : input_.coin();
  options.checksums = input_.below(4);
  options.interleave = rarely() ? input_.byte() : 0;
  options.huge_pages = rarely() ? input_.byte() : 0;
  options.reserved = rarely() ? input_.byte() : 0;
  uint8_t *made = sized(sizeof options);
  if (!made) return nullptr;
  std::memcpy(&options.struct_size, made, sizeof options.struct_size);
  std::memcpy(made, &options, std::clamp<size_t>(options.struct_size, sizeof options.struct_size, sizeof options));
  if (options.struct_size > sizeof options && options.struct_size < kStructMost && rarely()) {
    made[sizeof options] = input_.byte();
  }
  return reinterpret_cast<dc_cache_options *>(made);
}

dc_sampler_options *Interface::sampler_options() {
  dc_sampler_options options;
  DC_MUST(dc_sampler_options_init(&options, sizeof options) == DC_OK);
  options.order = rarely() ? static_cast<int32_t>(input_.number()) : static_cast<int32_t>(input_.below(3));
  options.tail = rarely() ? static_cast<int32_t>(input_.number()) : static_cast<int32_t>(input_.below(3));
  options.shuffle = rarely() ? input_.byte() : input_.coin();
  options.nodes = rarely() ? static_cast<uint32_t>(input_.number()) : 1 + input_.below(4);
  options.node = rarely() ? static_cast<uint32_t>(input_.number()) : 0;
  options.local_size = rarely() ? static_cast<uint32_t>(input_.number()) : 1 + input_.below(4);
  options.local_rank = rarely() ? static_cast<uint32_t>(input_.number()) : 0;
  options.length = rarely() ? input_.signed_number() : input_.below(200);
  // These two make what they deal in whole.
  if (options.order == DC_ORDER_TORCH || options.order == DC_ORDER_VISCY) options.length %= 1'000;
  options.seed = input_.byte();
  options.ring_identity = rarely() ? input_.byte() : 0;
  options.exchange_ppm = rarely() ? static_cast<uint32_t>(input_.number()) : 0;
  options.canonical_nodes = rarely() ? static_cast<uint32_t>(input_.number()) : 0;
  options.reserved = rarely() ? input_.byte() : 0;
  uint8_t *made = sized(sizeof options);
  if (!made) return nullptr;
  std::memcpy(&options.struct_size, made, sizeof options.struct_size);
  std::memcpy(made, &options, std::clamp<size_t>(options.struct_size, sizeof options.struct_size, sizeof options));
  return reinterpret_cast<dc_sampler_options *>(made);
}

std::vector<dc_array> Interface::arrays() {
  std::vector<dc_array> made(rarely() ? input_.below(DC_ARRAYS_MAX + 2) : 1 + input_.below(3));
  for (dc_array &array : made) {
    array.dimensions = rarely() ? input_.byte() : input_.below(3);
    for (int64_t &dimension : array.shape) dimension = rarely() ? input_.signed_number() : input_.below(20);
    array.dtype_code = input_.below(8);
    array.dtype_bits = rarely() ? input_.byte() : uint8_t{8};
    array.dtype_lanes = rarely() ? input_.take<uint16_t>() : uint16_t{1};
    const std::span<const uint8_t> bytes = input_.bytes(rarely() ? sizeof array.name : input_.below(6));
    if (!bytes.empty()) std::memcpy(array.name, bytes.data(), bytes.size());
    if (rarely()) array.reserved[3] = input_.byte();
  }
  return made;
}

}  // namespace ddpcache::fuzz
