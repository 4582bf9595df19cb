// The bytes of a saved state: fixed, portable, refused when they are not right, and harmless whatever they are.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "hash.hpp"
#include "sampler_fixture.hpp"

namespace ddpcache {
namespace {

using State = std::vector<uint8_t>;

constexpr size_t checksum_bytes = 8, head_bytes = 72, stage_bytes = 16;

dc_sampler_options usual_options() {
  dc_sampler_options options = default_options();
  options.length = 1000;
  options.seed = 0x0123456789abcdef;
  options.ring_seed = 77;
  options.nodes = 4;
  options.local_size = 2;
  options.exchange_ppm = 250'000;
  options.canonical_nodes = 8;
  return options;
}

// Two stages, the second in an epoch that began under another layout.
State usual_state() {
  OpenSampler first(usual_options());
  first.set_epoch(0x1234567890);
  dc_sampler_options options = usual_options();
  options.nodes = 2;
  options.local_size = 3;
  OpenSampler second(options);
  second.load(first.save(50));
  return second.save(20);
}

std::string hex(const State &state) {
  std::string text;
  for (uint8_t byte : state) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

void stamp(State &state) {
  const uint64_t checksum = hash64(state.data(), state.size() - checksum_bytes);
  std::memcpy(state.data() + state.size() - checksum_bytes, &checksum, checksum_bytes);
}

void expect_refused(const State &state, const std::string &message,
                    const std::function<void(dc_sampler_options &)> &change = {}) {
  dc_sampler_options options = usual_options();
  if (change) change(options);
  OpenSampler sampler(options);
  sampler.set_epoch(3);
  const std::vector<int64_t> before = sampler.read();
  ASSERT_EQ(dc_sampler_seek(sampler.handle(), 2, nullptr), DC_OK);
  dc_error error = {};
  EXPECT_EQ(dc_sampler_state_load(sampler.handle(), state.data(), state.size(), &error), DC_ERROR_SAMPLER_STATE);
  EXPECT_EQ(std::string(error.message), message);
  int64_t epoch = -1, position = -1;
  ASSERT_EQ(dc_sampler_tell(sampler.handle(), &epoch, &position), DC_OK);
  EXPECT_EQ(epoch, 3);
  EXPECT_EQ(position, 2);
  EXPECT_EQ(sampler.read(), before);
}

TEST(SamplerState, HasTheSameBytesForEver) {
  EXPECT_EQ(hex(usual_state()),
            "44435353"  // DCSS
            "01000200"  // version 1, two stages
            "01000000"  // algorithm
            "00000100"  // NODE, PAD, shuffled, the ring not the data set's own order
            "90d00300"
            "08000000"
            "e803000000000000"
            "efcdab8967452301"
            "4d00000000000000"
            "9078563412000000"
            "0000000000000000"
            "0000000000000000"
            "04000000"
            "02000000"
            "3200000000000000"
            "02000000"
            "03000000"
            "1400000000000000"
            "8095c38674278340");
}

TEST(SamplerState, NeedsItsWholeBuffer) {
  OpenSampler sampler(usual_options());
  uint8_t buffer[DC_SAMPLER_STATE_BYTES_MAX] = {};
  uint64_t needed = 0;
  dc_error error = {};
  EXPECT_EQ(dc_sampler_state_save(sampler.handle(), 9, nullptr, 0, &needed, &error), DC_ERROR_BUFFER);
  EXPECT_EQ(needed, 96u);
  EXPECT_STREQ(error.message, "the buffer has 0 bytes and the state 96");
  EXPECT_EQ(dc_sampler_state_save(sampler.handle(), 9, buffer, 95, nullptr, nullptr), DC_ERROR_BUFFER);
  EXPECT_EQ(buffer[0], 0);
  EXPECT_EQ(dc_sampler_state_save(sampler.handle(), 9, buffer, 96, nullptr, nullptr), DC_OK);
  EXPECT_EQ(std::memcmp(buffer, "DCSS", 4), 0);
  EXPECT_EQ(buffer[96], 0);
}

TEST(SamplerState, OfAnotherSamplerIsRefusedWithWhatDiffers) {
  const State state = usual_state();
  const auto refused = [&](const std::string &name, const std::string &saved, const std::string &own, auto change) {
    expect_refused(state,
                   "the state is of a sampler with " + name + " " + saved + ", and this one has " + name + " " + own,
                   change);
  };
  refused("length", "1000", "1001", [](auto &o) { o.length = 1001; });
  refused("seed", "81985529216486895", "1", [](auto &o) { o.seed = 1; });
  refused("ring_seed", "77", "78", [](auto &o) { o.ring_seed = 78; });
  refused("shuffle", "1", "0", [](auto &o) { o.shuffle = 0; });
  refused("ring_identity", "0", "1", [](auto &o) { o.ring_identity = 1; });
  refused("canonical_nodes", "8", "16", [](auto &o) { o.canonical_nodes = 16; });
  expect_refused(state, "the state is of a sampler with the tail PAD, and this one has DROP",
                 [](auto &o) { o.tail = DC_TAIL_DROP; });
  expect_refused(state, "the state is of a sampler with canonical_nodes 8, and this one has canonical_nodes 0",
                 [](auto &o) {
                   o.order = DC_ORDER_TORCH;
                   o.exchange_ppm = o.canonical_nodes = 0;
                 });
  dc_sampler_options plain = usual_options();
  plain.exchange_ppm = plain.canonical_nodes = 0;
  expect_refused(OpenSampler(plain).save(1), "the state is of a sampler with the order NODE, and this one has VISCY",
                 [](auto &o) {
                   o.order = DC_ORDER_VISCY;
                   o.exchange_ppm = o.canonical_nodes = 0;
                 });
}

TEST(SamplerState, DamageIsNoticed) {
  const State sound = usual_state();
  expect_refused({'D'}, "these 1 bytes are no sampler state");
  expect_refused(State(80, 'x'), "these 80 bytes are no sampler state");
  OpenSampler sampler(usual_options());
  for (size_t size = 0; size < sound.size(); ++size) {
    EXPECT_EQ(dc_sampler_state_load(sampler.handle(), sound.data(), size, nullptr), DC_ERROR_SAMPLER_STATE) << size;
  }
  for (size_t bit = 0; bit < sound.size() * 8; ++bit) {
    State state = sound;
    state[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_EQ(dc_sampler_state_load(sampler.handle(), state.data(), state.size(), nullptr), DC_ERROR_SAMPLER_STATE)
        << "bit " << bit;
  }
  State state = sound;
  state.back() ^= 1;
  expect_refused(state, "the sampler state is damaged: its checksum does not match");
  state = sound;
  state.push_back(0);
  expect_refused(state, "the sampler state is damaged: it has 113 bytes instead of 112");
  state = sound;
  state[4] = 2;
  expect_refused(state, "the sampler state has version 2; this library reads version 1");
  EXPECT_EQ(sampler.size(), 125);
}

// Bytes whose checksum is right, made by a program that is wrong.
TEST(SamplerState, NumbersThatCannotBeAreRefused) {
  const auto refused = [](size_t at, auto value, const std::string &message) {
    State state = usual_state();
    std::memcpy(state.data() + at, &value, sizeof value);
    stamp(state);
    expect_refused(state, message);
  };
  const std::string damaged = "the sampler state is damaged: ";
  refused(6, uint16_t{0}, damaged + "its number of stages");
  refused(6, uint16_t{17}, damaged + "its number of stages");
  refused(8, uint32_t{2}, "the state is of a sampler with algorithm version 2, and this one has algorithm version 1");
  refused(12, uint8_t{9}, "the state is of a sampler with the order of a later version, and this one has NODE");
  refused(16, uint32_t{1'000'001}, damaged + "its exchange is out of range");
  refused(48, uint64_t{1} << 40, damaged + "its epoch is out of range");
  refused(56, (uint64_t{1} << 40) + 1, damaged + "its exchange is out of range");
  refused(64, uint64_t{1000}, damaged + "its exchange is out of range");
  refused(72, uint32_t{0}, damaged + "a stage's layout is out of range");
  refused(76, uint32_t{1 << 23}, damaged + "a stage's layout is out of range");
  refused(72, uint32_t{3}, damaged + "its first layout does not go with its canonical nodes");
  refused(80, uint64_t{126}, damaged + "a stage has consumed more than there was");
  refused(96, ~uint64_t{0}, damaged + "a stage has consumed more than there was");
}

// Uses everything that a loaded sampler can do.
void exercise(OpenSampler &sampler, int64_t length, std::mt19937_64 &random) {
  const int64_t size = sampler.size();
  ASSERT_GE(size, 0);
  ASSERT_LE(sampler.real_size(), size);
  const int64_t position = static_cast<int64_t>(random() % static_cast<uint64_t>(size + 1));
  const int64_t count = std::min<int64_t>(size - position, 200);
  for (int64_t index : sampler.read(position, count)) {
    ASSERT_GE(index, 0);
    ASSERT_LT(index, length);
    uint32_t rank = 0;
    int64_t found = 0;
    ASSERT_GE(dc_sampler_find(sampler.handle(), index, &rank, &found, nullptr), DC_OK);
  }
  int64_t index = 0;
  ASSERT_EQ(dc_sampler_next(sampler.handle(), &index), size > 0 ? DC_OK : DC_END);
  sampler.shard();
  sampler.keeps(length / 2);
  const State saved = sampler.save(size);
  sampler.load(saved);
  ASSERT_EQ(sampler.size(), 0);
  sampler.set_epoch(static_cast<int64_t>(random() % DC_SAMPLER_EPOCH_MAX));
  sampler.read(0, std::min<int64_t>(sampler.size(), 50));
}

TEST(SamplerState, MutatedBytesNeverDoHarm) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const State sound = usual_state();
  dc_sampler_options plain = usual_options();
  plain.canonical_nodes = 0;
  const State simple = OpenSampler(plain).save(60);
  int loaded = 0;
  for (int round = 0; round < 6000; ++round) {
    State state = round % 2 ? sound : simple;
    const int mutations = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < mutations; ++i) {
      // Numbers behind what the sampler compares: exchange, epoch and stages.
      static constexpr size_t places[] = {16, 48, 56, 64, 72, 76, 80, 88, 92, 96};
      const size_t at = random() % 4 ? places[random() % 10] : random() % (state.size() - 8);
      if (at + 8 > state.size()) continue;
      static constexpr uint64_t values[] = {0, 1, 2, 3, 7, 8, 125, 999, 1000, 1 << 20, 1 << 24, ~uint64_t{0}};
      const uint64_t value = random() % 3 ? values[random() % 12] : random();
      std::memcpy(state.data() + at, &value, random() % 2 ? 4 : 8);
    }
    if (random() % 8 == 0) state.resize(random() % (state.size() + 40));
    if (random() % 8 && state.size() >= checksum_bytes) stamp(state);
    dc_sampler_options options = round % 2 ? usual_options() : plain;
    options.nodes = round % 2 ? 1u << random() % 4 : 1 + random() % 9;
    options.local_size = 1 + random() % 3;
    options.node = random() % options.nodes;
    OpenSampler sampler(options);
    const int32_t status = dc_sampler_state_load(sampler.handle(), state.data(), state.size(), nullptr);
    ASSERT_TRUE(status == DC_OK || status == DC_ERROR_SAMPLER_STATE) << status << " in round " << round;
    loaded += status == DC_OK;
    exercise(sampler, options.length, random);
    if (HasFatalFailure()) FAIL() << "round " << round << ", state " << hex(state);
  }
  // Otherwise the mutations would test nothing but the first check.
  EXPECT_GT(loaded, 300);
}

}  // namespace
}  // namespace ddpcache
