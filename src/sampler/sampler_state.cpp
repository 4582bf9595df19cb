#include "sampler_state.hpp"

#include <array>
#include <cinttypes>
#include <cstring>
#include <type_traits>

#include "hash.hpp"
#include "integers.hpp"
#include "whole_epoch.hpp"

namespace ddpcache {
namespace {

constexpr uint16_t state_version = 1;
constexpr char magic[] = {'D', 'C', 'S', 'S'};

// Structs of these layouts are copied as they are: integers.hpp asserts that the machine is little-endian.
struct Head {
  char magic[4];
  uint16_t version;
  uint16_t stage_count;
  uint32_t algorithm;
  uint8_t order, tail, shuffle, ring_identity;
  uint32_t exchange_ppm;
  uint32_t canonical_nodes;
  uint64_t length, seed, ring_seed;
  uint64_t epoch, exchange_epoch, exchange_shift;
};
static_assert(sizeof(Head) == 72 && std::has_unique_object_representations_v<Head>);

struct SavedStage {
  uint32_t nodes, local_size;
  uint64_t consumed;
};
static_assert(sizeof(SavedStage) == 16 && std::has_unique_object_representations_v<SavedStage>);

using Checksum = uint64_t;

constexpr uint64_t size_of_state(uint64_t stages) {
  return sizeof(Head) + stages * sizeof(SavedStage) + sizeof(Checksum);
}
static_assert(size_of_state(Stages::count_max) <= DC_SAMPLER_STATE_BYTES_MAX);

Status damaged(const char *what) { return failure(DC_ERROR_SAMPLER_STATE, "the sampler state is damaged: %s", what); }

// What stands before the head can be believed.
Status check_bytes(const uint8_t *bytes, uint64_t size, Head *head) {
  if (size < sizeof(Head) || std::memcmp(bytes, magic, sizeof magic) != 0) {
    return failure(DC_ERROR_SAMPLER_STATE, "these %" PRIu64 " bytes are no sampler state", size);
  }
  std::memcpy(head, bytes, sizeof *head);
  if (head->version != state_version) {
    return failure(DC_ERROR_SAMPLER_STATE, "the sampler state has version %d; this library reads version %d",
                   head->version, state_version);
  }
  if (head->stage_count < 1 || head->stage_count > Stages::count_max) return damaged("its number of stages");
  if (size != size_of_state(head->stage_count)) {
    return failure(DC_ERROR_SAMPLER_STATE, "the sampler state is damaged: it has %" PRIu64 " bytes instead of %" PRIu64,
                   size, size_of_state(head->stage_count));
  }
  Checksum checksum;
  std::memcpy(&checksum, bytes + size - sizeof checksum, sizeof checksum);
  if (checksum != hash64(bytes, size - sizeof checksum)) return damaged("its checksum does not match");
  return DC_OK;
}

Status check_same(const char *name, uint64_t saved, uint64_t own) {
  if (saved == own) return DC_OK;
  return failure(DC_ERROR_SAMPLER_STATE, "the state is of a sampler with %s %" PRIu64 ", and this one has %s %" PRIu64,
                 name, saved, name, own);
}

// The constants of dc_order and dc_tail by their names; numbers of later versions have none.
using Names = std::array<const char *, 3>;
constexpr Names orders = {"NODE", "TORCH", "VISCY"}, tails = {"PAD", "DROP", "EXACT"};

Status check_same(const char *name, const Names &names, uint8_t saved, int32_t own) {
  if (saved == own) return DC_OK;
  return failure(DC_ERROR_SAMPLER_STATE, "the state is of a sampler with the %s %s, and this one has %s", name,
                 saved < names.size() ? names[saved] : "of a later version", names[static_cast<size_t>(own)]);
}

Status check_options(const Head &head, const dc_sampler_options &options) {
  const struct {
    const char *name;
    uint64_t saved, own;
  } inputs[] = {
      {"algorithm version", head.algorithm, DC_SAMPLER_ALGORITHM_VERSION},
      {"length", head.length, static_cast<uint64_t>(options.length)},
      {"seed", head.seed, options.seed},
      {"ring_seed", head.ring_seed, options.ring_seed},
      {"shuffle", head.shuffle, options.shuffle},
      {"ring_identity", head.ring_identity, options.ring_identity},
      {"canonical_nodes", head.canonical_nodes, options.canonical_nodes},
  };
  for (const auto &input : inputs) {
    if (Status status = check_same(input.name, input.saved, input.own); !status.ok()) return status;
  }
  if (Status status = check_same("order", orders, head.order, options.order); !status.ok()) return status;
  return check_same("tail", tails, head.tail, options.tail);
}

// Bytes with a good checksum may still have been made by a program with a mistake.
Status check_numbers(const Head &head) {
  if (head.epoch > DC_SAMPLER_EPOCH_MAX) return damaged("its epoch is out of range");
  if (head.exchange_ppm > Exchange::ppm_max || head.exchange_epoch > DC_SAMPLER_EPOCH_MAX + 1 ||
      (head.exchange_shift != 0 && head.exchange_shift >= head.length)) {
    return damaged("its exchange is out of range");
  }
  return DC_OK;
}

Status read_stages(const Head &head, const uint8_t *bytes, Stages *stages) {
  *stages = Stages(head.length);
  for (uint64_t i = 0; i < head.stage_count; ++i) {
    SavedStage stage;
    std::memcpy(&stage, bytes + i * sizeof stage, sizeof stage);
    const uint64_t world = uint64_t{stage.nodes} * stage.local_size;
    if (world == 0 || world > DC_SAMPLER_WORLD_MAX) return damaged("a stage's layout is out of range");
    if (i == 0 && (head.canonical_nodes % stage.nodes != 0 ||
                   head.canonical_nodes / stage.nodes > WholeEpoch::windows_per_node_max)) {
      return damaged("its first layout does not go with its canonical nodes");
    }
    if (stage.consumed > stages->consumed_max(stage.nodes, stage.local_size)) {
      return damaged("a stage has consumed more than there was");
    }
    stages->add({stage.nodes, stage.local_size, stage.consumed});
  }
  return DC_OK;
}

}  // namespace

StateBytes encode_state(const dc_sampler_options &options, const Progress &progress) {
  Head head = {};
  std::memcpy(head.magic, magic, sizeof magic);
  head.version = state_version;
  head.stage_count = static_cast<uint16_t>(progress.stages.count());
  head.algorithm = DC_SAMPLER_ALGORITHM_VERSION;
  head.order = static_cast<uint8_t>(options.order);
  head.tail = static_cast<uint8_t>(options.tail);
  head.shuffle = static_cast<uint8_t>(options.shuffle);
  head.ring_identity = static_cast<uint8_t>(options.ring_identity);
  head.exchange_ppm = static_cast<uint32_t>(progress.exchange.ppm);
  head.canonical_nodes = options.canonical_nodes;
  head.length = static_cast<uint64_t>(options.length);
  head.seed = options.seed;
  head.ring_seed = options.ring_seed;
  head.epoch = progress.epoch;
  head.exchange_epoch = progress.exchange.epoch;
  head.exchange_shift = progress.exchange.shift;

  StateBytes state;
  state.size = size_of_state(head.stage_count);
  std::memcpy(state.bytes.data(), &head, sizeof head);
  uint8_t *at = state.bytes.data() + sizeof head;
  for (size_t i = 0; i < progress.stages.count(); ++i, at += sizeof(SavedStage)) {
    const Stage &stage = progress.stages[i];
    const SavedStage saved = {static_cast<uint32_t>(stage.nodes), static_cast<uint32_t>(stage.local_size),
                              stage.consumed};
    std::memcpy(at, &saved, sizeof saved);
  }
  const Checksum checksum = hash64(state.bytes.data(), state.size - sizeof checksum);
  std::memcpy(at, &checksum, sizeof checksum);
  return state;
}

Status decode_state(const uint8_t *bytes, uint64_t size, const dc_sampler_options &options, Progress *progress) {
  Head head = {};
  if (Status status = check_bytes(bytes, size, &head); !status.ok()) return status;
  if (Status status = check_options(head, options); !status.ok()) return status;
  if (Status status = check_numbers(head); !status.ok()) return status;
  progress->epoch = head.epoch;
  progress->exchange = {head.exchange_ppm, head.exchange_epoch, head.exchange_shift};
  return read_stages(head, bytes + sizeof head, &progress->stages);
}

}  // namespace ddpcache
