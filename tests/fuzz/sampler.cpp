// The sampler: saved states of any bytes, sealed again so that they are read, and options and keys of any numbers. What
// is accepted deals indices of the data set, and finds them where it dealt them.
#include "ddpcache/sampler.h"

#include <array>
#include <cstddef>
#include <vector>

#include "hash.hpp"
#include "input.hpp"

using namespace ddpcache;
using namespace ddpcache::fuzz;

namespace {

constexpr size_t kHeadBytes = 72, kStageBytes = 16, kSumBytes = 8;
constexpr int64_t kReadMost = 12;

dc_sampler_options options_of(int64_t length, uint32_t nodes, uint32_t node, uint32_t local_size,
                              int32_t order = DC_ORDER_NODE, int32_t tail = DC_TAIL_PAD) {
  dc_sampler_options options;
  dc_sampler_options_init(&options, sizeof options);
  options.length = length;
  options.nodes = nodes;
  options.node = node;
  options.local_size = local_size;
  options.local_rank = local_size - 1;
  options.order = order;
  options.tail = tail;
  options.seed = 7;
  return options;
}

std::vector<dc_sampler_options> layouts() {
  std::vector<dc_sampler_options> all = {
      options_of(0, 1, 0, 1),
      options_of(1, 3, 2, 2),
      options_of(100, 1, 0, 4),
      options_of(100, 4, 1, 2, DC_ORDER_NODE, DC_TAIL_DROP),
      options_of(5'000, 3, 2, 3, DC_ORDER_NODE, DC_TAIL_EXACT),
      options_of(1'000'003, 16, 5, 8),
      options_of(int64_t{1} << 40, 7, 6, 8, DC_ORDER_NODE, DC_TAIL_EXACT),
      options_of(DC_SAMPLER_LENGTH_MAX, 4'096, 9, 4'096),
      options_of(97, 2, 1, 3, DC_ORDER_TORCH),
      options_of(97, 2, 1, 3, DC_ORDER_TORCH, DC_TAIL_DROP),
      options_of(97, 2, 0, 3, DC_ORDER_VISCY),
  };
  all[3].canonical_nodes = 12;
  all[4].exchange_ppm = 125'000;
  all[5].canonical_nodes = 64;
  all[5].exchange_ppm = 1;
  all[6].exchange_ppm = 1'000'000;
  all[7].ring_identity = 1;
  all[8].shuffle = 0;
  return all;
}

// A sampler that is kept from input to input, and its state at first, which an input changes.
struct Kept {
  dc_sampler_options options;
  dc_sampler *sampler = nullptr;
  std::vector<uint8_t> state;
};

std::vector<Kept> &kept() {
  static std::vector<Kept> *all = [] {  // for as long as the process runs
    auto *opened = new std::vector<Kept>;
    for (const dc_sampler_options &options : layouts()) {
      Kept one = {options, nullptr, std::vector<uint8_t>(DC_SAMPLER_STATE_BYTES_MAX)};
      uint64_t bytes = 0;
      DC_MUST(dc_sampler_open(&options, &one.sampler, nullptr) == DC_OK);
      DC_MUST(dc_sampler_state_save(one.sampler, 0, one.state.data(), one.state.size(), &bytes, nullptr) == DC_OK);
      one.state.resize(bytes);
      opened->push_back(std::move(one));
    }
    return opened;
  }();
  return *all;
}

void seal(std::vector<uint8_t> *state) {
  if (state->size() < kSumBytes) return;
  const uint64_t sum = hash64(state->data(), state->size() - kSumBytes);
  std::memcpy(state->data() + state->size() - kSumBytes, &sum, sizeof sum);
}

// A state with other stages and some other bytes than `state`.
std::vector<uint8_t> changed_state(Input &input, std::vector<uint8_t> state) {
  const uint8_t how = input.byte();
  if (how & 1) {
    const uint16_t stages = static_cast<uint16_t>(input.below(DC_SAMPLER_STAGES_MAX + 2));
    state.resize(kHeadBytes + stages * kStageBytes + kSumBytes);
    std::memcpy(state.data() + 6, &stages, sizeof stages);
    for (uint16_t i = 0; i < stages; ++i) {
      const uint32_t layout[] = {static_cast<uint32_t>(input.number()), static_cast<uint32_t>(input.number())};
      const uint64_t consumed = input.number();
      std::memcpy(state.data() + kHeadBytes + i * kStageBytes, layout, sizeof layout);
      std::memcpy(state.data() + kHeadBytes + i * kStageBytes + 8, &consumed, sizeof consumed);
    }
  }
  if (how & 2) {  // epoch, and from where the exchange counts
    const uint64_t numbers[] = {input.number(), input.number(), input.number()};
    std::memcpy(state.data() + 48, numbers, sizeof numbers);
  }
  for (uint32_t changes = how >> 2 & 7; changes > 0; --changes) {
    const uint64_t value = input.number();
    const size_t at = input.take<uint16_t>() % state.size(),
                 width = std::min(size_t{1} << input.below(4), state.size() - at);
    std::memcpy(state.data() + at, &value, width);
  }
  if (how & 32) state.resize(input.take<uint16_t>() % (DC_SAMPLER_STATE_BYTES_MAX + 64));
  if (!(how & 64)) seal(&state);
  return state;
}

// What every sampler must do, wherever it stands.
void use(Input &input, dc_sampler *sampler, const dc_sampler_options &options) {
  int64_t size = -1, real = -1, shard = -1;
  DC_MUST(dc_sampler_size(sampler, &size) == DC_OK && size >= 0);
  DC_MUST(dc_sampler_shard_size(sampler, &shard) == DC_OK && shard >= 0 && shard <= options.length);
  const int32_t known = dc_sampler_real_size(sampler, &real, nullptr);
  DC_MUST(known == DC_OK ? real >= 0 && real <= size : known == DC_ERROR_UNSUPPORTED);
  const uint32_t own_rank = options.node * options.local_size + options.local_rank;
  std::array<int64_t, kReadMost> indices;
  if (size > 0) {
    const int64_t position = static_cast<int64_t>(input.number() % static_cast<uint64_t>(size));
    const int64_t count = std::min<int64_t>(1 + input.below(kReadMost), size - position);
    DC_MUST(dc_sampler_read(sampler, position, indices.data(), count, nullptr) == DC_OK);
    for (int64_t i = 0; i < count; ++i) {
      DC_MUST(indices[i] >= 0 && indices[i] < options.length);
      uint32_t rank = 0;
      int64_t first = -1, again = -1;
      const int32_t found = dc_sampler_find(sampler, indices[i], &rank, &first, nullptr);
      DC_MUST(found == DC_OK || found == DC_END);
      if (found != DC_OK || rank != own_rank) continue;
      DC_MUST(first >= 0 && first <= position + i);
      DC_MUST(dc_sampler_read(sampler, first, &again, 1, nullptr) == DC_OK && again == indices[i]);
    }
  }
  if (shard > 0) {
    const int64_t position = static_cast<int64_t>(input.number() % static_cast<uint64_t>(shard));
    const int64_t count = std::min<int64_t>(kReadMost, shard - position);
    DC_MUST(dc_sampler_shard_read(sampler, position, indices.data(), count, nullptr) == DC_OK);
    for (int64_t i = 0; i < count; ++i) {
      DC_MUST(indices[i] >= 0 && indices[i] < options.length);
      DC_MUST(dc_sampler_keeps(sampler, indices[i]) == DC_OK);
    }
  }
}

// Where it stands is saved and loaded again, and deals the same.
void save_and_load(Input &input, dc_sampler *sampler, const dc_sampler_options &options) {
  std::array<uint8_t, DC_SAMPLER_STATE_BYTES_MAX> state;
  uint64_t bytes = 0;
  const int64_t consumed = input.signed_number();
  const int32_t saved = dc_sampler_state_save(sampler, consumed, state.data(), state.size(), &bytes, nullptr);
  DC_MUST(saved == DC_OK || saved == DC_ERROR_RANGE || saved == DC_ERROR_SAMPLER_STATE);
  if (saved != DC_OK) return;
  DC_MUST(dc_sampler_state_load(sampler, state.data(), bytes, nullptr) == DC_OK);
  use(input, sampler, options);
}

void load_states(Input &input) {
  const Kept &one = kept()[input.below(static_cast<uint32_t>(kept().size()))];
  DC_MUST(dc_sampler_state_load(one.sampler, one.state.data(), one.state.size(), nullptr) == DC_OK);
  const std::vector<uint8_t> state = changed_state(input, one.state);
  const int32_t status = dc_sampler_state_load(one.sampler, state.data(), state.size(), nullptr);
  DC_MUST(status == DC_OK || status == DC_ERROR_SAMPLER_STATE);
  use(input, one.sampler, one.options);
  if (input.coin()) save_and_load(input, one.sampler, one.options);
  const int32_t epoch_set = dc_sampler_set_epoch(one.sampler, input.signed_number(), nullptr);
  DC_MUST(epoch_set == DC_OK || epoch_set == DC_ERROR_RANGE);
  if (input.coin()) use(input, one.sampler, one.options);
}

void open_with(Input &input) {
  dc_sampler_options options;
  dc_sampler_options_init(&options, sizeof options);
  options.order = static_cast<int32_t>(input.below(4));
  options.tail = static_cast<int32_t>(input.below(4));
  options.shuffle = input.below(8) ? 1 : input.byte();
  options.nodes = static_cast<uint32_t>(input.number());
  options.local_size = static_cast<uint32_t>(input.number());
  options.node = options.nodes ? static_cast<uint32_t>(input.number()) % options.nodes : input.byte();
  options.local_rank = options.local_size ? static_cast<uint32_t>(input.number()) % options.local_size : input.byte();
  options.length = input.signed_number();
  options.seed = input.number();
  options.ring_seed = input.byte();
  options.ring_identity = input.below(16) ? 0 : input.byte();
  if (input.coin()) options.exchange_ppm = static_cast<uint32_t>(input.number());
  if (input.coin()) options.canonical_nodes = options.nodes * static_cast<uint32_t>(input.number());
  // What these two deal is made in whole.
  if (options.order == DC_ORDER_TORCH || options.order == DC_ORDER_VISCY) options.length %= 1'000;
  dc_sampler *sampler = nullptr;
  const int32_t status = dc_sampler_open(&options, &sampler, nullptr);
  DC_MUST(status == DC_OK ? sampler != nullptr : status < 0 && sampler == nullptr);
  if (status != DC_OK) return;
  use(input, sampler, options);
  if (dc_sampler_set_epoch(sampler, input.signed_number(), nullptr) == DC_OK) use(input, sampler, options);
  save_and_load(input, sampler, options);
  dc_sampler_close(sampler);
}

void permute(Input &input) {
  dc_permutation *permutation = nullptr;
  const int64_t length = input.coin() ? input.signed_number() : input.take<uint16_t>() % 512;
  const int32_t status = dc_permutation_open(length, input.number(), input.signed_number(), input.byte(),
                                             static_cast<int32_t>(input.below(5)), &permutation, nullptr);
  DC_MUST(status == DC_OK ? permutation != nullptr : status < 0 && permutation == nullptr);
  if (status != DC_OK) return;
  std::array<int64_t, kReadMost> indices;
  const int64_t position = input.coin() && length > 0
                               ? static_cast<int64_t>(input.number() % static_cast<uint64_t>(length))
                               : input.signed_number();
  const int64_t count = input.below(kReadMost + 1);
  if (dc_permutation_batch(permutation, position, indices.data(), count) == DC_OK) {
    for (int64_t i = 0; i < count; ++i) {
      int64_t index = -1, back = -1;
      DC_MUST(dc_permutation_at(permutation, position + i, &index) == DC_OK && index == indices[i]);
      DC_MUST(index >= 0 && index < length);
      DC_MUST(dc_permutation_inverse(permutation, index, &back) == DC_OK && back == position + i);
    }
  }
  dc_permutation_close(permutation);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Input input(data, size);
  switch (input.below(4)) {
    case 0: open_with(input); break;
    case 1: permute(input); break;
    default: load_states(input);
  }
  return 0;
}
