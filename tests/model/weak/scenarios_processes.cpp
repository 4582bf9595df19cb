// Within one process, and what needs no client: counters, views, keys, values that are built once.
#include "keys.hpp"
#include "lazy.hpp"
#include "scenarios.hpp"
#include "world.hpp"

namespace weak {
namespace {

using namespace ddpcache;

// The last of them, and nobody else, frees the handle, when all are done with it.
Program the_last_view_frees_the_handle() {
  auto world = std::make_shared<World>(Shape{});
  Clients &clients = (*world)[0].clients_;
  auto freed = std::make_shared<int>(0);
  const auto end = [=, &clients](bool (Clients::*how)()) {
    explorer().read(freed.get());
    if (!(clients.*how)()) return;
    explorer().write(freed.get());
    ++*freed;
  };
  return {{[=] { end(&Clients::drop_view); }, [=] { end(&Clients::drop_view); }, [=] { end(&Clients::close_views); }},
          [=, &clients] {
            *freed = 0;
            clients.process_->views.store(4);
            static_cast<void>(world);
          },
          [=] { explorer().require(*freed == 1, "a handle was freed twice, or never"); }};
}

Program a_line_of_counters_is_handed_over() {
  auto world = std::make_shared<World>(Shape{});
  ClientRecord *record = (*world)[0].clients_.record();
  const auto use = [=] { count(record, Counter::waits); };
  return {{use, use}, {}, [=] {
            explorer().require(counted(*record, Counter::waits) == 2, "an event was not counted");
            static_cast<void>(world);
          }};
}

Program one_key_has_one_index() {
  auto slots = std::make_shared<std::array<KeySlot, 3>>();
  auto found = std::make_shared<std::array<int64_t, 3>>();
  const auto intern = [=](size_t thread, KeyHash key) {
    bool fresh = false;
    static_cast<void>(KeyTable(*slots).intern(key, &(*found)[thread], &fresh));
  };
  return {{[=] {
             intern(0, {1, 2});
           },
           [=] {
             intern(1, {1, 2});
           },
           [=] {
             intern(2, {1, 3});
           }},
          {},
          [=] { explorer().require((*found)[0] == (*found)[1] && (*found)[0] != (*found)[2], "keys got mixed up"); }};
}

Program a_value_is_built_once_for_all() {
  struct Numbers {
    int64_t first = 0;
  };
  auto lazy = std::make_shared<std::unique_ptr<Lazy<Numbers>>>();
  const auto get = [=] {
    const auto build = [] {
      Numbers numbers;
      numbers.first = 5;
      return numbers;
    };
    explorer().require((*lazy)->get(build).first == 5, "half a value");
  };
  return {{get, get}, [=] { *lazy = std::make_unique<Lazy<Numbers>>(); }, {}};
}

Program two_begin_to_populate() {
  auto world = std::make_shared<World>(Shape{});
  const auto populate = [=] { static_cast<void>((*world)[0].populate()); };
  return {{populate, populate}, {}, [=] { (*world)[0].stop_populating(); }};
}

}  // namespace

void add_processes(std::vector<Scenario> *all) {
  all->push_back({"the last view frees the handle", {}, the_last_view_frees_the_handle});
  all->push_back({"a line of counters is handed over", {.exits = true}, a_line_of_counters_is_handed_over});
  all->push_back({"one key has one index", {}, one_key_has_one_index});
  all->push_back({"a value is built once for all", {.watch_all = true}, a_value_is_built_once_for_all});
  // Random, since what is made lies elsewhere in each execution.
  all->push_back({"two begin to populate",
                  {.executions = 5000, .watch_all = true, .random_seed = 20261130},
                  two_begin_to_populate});
}

}  // namespace weak
