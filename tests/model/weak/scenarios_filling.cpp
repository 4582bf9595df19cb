// Claims, publications, waiters, and the taking of memory.
#include "scenarios.hpp"
#include "world.hpp"

namespace weak {
namespace {

using namespace ddpcache;

// One thread a client, and memory that nobody has reserved yet.
std::shared_ptr<World> fresh(Shape shape) {
  auto world = std::make_shared<World>(shape);
  for (int t = 0; t < 4; ++t) world->prepare_thread(t, t % shape.clients);
  world->guard_steps();
  return world;
}

bool stores_all(World &world, int64_t first, int64_t last) {
  bool stored = true;
  for (int64_t index = first; index <= last; ++index) {
    const int32_t status = fill(world[0], index);
    stored &= status == DC_OK || status == DC_PRESENT;
  }
  return stored;
}

Program a_hit_sees_the_whole_sample() {
  auto world = fresh({});
  return {{[=] { fill((*world)[0], 0); }, [=] { look((*world)[1], 0); }}, {}, {}};
}

Program one_fills_and_the_other_waits() {
  auto world = fresh({});
  auto loads = std::make_shared<int>(0);
  const auto loader = [=](int client) {
    bool loaded = false;
    const int32_t status = load((*world)[client], 0, &loaded);
    explorer().require(status == DC_OK, "a load did not end with the sample");
    *loads += loaded;
  };
  return {{[=] { loader(0); }, [=] { loader(1); }},
          [=] { *loads = 0; },
          [=] { explorer().require(*loads == 1, "a sample was decoded twice"); }};
}

Program two_fill_in_a_full_cache() {
  auto world = fresh({});
  auto stored = std::make_shared<int>(0);
  const auto filler = [=](int client) {
    const int32_t status = fill((*world)[client], client);
    explorer().require(status == DC_OK || status == DC_FULL, "a fill was lost");
    *stored += status == DC_OK;
  };
  return {{[=] { filler(0); }, [=] { filler(1); }},
          [=] { *stored = 0; },
          [=] { explorer().require(*stored == 1, "not as many stored as there is room for"); }};
}

// Of two clients that take a step each, one leaves its to searches.
Program two_grow_at_once() {
  Shape shape;
  shape.length = 4;
  shape.steps = 2;
  shape.sample_bytes = 1500;
  auto world = fresh(shape);
  const auto filler = [=](int client) {
    explorer().require(fill((*world)[client], client) == DC_OK, "a fill found no room");
  };
  return {{[=] { filler(0); }, [=] { filler(1); }}, {}, [=] {
            explorer().require(stores_all(*world, 2, 3), "room was lost");
          }};
}

Program two_grow_while_another_searches() {
  Shape shape;
  shape.clients = 3;
  shape.length = 4;
  shape.steps = 2;
  shape.sample_bytes = 1500;
  auto world = fresh(shape);
  return {{[=] { fill((*world)[0], 0); }, [=] { fill((*world)[1], 1); }, [=] { fill((*world)[2], 2); }}, {}, [=] {
            explorer().require(stores_all(*world, 0, 3), "room was lost");
          }};
}

Program an_aborted_fill_leaves_its_memory() {
  auto world = fresh({});
  return {{[=] { abort_fill((*world)[0], 0); }, [=] { fill((*world)[1], 1); }}, {}, [=] {
            explorer().require((*world)[0].contains(1).ok() || stores_all(*world, 1, 1), "room was lost");
          }};
}

// Two threads of one client, whose fills use one slot of its record in turn.
Program a_slot_is_used_again() {
  Shape shape;
  shape.clients = 1;
  shape.steps = 2;
  auto world = std::make_shared<World>(shape);
  for (int t = 0; t < 2; ++t) world->prepare_thread(t, 0);
  Cache &cache = (*world)[0];
  const auto filler = [world, &cache](int64_t index) {
    const int32_t status = fill(cache, index, 1, [&] {
      explorer().require(is_noted(cache, index), "a fill without its note");
      explorer().require(is_named(cache, index), "a fill without its name");
    });
    explorer().require(status == DC_OK, "a fill found no room");
  };
  return {{[=] { filler(0); }, [=] { filler(1); }}, {}, {}};
}

// A third fills the only room, or does not; who is told FULL must not have been told so by the fill of his own index.
Program full_is_not_said_of_what_is_being_filled() {
  Shape shape;
  shape.clients = 3;
  shape.droppable = true;
  auto world = fresh(shape);
  world->store(0);
  static_cast<void>((*world)[0].remove(0));
  world->clear_guards();
  auto statuses = std::make_shared<std::array<int32_t, 2>>();
  const auto loader = [=](int client) { (*statuses)[static_cast<size_t>(client)] = load((*world)[client], 0); };
  return {{[=] { loader(0); }, [=] { loader(1); }, [=] { fill((*world)[2], 1); }}, {}, [=] {
            const bool both = (*statuses)[0] == DC_OK && (*statuses)[1] == DC_OK;
            explorer().require(both || !(*world)[0].contains(0).ok(), "FULL was said of what was being stored");
          }};
}

// Two searches share one round over four words, of which each looks at two.
Program searches_share_a_round() {
  Shape shape;
  shape.droppable = true;
  shape.length = 6;
  shape.steps = 4;
  auto world = std::make_shared<World>(shape);
  for (int64_t index = 0; index < 4; ++index) world->store(index);
  for (int64_t index = 0; index < 2; ++index) static_cast<void>((*world)[0].remove(index));
  for (int client = 0; client < 2; ++client) world->claim(4 + client, client);
  for (int t = 0; t < 2; ++t) world->prepare_thread(t, t);
  const auto search = [=](int client) {
    Extent extent;
    (*world)[client].extents_.search(0, ExtentWord::owned(4 + client, 0), 2, &extent);
  };
  // The first takes the first of two free words, and leaves the second.
  return {{[=] { search(0); }, [=] { search(1); }},
          [=] { world->forget_searches(); },
          [=] { explorer().require(world->free_extents() == 0 || !world->search_has_failed(), "room was lost"); }};
}

// Another begins a round, of three words, of which the first is free.
Program a_round_begins_anew() {
  Shape shape;
  shape.droppable = true;
  shape.length = 6;
  shape.steps = 3;
  auto world = std::make_shared<World>(shape);
  for (int64_t index = 0; index < 3; ++index) world->store(index);
  static_cast<void>((*world)[0].remove(0));
  for (int client = 0; client < 2; ++client) world->claim(4 + client, client);
  for (int t = 0; t < 2; ++t) world->prepare_thread(t, t);
  const auto search = [=](int client) {
    Extent extent;
    (*world)[client].extents_.search(0, ExtentWord::owned(4 + client, 0), 1, &extent);
  };
  return {{[=] { search(0); }, [=] { search(1); }},
          [=] { world->forget_searches(1, 1000); },
          [=] { explorer().require(world->free_extents() == 0 || !world->search_has_failed(), "room was lost"); }};
}

// A step whose taker finds that another was quicker to give the class one; a search knows one step only.
Program a_step_is_left_to_searches() {
  Shape shape;
  shape.length = 6;
  shape.steps = 2;
  auto world = std::make_shared<World>(shape);
  world->store(0);
  for (int client = 0; client < 2; ++client) world->claim(4 + client, client);
  for (int t = 0; t < 3; ++t) world->prepare_thread(t, t % 2);
  const auto grow = [=] { static_cast<void>((*world)[0].extents_.grow(0)); };
  const auto quicker = [=] {
    Word &cursor = (*world)[1].segment_.class_line(0).cursor;
    uint64_t seen = uint64_t{1} << 32 | 1;
    cursor.compare_exchange_strong(seen, seen + 1, std::memory_order_relaxed);
  };
  const auto search = [=] {
    Extent extent;
    (*world)[1].extents_.search(0, ExtentWord::owned(5, 0), 8, &extent);
  };
  return {{grow, quicker, search},
          [=] { world->forget_searches(0, 1); },
          [=] {
            const bool is_left = (*world)[0].segment_.class_line(0).cursor.load() >> 32 == 1;
            explorer().require(!is_left || world->free_extents() == 0 || !world->search_has_failed(), "room was lost");
          }};
}

Program a_removal_is_told_to_a_search() {
  Shape shape;
  shape.droppable = true;
  auto world = std::make_shared<World>(shape);
  world->store(0);
  world->claim(1, 1);
  for (int t = 0; t < 2; ++t) world->prepare_thread(t, t);
  const auto search = [=] {
    Extent extent;
    (*world)[1].extents_.search(0, ExtentWord::owned(1, 0), 8, &extent);
  };
  return {{[=] { static_cast<void>((*world)[0].remove(0)); }, search},
          [=] { world->forget_searches(0, 2); },
          [=] { explorer().require(world->free_extents() == 0 || !world->search_has_failed(), "room was lost"); }};
}

Program two_fill_what_was_used_before() {
  Shape shape;
  shape.droppable = true;
  auto world = std::make_shared<World>(shape);
  world->use_room(0);
  for (int t = 0; t < 2; ++t) world->prepare_thread(t, t);
  auto stored = std::make_shared<int>(0);
  const auto filler = [=](int client) {
    const int32_t status = fill((*world)[client], client);
    explorer().require(status == DC_OK || status == DC_FULL, "a fill was lost");
    *stored += status == DC_OK;
  };
  return {{[=] { filler(0); }, [=] { filler(1); }},
          [=] { *stored = 0; },
          [=] { explorer().require(*stored == 1, "not as many stored as there is room for"); }};
}

// In a step whose cursor has passed a word that nobody has owned, since its mover died.
Program two_fill_what_was_passed_over() {
  auto world = std::make_shared<World>(Shape{});
  static_cast<void>((*world)[0].extents_.grow(0));
  (*world)[0].segment_.class_line(0).cursor.store(uint64_t{1} << 32 | 1);
  for (int t = 0; t < 2; ++t) world->prepare_thread(t, t);
  auto stored = std::make_shared<int>(0);
  const auto filler = [=](int client) {
    const int32_t status = fill((*world)[client], client);
    explorer().require(status == DC_OK || status == DC_FULL, "a fill was lost");
    *stored += status == DC_OK;
  };
  return {{[=] { filler(0); }, [=] { filler(1); }},
          [=] { *stored = 0; },
          [=] { explorer().require(*stored == 1, "not as many stored as there is room for"); }};
}

Program an_aborted_fill_without_its_lock() {
  auto world = std::make_shared<World>(Shape{});
  for (int t = 0; t < 2; ++t) world->prepare_thread(t, t);
  world->lose_lock(0);
  return {{[=] { abort_fill((*world)[0], 0); }, [=] { load((*world)[1], 0); }}, {}, {}};
}

// And where a fill is taken over meanwhile: of two words that the round goes over, the second.
Program searches_and_a_takeover() {
  Shape shape;
  shape.clients = 4;
  shape.length = 6;
  shape.steps = 2;
  auto world = std::make_shared<World>(shape);
  world->claim_memory(0, 3);
  world->store(1);
  for (int client = 0; client < 2; ++client) world->claim(4 + client, client);
  for (int t = 0; t < 3; ++t) world->prepare_thread(t, t);
  world->lose_lock(3);
  const uint64_t start = world->start_time(3);
  const auto search = [=](int client) {
    Extent extent;
    return (*world)[client].extents_.search(0, ExtentWord::owned(4 + client, 0), 1, &extent);
  };
  const auto taker = [=] {
    const Segment &segment = (*world)[2].segment_;
    take_over(segment, 0, EntryWord(segment.entry(0).load(std::memory_order_relaxed)));
  };
  return {{[=] { search(0) || search(0); }, [=] { search(1); }, taker},
          [=] {
            world->forget_searches(1);
            declare_dead(start);
          },
          [=] { explorer().require(world->free_extents() == 0 || !world->search_has_failed(), "room was lost"); }};
}

// A process that closed its descriptors goes on with its fill, and is taken over.
Program a_fill_without_its_lock() {
  auto world = std::make_shared<World>(Shape{});
  for (int t = 0; t < 2; ++t) world->prepare_thread(t, t);
  world->lose_lock(0);
  return {{[=] { fill((*world)[0], 0); }, [=] { load((*world)[1], 0); }}, {}, {}};
}

Program two_fills_without_their_lock() {
  Shape shape;
  shape.length = 3;
  auto world = std::make_shared<World>(shape);
  for (int t = 0; t < 3; ++t) world->prepare_thread(t, t / 2);
  world->lose_lock(0);
  return {{[=] { fill((*world)[0], 0); }, [=] { fill((*world)[0], 1); }, [=] { load((*world)[1], 0); }}, {}, {}};
}

// What a taken over fill had is found by others.
Program a_takeover_is_told() {
  Shape shape;
  shape.clients = 3;
  auto world = std::make_shared<World>(shape);
  for (int t = 0; t < 2; ++t) world->prepare_thread(t, t + 1);
  world->claim_memory(0, 0);
  world->lose_lock(0);
  const uint64_t start = world->start_time(0);
  return {{[=] { abort_claim((*world)[1], 0); }, [=] { fill((*world)[2], 1); }},
          [=] { declare_dead(start); },
          [=] { explorer().require((*world)[1].contains(1).ok() || fill((*world)[1], 1) == DC_OK, "room was lost"); }};
}

}  // namespace

void add_filling(std::vector<Scenario> *all) {
  const Bounds three = {.preemptions = 1, .stale = 1};
  all->push_back({"a hit sees the whole sample", {}, a_hit_sees_the_whole_sample});
  all->push_back({"one fills and the other waits", {}, one_fills_and_the_other_waits});
  all->push_back({"two fill in a full cache", {}, two_fill_in_a_full_cache});
  all->push_back({"two grow at once", {}, two_grow_at_once});
  all->push_back({"two grow while another searches", three, two_grow_while_another_searches});
  all->push_back({"an aborted fill leaves its memory", {}, an_aborted_fill_leaves_its_memory});
  all->push_back({"a slot is used again", {.preemptions = 1, .stale = 1}, a_slot_is_used_again});
  all->push_back({"full is not said of what is being filled",
                  {.preemptions = 1, .stale = 2},
                  full_is_not_said_of_what_is_being_filled});
  all->push_back({"a fill without its lock", {}, a_fill_without_its_lock});
  all->push_back({"two fills without their lock", three, two_fills_without_their_lock});
  all->push_back({"a takeover is told", {}, a_takeover_is_told});
  all->push_back({"an aborted fill without its lock", {}, an_aborted_fill_without_its_lock});
  all->push_back({"two fill what was passed over", {}, two_fill_what_was_passed_over});
  all->push_back({"two fill what was used before", {}, two_fill_what_was_used_before});
  all->push_back({"a removal is told to a search", {.stale = 3}, a_removal_is_told_to_a_search});
  all->push_back({"a step is left to searches", {.stale = 3}, a_step_is_left_to_searches});
  all->push_back({"a round begins anew", {}, a_round_begins_anew});
  all->push_back({"searches share a round", {}, searches_share_a_round});
  all->push_back({"searches and a takeover", {.preemptions = 2, .stale = 1}, searches_and_a_takeover});
}

}  // namespace weak
