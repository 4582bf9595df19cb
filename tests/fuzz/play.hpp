// What a program does with a cache, as an input says: every function that reads, fills, removes, checks or saves, while
// damage is done in between and inside of callbacks.
#pragma once

#include <array>
#include <vector>

#include "../support/damage.hpp"
#include "playground.hpp"
#include "record.hpp"

namespace ddpcache::fuzz {

inline void do_damage(Input &input, const Segment &words) {
  const test::DamageKind &kind = test::kDamageKinds[input.below(test::kDamageKinds.size())];
  const uint32_t where = input.take<uint16_t>();
  kind.apply(words, {where, input.number()});
}

// Whether some of the acts are damage, another does damage meanwhile, or nobody does and the cache is sound at first.
enum class Weather { damaging, damaged, sound };

class Play {
 public:
  Play(Input &input, const Playground &ground, Weather weather)
      : input_(input), ground_(ground), damaging_(weather == Weather::damaging), sound_(weather == Weather::sound) {}
  Play(const Play &) = delete;
  Play &operator=(const Play &) = delete;

  void run() {
    while (!input_.empty() && acts_++ < kActsMax) act();
    end();
  }

 private:
  static constexpr int kActsMax = 64;
  static constexpr int kDepthMax = 3;
  static constexpr uint64_t kBufferBytes = 4'096;

  dc_cache *cache() { return input_.below(4) ? ground_.writer() : ground_.reader(); }
  int64_t index() { return static_cast<int64_t>(input_.below(Playground::kLength + 1)) - (input_.below(32) == 31); }
  int64_t timeout_ns() {
    constexpr std::array<int64_t, 4> kTimeouts = {0, 1, 1'000, 20'000};
    return kTimeouts[input_.below(kTimeouts.size())];
  }
  uint64_t some_bytes() { return input_.below(8) ? input_.byte() : input_.take<uint16_t>() % (kBufferBytes + 1); }

  // Any outcome is right but one that says that the library itself is wrong.
  static int32_t outcome(int32_t status) {
    DC_MUST(status >= DC_ERROR_SAMPLER_STATE && status <= DC_PRESENT && status != DC_ERROR_INTERNAL);
    DC_MUST(std::strcmp(dc_strerror(status), "unknown status") != 0);
    return status;
  }

  // Where nothing was damaged, everything is as it should be.
  void check(dc_cache *cache) {
    dc_cache_report found = {};
    dc_error error = {};
    found.struct_size = sizeof found;
    const int32_t status = outcome(dc_cache_check(cache, &found, &error));
    DC_MUST((status == DC_OK) == (found.violations == 0) && (status == DC_OK || status == DC_ERROR_DAMAGED));
    if (sound_ && status != DC_OK) finding(__FILE__, __LINE__, error.message);
  }

  void act() {
    switch (input_.below(20)) {
      case 0:
      case 1:
      case 2:
      case 3:
        if (damaging_) do_damage(input_, ground_.words());
        break;
      case 4: view(); break;
      case 5: release(); break;
      case 6: load(); break;
      case 7: begin_fill(); break;
      case 8: end_fill(); break;
      case 9: read(); break;
      case 10: gather(); break;
      case 11: describe(); break;
      case 12: look(); break;
      case 13: remove(); break;
      case 14: use_key(); break;
      case 15: report(); break;
      case 16: check(cache()); break;
      case 17: save(); break;
      default: hit(); break;
    }
  }

  void inspect(const dc_view &view) {
    const uint64_t most = ground_.words().layout.largest_record();
    DC_MUST(view.record_bytes <= most && view.array_count >= 1 && view.array_count <= DC_ARRAYS_MAX);
    DC_MUST(view.data >= view.record && view.bytes <= view.record_bytes);
    DC_MUST(static_cast<uint64_t>(view.data - view.record) <= view.record_bytes - view.bytes);
    touch(view.data, view.bytes);
    uint64_t length = 0;
    if (const char *text = dc_view_structure(&view, &length)) touch(reinterpret_cast<const uint8_t *>(text), length);
    for (uint32_t number = 0; number < view.array_count; ++number) {
      dc_array array;
      if (dc_view_array(&view, number, &array) != DC_OK) continue;
      DC_MUST(array.data >= view.record && array.bytes <= view.record_bytes);
      DC_MUST(static_cast<uint64_t>(array.data - view.record) <= view.record_bytes - array.bytes);
      touch(array.data, array.bytes);
    }
  }

  // A fault, where it is not there to be read.
  void touch(const uint8_t *bytes, uint64_t count) {
    if (count > 0) seen_ = static_cast<uint8_t>(seen_ ^ bytes[0] ^ bytes[count / 2] ^ bytes[count - 1]);
  }

  void keep(dc_view view) {
    inspect(view);
    views_.push_back(view);
    if (views_.size() > 8) release();
  }

  void view() {
    dc_view view;
    if (outcome(dc_cache_view(cache(), index(), &view)) == DC_OK) keep(view);
  }

  void hit() {
    dc_view view;
    if (outcome(dc_cache_view(ground_.writer(), index(), &view)) != DC_OK) return;
    inspect(view);
    dc_cache_view_release(&view);
  }

  void release() {
    if (views_.empty()) return;
    const size_t which = input_.below(static_cast<uint32_t>(views_.size()));
    inspect(views_[which]);
    dc_cache_view_release(&views_[which]);
    views_.erase(views_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  std::array<dc_array, 2> arrays() {
    std::array<dc_array, 2> made = {bytes_of(static_cast<int64_t>(some_bytes())), bytes_of(input_.below(100))};
    if (input_.coin()) std::strcpy(made[0].name, "x");
    return made;
  }

  void allocate(dc_fill *fill) {
    std::array<dc_array, 2> made = arrays();
    const uint32_t count = 1 + input_.below(2);
    const char *structure = input_.below(4) ? nullptr : "[0, 1]";
    if (outcome(dc_cache_fill_allocate(fill, made.data(), count, structure, nullptr)) != DC_OK) return;
    for (uint32_t a = 0; a < count; ++a) {
      if (made[a].bytes > 0) std::memset(made[a].data, 0x5A, made[a].bytes);
    }
  }

  static int32_t loader(dc_fill *fill, int64_t, void *user) {
    Play &play = *static_cast<Play *>(user);
    if (play.depth_ < kDepthMax) {
      ++play.depth_;
      for (uint32_t acts = play.input_.below(3); acts > 0; --acts) play.act();
      --play.depth_;
    }
    for (uint32_t times = play.input_.below(8) ? 1 : 2; times > 0; --times) play.allocate(fill);
    return play.input_.below(8) ? DC_LOADED : static_cast<int32_t>(play.input_.byte());
  }

  void load() {
    dc_view view;
    dc_cache *const from = cache();
    const int64_t at = index();
    if (outcome(dc_cache_load(from, at, loader, this, timeout_ns(), &view)) == DC_OK) keep(view);
  }

  void begin_fill() {
    dc_fill *fill = nullptr;
    dc_cache *const of = cache();
    const int64_t at = index();
    if (outcome(dc_cache_fill_begin(of, at, timeout_ns(), &fill)) != DC_OK) return;
    DC_MUST(dc_cache_fill_index(fill) == at);
    fills_.push_back(fill);
    if (input_.below(4)) allocate(fill);
  }

  void end_fill() {
    if (fills_.empty()) return;
    const size_t which = input_.below(static_cast<uint32_t>(fills_.size()));
    dc_fill *const fill = fills_[which];
    if (input_.below(4) == 0) return allocate(fill);
    const bool over = input_.coin() && outcome(dc_cache_fill_commit(fill)) != DC_ERROR_STATE;
    if (!over) DC_MUST(dc_cache_fill_abort(fill) == DC_OK);
    fills_.erase(fills_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  void read() {
    uint64_t bytes = 0;
    const uint64_t room = some_bytes();
    std::vector<uint8_t> buffer(room);
    outcome(dc_cache_read(cache(), index(), input_.below(3), buffer.data(), room, &bytes));
    outcome(dc_cache_structure(cache(), index(), buffer.data(), room, &bytes));
  }

  std::vector<int64_t> indices() {
    std::vector<int64_t> chosen(input_.below(12));
    for (int64_t &one : chosen) one = index();
    return chosen;
  }

  void gather() {
    const std::vector<int64_t> chosen = indices();
    const int64_t count = static_cast<int64_t>(chosen.size());
    const uint64_t first = input_.byte();
    std::vector<uint8_t> one(chosen.size() * first), other(chosen.size() * 64);
    std::vector<int32_t> statuses(chosen.size());
    const dc_gather parts[] = {{one.data(), nullptr, first, 0, 0}, {other.data(), nullptr, 64, 1, 0}};
    outcome(dc_cache_gather(cache(), chosen.data(), count, parts, 1 + input_.below(2), statuses.data(), 1));
    outcome(dc_cache_read_batch(cache(), chosen.data(), count, 0, one.data(), first, nullptr, 2));
  }

  void describe() {
    const std::vector<int64_t> chosen = indices();
    std::vector<dc_array> arrays(chosen.size());
    std::vector<uint32_t> counts(chosen.size());
    std::vector<uint64_t> structures(chosen.size());
    std::vector<int32_t> statuses(chosen.size());
    outcome(dc_cache_describe_batch(cache(), chosen.data(), static_cast<int64_t>(chosen.size()), input_.below(3),
                                    arrays.data(), counts.data(), structures.data(), statuses.data()));
  }

  void look() {
    std::array<uint8_t, (Playground::kLength + 7) / 8> bitmap;
    const int64_t first = index();
    outcome(dc_cache_contains(cache(), first));
    outcome(dc_cache_residency(cache(), first, Playground::kLength - first, bitmap.data()));
  }

  void remove() {
    int64_t removed = 0;
    if (input_.below(8) == 0) {
      outcome(dc_cache_clear(cache(), &removed));
    } else if (input_.coin()) {
      outcome(dc_cache_remove(cache(), index()));
    } else {
      const std::vector<int64_t> chosen = indices();
      outcome(dc_cache_remove_batch(cache(), chosen.data(), static_cast<int64_t>(chosen.size()), &removed));
    }
  }

  void use_key() {
    const std::string key = "key " + std::to_string(input_.below(40));
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(key.data());
    int64_t index = -1;
    dc_view view;
    switch (input_.below(3)) {
      case 0: outcome(dc_cache_intern(cache(), bytes, key.size(), &index)); break;
      case 1: outcome(dc_cache_lookup(cache(), bytes, key.size(), &index)); break;
      default:
        if (outcome(dc_cache_view_key(cache(), bytes, key.size(), &view)) == DC_OK) keep(view);
    }
    DC_MUST(index >= -1 && index < Playground::kLength);
  }

  void report() {
    dc_cache_info info = {};
    dc_cache_stats stats = {};
    info.struct_size = sizeof info;
    stats.struct_size = sizeof stats;
    outcome(input_.coin() ? dc_cache_info_get(cache(), &info) : dc_cache_stats_get(cache(), input_.coin(), &stats));
  }

  static int32_t progress(uint64_t, uint64_t, void *user) {
    Play &play = *static_cast<Play *>(user);
    if (play.damaging_ && play.input_.coin()) do_damage(play.input_, play.ground_.words());
    return play.input_.below(8) == 7;
  }

  // To a file in memory, once an input: it takes as long as all the rest.
  void save() {
    if (saved_) return;
    saved_ = true;
    const std::string path = "/dev/shm/fuzz-" + std::to_string(getpid()) + ".saved";
    int64_t samples = -1;
    const int32_t status = outcome(dc_cache_save(cache(), path.c_str(), progress, this, &samples, nullptr));
    DC_MUST(status != DC_OK || (samples >= 0 && samples <= Playground::kLength));
    if (status == DC_OK) unlink(path.c_str());
  }

  // What this program holds of the cache, so that nothing of this input is left when the next begins.
  void end() {
    for (dc_view &view : views_) {
      inspect(view);
      dc_cache_view_release(&view);
    }
    for (dc_fill *fill : fills_) DC_MUST(dc_cache_fill_abort(fill) == DC_OK);
    check(ground_.writer());
  }

  Input &input_;
  const Playground &ground_;
  const bool damaging_;
  const bool sound_;
  std::vector<dc_view> views_;
  std::vector<dc_fill *> fills_;
  int acts_ = 0;
  int depth_ = 0;
  bool saved_ = false;
  volatile uint8_t seen_ = 0;
};

}  // namespace ddpcache::fuzz
