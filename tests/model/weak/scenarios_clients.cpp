// Clients that come, go and die.
#include "scenarios.hpp"
#include "world.hpp"

namespace weak {
namespace {

using namespace ddpcache;

std::shared_ptr<World> droppable(int clients) {
  Shape shape;
  shape.clients = clients;
  shape.droppable = true;
  auto world = std::make_shared<World>(shape);
  world->store(0);
  for (int t = 0; t < clients; ++t) world->prepare_thread(t, t);
  return world;
}

Program a_waiter_takes_over_from_the_dead() {
  auto world = std::make_shared<World>(Shape{});
  for (int t = 0; t < 2; ++t) world->prepare_thread(t, t);
  const auto dying = [=] {
    claim_and_write((*world)[0], 0);
    world->die(0);
  };
  const auto waiter = [=] { explorer().require(load((*world)[1], 0) == DC_OK, "a waiter got nothing"); };
  return {{dying, waiter}, [=] { world->revive(0); }, {}};
}

// A newcomer takes the record of the dead, and a third what the dead had.
Program a_record_is_taken_from_the_dead() {
  Shape shape;
  shape.clients = 3;
  auto world = std::make_shared<World>(shape);
  for (int t = 0; t < 3; ++t) world->prepare_thread(t, t);
  world->unregister(2);
  const auto dying = [=] {
    claim_and_write((*world)[0], 0);
    world->die(0);
  };
  return {{dying, [=] { enroll((*world)[2]); }, [=] { fill((*world)[1], 1); }},
          [=] {
            world->lose_lock(2);
            world->revive(0);
          },
          {}};
}

Program a_dead_reader_leaves_its_names(bool has_names) {
  auto world = droppable(3);
  world->unregister(2);
  if (!has_names) world->take_reader_names(0);
  const auto dying = [=] {
    look_and_keep((*world)[0], 0);
    world->die(0);
  };
  const auto taker = [=] {
    static_cast<void>((*world)[1].remove(0));
    fill((*world)[1], 1);
  };
  return {{dying, [=] { enroll((*world)[2]); }, taker},
          [=] {
            world->lose_lock(2);
            world->revive(0);
          },
          {}};
}

// The record of one that leaves is another's next.
Program a_record_changes_hands(bool with_descriptor) {
  auto world = droppable(3);
  world->unregister(2);
  if (!with_descriptor) world->close_descriptor(0);
  const auto leaving = [=] {
    look((*world)[0], 0);
    leave((*world)[0]);
  };
  const auto coming = [=] {
    if (enroll((*world)[2])) look((*world)[2], 0);
  };
  const auto taker = [=] {
    static_cast<void>((*world)[1].remove(0));
    fill((*world)[1], 1);
  };
  return {{leaving, coming, taker},
          [=] {
            world->lose_lock(2);
            if (with_descriptor) world->revive(0);
          },
          {}};
}

// A newcomer has the record of the dead, and looks at what another removes: the name is not the dead one's.
Program a_newcomer_looks(bool with_name) {
  auto world = droppable(3);
  const uint64_t start = world->start_time(0);
  world->unregister(2);
  world->close_descriptor(0);
  if (!with_name) world->take_reader_names(2);
  const auto coming = [=] {
    if (enroll((*world)[2])) look((*world)[2], 0);
  };
  const auto taker = [=] {
    static_cast<void>((*world)[1].remove(0));
    fill((*world)[1], 1);
  };
  return {{coming, taker},
          [=] {
            world->lose_lock(2);
            declare_dead(start);
          },
          {}};
}

// Who has just registered is not taken for dead.
Program a_newcomer_fills() {
  Shape shape;
  shape.clients = 3;
  auto world = std::make_shared<World>(shape);
  for (int t = 0; t < 3; ++t) world->prepare_thread(t, t);
  world->unregister(2);
  const auto coming = [=] {
    if (!enroll((*world)[2])) return;
    const int32_t status = fill((*world)[2], 0);
    explorer().require(status == DC_OK || status == DC_PRESENT, "a fill of a live client was lost");
  };
  return {{coming, [=] { load((*world)[1], 0); }}, [=] { world->lose_lock(2); }, {}};
}

// Two threads of a forked child use the cache first.
Program a_child_registers_once() {
  auto world = droppable(2);
  world->make_child(1);
  for (int t = 0; t < 2; ++t) world->prepare_thread(t, 0);
  const auto reader = [=] { explorer().require(look((*world)[1], 0) != 0, "a child does not see what is stored"); };
  return {{reader, reader}, [=] { world->lose_lock(1); }, {}};
}

// Its first registration had failed.
Program a_child_registers_late() {
  auto world = droppable(2);
  world->make_child(1);
  (*world)[1].clients_.process_->generation.store(fork_generation());
  for (int t = 0; t < 2; ++t) world->prepare_thread(t, 0);
  return {{[=] { fill((*world)[1], 1); }, [=] { look((*world)[1], 0); }}, [=] { world->lose_lock(1); }, {}};
}

// Two threads of a child that only reads, and whose fork came by no handler.
Program a_child_opens_its_descriptor() {
  Shape shape;
  shape.clients = 1;
  shape.read_only = 1;
  auto world = std::make_shared<World>(shape);
  world->make_child(1);
  world->bypass_handlers(1);
  for (int t = 0; t < 2; ++t) world->prepare_thread(t, 0);
  const auto use = [=] {
    Clients &clients = (*world)[1].clients_;
    clients.generation();
    explorer().require(clients.checked_fd() >= 0, "a child without a descriptor");
  };
  return {{use, use}, {}, {}};
}

}  // namespace

void add_clients(std::vector<Scenario> *all) {
  const Bounds three = {.preemptions = 1, .stale = 1};
  all->push_back({"a waiter takes over from the dead", {.slices = true}, a_waiter_takes_over_from_the_dead});
  all->push_back({"a record is taken from the dead", three, a_record_is_taken_from_the_dead});
  all->push_back({"a dead reader leaves its names", three, [] { return a_dead_reader_leaves_its_names(true); }});
  all->push_back({"a dead reader leaves its count", three, [] { return a_dead_reader_leaves_its_names(false); }});
  all->push_back({"a record changes hands", three, [] { return a_record_changes_hands(true); }});
  all->push_back(
      {"a record changes hands, its descriptor closed", three, [] { return a_record_changes_hands(false); }});
  all->push_back({"a newcomer looks", {}, [] { return a_newcomer_looks(true); }});
  all->push_back({"a newcomer looks without a name", {}, [] { return a_newcomer_looks(false); }});
  all->push_back({"a newcomer fills", {}, a_newcomer_fills});
  all->push_back({"a child registers once", {}, a_child_registers_once});
  all->push_back({"a child opens its descriptor", {}, a_child_opens_its_descriptor});
  all->push_back({"a child registers late", {}, a_child_registers_late});
}

}  // namespace weak
