// Samples that are removed while others look at them, and memory that is used again.
#include "scenarios.hpp"
#include "world.hpp"

namespace weak {
namespace {

using namespace ddpcache;

// Sample 0 stored in the only room there is.
std::shared_ptr<World> droppable(int clients, int read_only = 0) {
  Shape shape;
  shape.clients = clients;
  shape.read_only = read_only;
  shape.droppable = true;
  auto world = std::make_shared<World>(shape);
  world->store(0);
  for (int t = 0; t < clients; ++t) world->prepare_thread(t, t);
  return world;
}

std::function<void()> nothing_lost(std::shared_ptr<World> world) {
  return [world] {
    Cache &cache = (*world)[0];
    explorer().require(cache.contains(1).ok() || cache.contains(0).ok() || fill(cache, 1) == DC_OK, "room was lost");
  };
}

Program a_reader_keeps_what_it_looks_at() {
  auto world = droppable(2);
  const auto reader = [=] {
    const uint64_t value = look((*world)[0], 0);
    explorer().require(value <= 1, "another sample's bytes");
  };
  const auto taker = [=] {
    static_cast<void>((*world)[1].remove(0));
    fill((*world)[1], 1, 2);
  };
  return {{reader, taker}, [=] { world->rewrite(0, 1); }, nothing_lost(world)};
}

Program one_removes_and_another_takes() {
  auto world = droppable(3);
  return {
      {[=] { look((*world)[0], 0); }, [=] { static_cast<void>((*world)[1].remove(0)); }, [=] { fill((*world)[2], 1); }},
      {},
      nothing_lost(world)};
}

Program a_sample_is_filled_anew() {
  auto world = droppable(2);
  const auto again = [=] {
    static_cast<void>((*world)[1].remove(0));
    fill((*world)[1], 0, 2);
  };
  return {{[=] { look((*world)[0], 0); }, again}, {}, {}};
}

Program a_sample_is_filled_anew_elsewhere() {
  Shape shape;
  shape.droppable = true;
  shape.steps = 2;
  auto world = std::make_shared<World>(shape);
  world->store(0);
  world->store(1);
  static_cast<void>((*world)[0].remove(1));
  for (int t = 0; t < 2; ++t) world->prepare_thread(t, t);
  const auto again = [=] {
    static_cast<void>((*world)[1].remove(0));
    fill((*world)[1], 0, 2);
  };
  return {{[=] { look((*world)[0], 0); }, again}, {}, {}};
}

// Two threads of one client name what they look at, by the same name in turn or by two.
Program two_readers_of_one_client() {
  auto world = droppable(2);
  world->prepare_thread(1, 0);
  world->prepare_thread(2, 1);
  const auto taker = [=] {
    static_cast<void>((*world)[1].remove(0));
    fill((*world)[1], 1);
  };
  return {{[=] { look((*world)[0], 0); }, [=] { look((*world)[0], 0); }, taker}, {}, {}};
}

// They look at two samples by the same name in turn, and the memory of the first is used again.
Program a_name_is_another_readers_next() {
  Shape shape;
  shape.droppable = true;
  shape.length = 3;
  shape.steps = 2;
  auto world = std::make_shared<World>(shape);
  for (int64_t index = 0; index < 2; ++index) world->store(index);
  for (int t = 0; t < 3; ++t) world->prepare_thread(t, t / 2);
  const auto taker = [=] {
    static_cast<void>((*world)[1].remove(0));
    fill((*world)[1], 2);
  };
  return {{[=] { look((*world)[0], 0); }, [=] { look((*world)[0], 1); }, taker}, {}, {}};
}

// The same of two threads that fill: what the first has stored is removed, and its memory used again.
Program a_name_is_another_fills_next() {
  Shape shape;
  shape.droppable = true;
  shape.length = 3;
  shape.steps = 2;
  auto world = std::make_shared<World>(shape);
  for (int64_t index = 0; index < 2; ++index) world->store(index);
  for (int64_t index = 0; index < 2; ++index) static_cast<void>((*world)[0].remove(index));
  for (int t = 0; t < 3; ++t) world->prepare_thread(t, t / 2);
  const auto taker = [=] {
    static_cast<void>((*world)[1].remove(0));
    fill((*world)[1], 2);
  };
  return {{[=] { fill((*world)[0], 0); }, [=] { fill((*world)[0], 1); }, taker}, {}, {}};
}

// With all names of the client taken.
Program a_reader_without_a_name() {
  auto world = droppable(2);
  world->take_reader_names(0);
  const auto taker = [=] {
    static_cast<void>((*world)[1].remove(0));
    fill((*world)[1], 1);
  };
  return {{[=] { look((*world)[0], 0); }, taker}, {}, nothing_lost(world)};
}

Program only_one_removes() {
  auto world = droppable(2);
  auto removed = std::make_shared<int>(0);
  const auto remove = [=](int client) { *removed += (*world)[client].remove(0).ok(); };
  return {{[=] { remove(0); }, [=] { remove(1); }},
          [=] { *removed = 0; },
          [=] { explorer().require(*removed == 1, "a sample was removed twice, or never"); }};
}

// A search fails before, so that the room is found again only if the removal is told.
Program a_removal_is_told() {
  auto world = droppable(3);
  const auto twice = [=] {
    fill((*world)[1], 1);
    fill((*world)[1], 1);
  };
  return {{[=] { static_cast<void>((*world)[0].remove(0)); }, twice}, {}, nothing_lost(world)};
}

// Of a sample in a step that the remover has not seen before.
Program what_is_new_is_removed() {
  Shape shape;
  shape.clients = 3;
  shape.droppable = true;
  auto world = std::make_shared<World>(shape);
  for (int t = 0; t < 3; ++t) world->prepare_thread(t, t);
  return {
      {[=] { fill((*world)[0], 0); }, [=] { fill((*world)[1], 1); }, [=] { static_cast<void>((*world)[2].remove(0)); }},
      {},
      nothing_lost(world)};
}

Program a_copy_is_whole() {
  auto world = droppable(2, 1);
  Cache &reader = (*world)[2];
  auto *data = const_cast<uint8_t *>(world->sample(0));
  std::array<Word *, 2> ends = {reinterpret_cast<Word *>(data), reinterpret_cast<Word *>(data + 3500 / 8 * 8 - 8)};
  for (Word *end : ends) explorer().track(end);
  const auto again = [=](int client, uint64_t value) {
    fill_words((*world)[client], 1, [&] {
      for (Word *end : ends) end->store(value, std::memory_order_relaxed);
    });
  };
  const auto read = [&reader, world] {
    const uint64_t value = look(reader, 0);
    explorer().require(value <= 1, "a copy of another sample");
  };
  const auto taker = [=] {
    static_cast<void>((*world)[1].remove(0));
    again(1, 2);
  };
  return {{read, taker}, {}, {}};
}

// In memory that was another sample's before.
Program a_copy_sees_the_whole_sample() {
  Shape shape;
  shape.read_only = 1;
  shape.droppable = true;
  auto world = std::make_shared<World>(shape);
  world->store(1);
  for (int t = 0; t < 2; ++t) world->prepare_thread(t, t);
  auto *data = const_cast<uint8_t *>(world->sample(1));
  static_cast<void>((*world)[0].remove(1));
  std::array<Word *, 2> ends = {reinterpret_cast<Word *>(data), reinterpret_cast<Word *>(data + 3500 / 8 * 8 - 8)};
  for (Word *end : ends) explorer().track(end);
  const auto filler = [=] {
    fill_words((*world)[0], 0, [&] {
      for (Word *end : ends) end->store(2, std::memory_order_relaxed);
    });
  };
  Cache &reader = (*world)[2];
  const auto read = [&reader, world] {
    const uint64_t value = look(reader, 0);
    explorer().require(value == 0 || value == 2, "a copy of what was there before");
  };
  return {{filler, read}, {}, {}};
}

}  // namespace

void add_dropping(std::vector<Scenario> *all) {
  const Bounds three = {.preemptions = 1, .stale = 1};
  all->push_back({"a reader keeps what it looks at", {}, a_reader_keeps_what_it_looks_at});
  all->push_back({"one removes and another takes", three, one_removes_and_another_takes});
  all->push_back({"a sample is filled anew", {}, a_sample_is_filled_anew});
  all->push_back({"a sample is filled anew elsewhere", {}, a_sample_is_filled_anew_elsewhere});
  all->push_back({"two readers of one client", {.preemptions = 2, .stale = 1}, two_readers_of_one_client});
  all->push_back({"a name is another reader's next", {.preemptions = 1, .stale = 1}, a_name_is_another_readers_next});
  all->push_back({"a name is another fill's next", {.preemptions = 1, .stale = 1}, a_name_is_another_fills_next});
  all->push_back({"a reader without a name", {}, a_reader_without_a_name});
  all->push_back({"only one removes", {}, only_one_removes});
  all->push_back({"a removal is told", {}, a_removal_is_told});
  all->push_back({"what is new is removed", three, what_is_new_is_removed});
  all->push_back({"a copy sees the whole sample", {}, a_copy_sees_the_whole_sample});
  all->push_back({"a copy is whole", {}, a_copy_is_whole});
}

}  // namespace weak
