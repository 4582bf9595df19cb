// dc_cache_check beside everything that others do meanwhile: what is sound is never called damaged.
#include "scenarios.hpp"
#include "world.hpp"

namespace weak {
namespace {

using namespace ddpcache;

constexpr int kChecker = 1;

// What a client does, in a thread, and the check of another beside it.
Program beside(std::shared_ptr<World> world, int client, std::function<void(Cache &)> deed,
               std::function<void()> before = {}) {
  world->prepare_thread(0, client);
  world->prepare_thread(1, kChecker);
  const auto check = [world] {
    dc_cache_report report = {};
    const Status status = (*world)[kChecker].check(&report);
    explorer().require(status.ok(), ("what is sound was called damaged: " + status.message()).c_str());
  };
  return {{[=] { deed((*world)[client]); }, check}, std::move(before), {}};
}

// Nothing is reserved yet.
std::shared_ptr<World> fresh(Shape shape) {
  auto world = std::make_shared<World>(shape);
  world->guard_steps();
  return world;
}

// Sample 0 is stored, in the only room there is.
std::shared_ptr<World> droppable(int clients) {
  Shape shape;
  shape.clients = clients;
  shape.droppable = true;
  shape.races = true;
  auto world = std::make_shared<World>(shape);
  world->store(0);
  return world;
}

Program a_fill() {
  return beside(fresh({}), 0, [](Cache &cache) { fill(cache, 0); });
}

Program a_fill_given_up() {
  return beside(fresh({}), 0, [](Cache &cache) { abort_fill(cache, 0); });
}

// By the same name, of the only room there is.
Program two_fills_in_turn() {
  Shape shape;
  shape.races = true;
  return beside(fresh(shape), 0, [](Cache &cache) {
    abort_fill(cache, 0);
    fill(cache, 1);
  });
}

Program growth() {
  Shape shape;
  shape.steps = 2;
  return beside(fresh(shape), 0, [](Cache &cache) {
    fill(cache, 0);
    fill(cache, 1);
  });
}

Program a_new_key() {
  Shape shape;
  shape.keyed = true;
  return beside(std::make_shared<World>(shape), 0, [](Cache &cache) {
    const uint8_t key = 1;
    int64_t index = 0;
    static_cast<void>(cache.intern(&key, 1, &index));
  });
}

Program a_removal() {
  return beside(droppable(2), 0, [](Cache &cache) {
    static_cast<void>(cache.remove(0));
    fill(cache, 1);
  });
}

// By one who has not named it.
Program a_removal_of_what_is_new() {
  Shape shape;
  shape.clients = 3;
  shape.droppable = true;
  shape.races = true;
  auto world = fresh(shape);
  Program program = beside(world, 0, [](Cache &cache) { fill(cache, 0); });
  world->prepare_thread(2, 2);
  program.threads.push_back([=] { static_cast<void>((*world)[2].remove(0)); });
  return program;
}

Program a_reader(bool with_name) {
  auto world = droppable(2);
  if (!with_name) world->take_reader_names(0);
  return beside(world, 0, [](Cache &cache) { look(cache, 0); });
}

Program a_newcomer() {
  auto world = droppable(3);
  world->forget_record(2);
  const auto come = [](Cache &cache) {
    if (enroll(cache)) look(cache, 0);
  };
  return beside(world, 2, come, [=] { world->lose_lock(2); });
}

Program one_who_leaves() {
  return beside(droppable(2), 0, [](Cache &cache) {
    look(cache, 0);
    fill(cache, 1);
    leave(cache);
  });
}

// With a fill under way, and a view that has a name or is only counted.
Program the_deads_record_is_taken(bool with_name) {
  Shape shape;
  shape.clients = 3;
  shape.droppable = true;
  shape.races = true;
  shape.steps = 2;
  auto world = std::make_shared<World>(shape);
  world->store(0);
  world->claim_memory(1, 0);
  if (!with_name) world->take_reader_names(0);
  look_and_keep((*world)[0], 0);
  const uint64_t start = world->start_time(0);
  world->unregister(2);
  world->lose_lock(0);
  return beside(
      world, 2, [](Cache &cache) { enroll(cache); },
      [=] {
        world->lose_lock(2);
        declare_dead(start);
      });
}

Program a_takeover() {
  Shape shape;
  shape.clients = 3;
  shape.races = true;
  auto world = std::make_shared<World>(shape);
  world->claim_memory(0, 0);
  const uint64_t start = world->start_time(0);
  world->lose_lock(0);
  return beside(
      world, 2, [](Cache &cache) { load(cache, 0); }, [=] { declare_dead(start); });
}

}  // namespace

void add_checks(std::vector<Scenario> *all) {
  const auto add = [&](const char *beside_what, Bounds bounds, std::function<Program()> make) {
    all->push_back({std::string("a check beside ") + beside_what, bounds, std::move(make)});
  };
  const Bounds one = {.preemptions = 1, .stale = 1};
  // Hundreds of words are cleared there, each of which the check may see before or after.
  const Bounds at_random = {.executions = 2000, .random_seed = 20261130};
  add("a fill", {.preemptions = 2, .stale = 1}, a_fill);
  add("a fill that is given up", one, a_fill_given_up);
  add("two fills in turn", one, two_fills_in_turn);
  add("growth", one, growth);
  add("a new key", {}, a_new_key);
  add("a removal", {}, a_removal);
  add("a removal of what is new", {.executions = 10'000, .random_seed = 20261130}, a_removal_of_what_is_new);
  add("a reader", {}, [] { return a_reader(true); });
  add("a reader without a name", {}, [] { return a_reader(false); });
  add("a newcomer", at_random, a_newcomer);
  add("one who leaves", one, one_who_leaves);
  add("a newcomer in the record of the dead", at_random, [] { return the_deads_record_is_taken(true); });
  add("a newcomer where the dead had readers without a name", at_random,
      [] { return the_deads_record_is_taken(false); });
  add("a takeover", one, a_takeover);
}

}  // namespace weak
