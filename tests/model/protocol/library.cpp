// The library makes the model's moves, in the model's order, and every move of the table.
//
// In builds with crash points each change of a shared word is held to the table of moves as it is made, in every test;
// here it is also written down, and compared with what a client of the model does that has the same errand.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "../../process/actors.hpp"
#include "../../process/mounts.hpp"
#include "../../support/segment_file.hpp"
#include "scenes.hpp"

namespace ddpcache::model {
namespace {

using test::Actor;
using test::CacheName;
using test::Handle;
using test::holds;
using test::kMillisecond;
using test::kSecond;
using test::open_cache;
using test::put;
using test::SegmentFile;
using enum Op;

constexpr uint64_t kBytes = 20'000;

using Names = std::vector<std::string>;

// What this process's library does to shared words while one is alive.
class Listener {
 public:
  Listener() {
    heard_.clear();
    move_observer.store(&hear);
  }
  Listener(const Listener &) = delete;
  Listener &operator=(const Listener &) = delete;
  ~Listener() { move_observer.store(nullptr); }
  static const Names &heard() { return heard_; }

 private:
  static void hear(Move move, uint64_t, uint64_t) {
    const std::lock_guard<std::mutex> lock(mutex_);
    heard_.emplace_back(row_of(move).name);
  }
  static inline std::mutex mutex_;
  static inline Names heard_;
};

// What the last process of a scene does alone, after the one before it was killed, or left, where it stands.
struct Errand {
  const char *what;
  Scene scene;
  Pc other_until = Pc::done;  // that one goes first, to here
  bool other_killed = false;
  std::function<void(Names *)> by_library;
};

Names by_model(const Errand &errand) {
  Protocol protocol(errand.scene);
  World world = protocol.first();
  const auto run = [&](int process, Pc until) {
    while (protocol.choices(world, process) > 0 && world.process[static_cast<size_t>(process)].pc != until) {
      protocol.step(&world, process, 0);
    }
  };
  const int last = protocol.processes() - 1;
  if (last > 0) run(0, errand.other_until);
  if (errand.other_killed) protocol.kill(&world, 0);
  std::vector<Move> moves;
  protocol.write_moves_to(&moves);
  run(last, Pc::done);
  Names names;
  for (const Move move : moves) names.emplace_back(row_of(move).name);
  return names;
}

dc_cache_options options(int32_t clients_max = 8) {
  dc_cache_options options = test::options_for(100, 2 << 20, kBytes);
  options.droppable = 1;
  options.checksums = DC_CHECKSUMS_FILL;
  options.clients_max = static_cast<decltype(options.clients_max)>(clients_max);
  return options;
}

struct Opened {
  explicit Opened(int32_t clients_max = 8) : cache(open_cache(name, options(clients_max))) {}
  std::string line(const char *verb) const { return std::string(verb) + " " + name.c_str(); }
  const CacheName name;
  Handle cache;
};

// Listens to one call.
template <typename Call>
void listen(Names *heard, Call call) {
  const Listener listener;
  call();
  *heard = Listener::heard();
}

void look_at(dc_cache *cache, int64_t index, int32_t expected) {
  dc_view view = {};
  EXPECT_EQ(dc_cache_view(cache, index, &view), expected);
  dc_cache_view_release(&view);
}

void fill_a_new_step(Names *heard) {
  const Opened at;
  listen(heard, [&] { EXPECT_EQ(put(at.cache, 0, kBytes), DC_OK); });
}

void fail_to_fill(Names *heard) {
  const Opened at;
  EXPECT_EQ(put(at.cache, 0, kBytes), DC_OK);
  listen(heard, [&] {
    dc_fill *fill = nullptr;
    ASSERT_EQ(dc_cache_fill_begin(at.cache, 1, 0, &fill), DC_OK);
    dc_array array = test::byte_array(kBytes);
    EXPECT_EQ(dc_cache_fill_allocate(fill, &array, 1, nullptr, nullptr), DC_OK);
    EXPECT_EQ(dc_cache_fill_abort(fill), DC_OK);
  });
}

void read_it(Names *heard) {
  const Opened at;
  EXPECT_EQ(put(at.cache, 0, kBytes), DC_OK);
  listen(heard, [&] { look_at(at.cache, 0, DC_OK); });
}

void read_beyond_all_names(Names *heard) {
  const Opened at;
  EXPECT_EQ(put(at.cache, 0, kBytes), DC_OK);
  std::vector<dc_view> views(kReaderNames);
  for (dc_view &view : views) EXPECT_EQ(dc_cache_view(at.cache, 0, &view), DC_OK);
  listen(heard, [&] { look_at(at.cache, 0, DC_OK); });
  for (dc_view &view : views) dc_cache_view_release(&view);
}

void remove_and_fill(Names *heard) {
  const Opened at;
  EXPECT_EQ(put(at.cache, 0, kBytes), DC_OK);
  listen(heard, [&] {
    EXPECT_EQ(dc_cache_remove(at.cache, 0), DC_OK);
    EXPECT_EQ(put(at.cache, 1, kBytes), DC_OK);
  });
}

void find_it_unsound(Names *heard) {
  const Opened at;
  EXPECT_EQ(put(at.cache, 0, kBytes), DC_OK);
  SegmentFile(at.name).record_of(0)[0] ^= 1;
  listen(heard, [&] {
    look_at(at.cache, 0, DC_MISS);
    EXPECT_EQ(dc_cache_remove(at.cache, 0), DC_MISS);
  });
}

// As if the machine had stopped.
void read_unverified(Names *heard, bool torn) {
  const Opened at;
  EXPECT_EQ(put(at.cache, 0, kBytes), DC_OK);
  SegmentFile file(at.name);
  if (torn) file.record_of(0)[5'000] ^= 1;
  file.set_entry(0, file.entry(0).as_unverified());
  listen(heard, [&] { look_at(at.cache, 0, torn ? DC_MISS : DC_OK); });
}

void fill_after_the_dead(Names *heard) {
  const Opened at;
  EXPECT_EQ(put(at.cache, 9, kBytes), DC_OK);
  Actor filler;
  ASSERT_EQ(filler.ask(at.line("attach")), "0");
  ASSERT_EQ(filler.ask("begin 0 0"), "0");
  filler.kill_and_reap();
  listen(heard, [&] { EXPECT_EQ(put(at.cache, 0, kBytes), DC_OK); });
}

void wait_for_the_living(Names *heard) {
  const Opened at;
  Actor filler;
  ASSERT_EQ(filler.ask(at.line("attach")), "0");
  ASSERT_EQ(filler.ask("begin 0 0"), "0");
  listen(heard, [&] { EXPECT_EQ(put(at.cache, 0, kBytes, 20 * kMillisecond), DC_BUSY); });
}

void come_to_a_free_record(Names *heard) {
  const Opened at;
  Handle second;
  listen(heard, [&] { second = test::attach_cache(at.name.c_str()); });
}

void come_to_a_record_of_the_dead(Names *heard) {
  const Opened at(2);
  Actor filler;
  ASSERT_EQ(filler.ask(at.line("attach")), "0");
  ASSERT_EQ(filler.ask("begin 0 0"), "0");
  filler.kill_and_reap();
  Handle second;
  listen(heard, [&] { second = test::attach_cache(at.name.c_str()); });
}

void leave_it(Names *heard) {
  Opened at;
  const Handle other = test::attach_cache(at.name.c_str());
  listen(heard, [&] { EXPECT_EQ(at.cache.close(), DC_OK); });
}

std::vector<Errand> errands() {
  const std::vector<Stored> stored = {{0, 0}};
  return {
      {.what = "FillsANewStep",
       .scene = {.what = "", .scripts = {{{fill, 0}}}, .carved = 0},
       .by_library = fill_a_new_step},
      {.what = "FailsToFill",
       .scene = {.what = "", .scripts = {{{fail, 1}}}, .entries = 2},
       .by_library = fail_to_fill},
      {.what = "Reads", .scene = {.what = "", .scripts = {{{read, 0}}}, .stored = stored}, .by_library = read_it},
      {.what = "ReadsBeyondAllNames",
       .scene = {.what = "", .scripts = {{{read, 0}}}, .names = false, .stored = stored},
       .by_library = read_beyond_all_names},
      {.what = "RemovesAndFillsAgain",
       .scene = {.what = "", .scripts = {{{remove, 0}, {fill, 1}}}, .entries = 2, .stored = stored},
       .by_library = remove_and_fill},
      {.what = "FindsASampleUnsoundAndRemovesIt",
       .scene = {.what = "", .scripts = {{{read, 0}, {remove, 0}}}, .stored = {{0, 0, Content::unsound}}},
       .by_library = find_it_unsound},
      {.what = "VerifiesASample",
       .scene = {.what = "", .scripts = {{{read, 0}}}, .stored = {{0, 0, Content::unverified}}},
       .by_library = [](Names *heard) { read_unverified(heard, false); }},
      {.what = "RefusesATornSample",
       .scene = {.what = "", .scripts = {{{read, 0}}}, .stored = {{0, 0, Content::torn}}},
       .by_library = [](Names *heard) { read_unverified(heard, true); }},
      {.what = "FillsAfterADeadClient",
       .scene = {.what = "", .scripts = {{{fill, 0}}, {{fill, 0}}}},
       .other_until = Pc::find,
       .other_killed = true,
       .by_library = fill_after_the_dead},
      {.what = "WaitsForALivingClient",
       .scene = {.what = "", .scripts = {{{fill, 0}}, {{fill, 0}}}},
       .other_until = Pc::find,
       .by_library = wait_for_the_living},
      {.what = "ComesToAFreeRecord",
       .scene = {.what = "", .scripts = {{{attach}}}, .records = 1},
       .by_library = come_to_a_free_record},
      {.what = "ComesToARecordOfTheDead",
       .scene = {.what = "", .scripts = {{{fill, 0}}, {{attach}}}, .records = 1},
       .other_until = Pc::find,
       .other_killed = true,
       .by_library = come_to_a_record_of_the_dead},
      {.what = "Leaves", .scene = {.what = "", .scripts = {{{leave}}}}, .by_library = leave_it},
  };
}

class Library : public ::testing::TestWithParam<Errand> {};

INSTANTIATE_TEST_SUITE_P(AClientThat, Library, ::testing::ValuesIn(errands()),
                         [](const auto &errand) { return std::string(errand.param.what); });

TEST_P(Library, MakesTheMovesOfTheModelInItsOrder) {
  Names heard;
  GetParam().by_library(&heard);
  EXPECT_EQ(heard, by_model(GetParam()));
}

TEST(TableOfMoves, IsTakenRowByRowByTheLibrary) {
  std::set<std::string> taken;
  for (const Errand &errand : errands()) {
    Names heard;
    errand.by_library(&heard);
    taken.insert(heard.begin(), heard.end());
  }
  for (const MoveRow &row : kMoves) {
    EXPECT_TRUE(row.alone || taken.contains(row.name)) << row.name;
  }
}

// What is done while nobody else is attached: after a reboot, to a cache on a disk that was closed, and to one that was
// not. The reboots are real to the cache: the boot that the file names is changed.
TEST(TableOfMoves, IsTakenRowByRowByRecovery) {
  test::Mount mount;
  std::string why;
  if (!mount.format_and_mount("ext4", 64, &why)) GTEST_SKIP() << why;
  const CacheName name(mount.path().c_str());
  dc_cache_options wish = options();
  wish.keep = 1;
  wish.checksums = DC_CHECKSUMS_OFF;  // on a disk they are taken all the same
  std::set<std::string> taken;
  const auto open_after_a_reboot = [&] {
    SegmentFile(name)->control().boot.store(12345);
    const Listener listener;
    Handle cache = open_cache(name, wish);
    taken.insert(Listener::heard().begin(), Listener::heard().end());
    return cache;
  };
  const auto begin_and_die = [&](const std::string &come) {
    Actor client;
    ASSERT_EQ(client.ask("in " + mount.path()), "0");
    ASSERT_EQ(client.ask(come), "0");
    ASSERT_EQ(client.ask("put 1 20000"), "0");
    ASSERT_EQ(client.ask("begin 2 0"), "0");
    ASSERT_EQ(client.ask("allocate 20000"), "0");
    client.kill_and_reap();
  };
  begin_and_die(std::string("open ") + name.c_str() + " 100 2097152 20000 8 0 1 1");
  {
    const Handle cache = open_after_a_reboot();
    EXPECT_TRUE(holds(cache, 1, kBytes));
    EXPECT_EQ(dc_cache_remove(cache, 1), DC_OK);
    begin_and_die(std::string("attach ") + name.c_str());
  }
  EXPECT_TRUE(holds(open_after_a_reboot(), 1, kBytes));
  for (const MoveRow &row : kMoves) {
    EXPECT_TRUE(!row.alone || taken.contains(row.name)) << row.name;
  }
}

}  // namespace
}  // namespace ddpcache::model
