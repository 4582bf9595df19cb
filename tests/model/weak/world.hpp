// A small cache and several handles on it, each as a client of its own, as the scenarios need them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cache.hpp"
#include "explorer.hpp"
#include "kernel.hpp"

namespace weak {

using ddpcache::Cache;

struct Shape {
  int clients = 2;
  int read_only = 0;  // clients more, which were attached read only
  bool droppable = false;
  bool keyed = false;
  bool races = false;  // the bytes of samples are not watched: a check reads what others may be writing
  int64_t length = 2;
  uint64_t steps = 1;  // of one extent each
  uint64_t sample_bytes = 3500;
};

class World {
 public:
  explicit World(const Shape &shape);
  ~World();
  World(const World &) = delete;
  World &operator=(const World &) = delete;

  Cache &operator[](int client) { return *clients_[static_cast<size_t>(client)]; }
  // Thread `number` has counted for this client already, so that it has its line of counters.
  void prepare_thread(int number, int client);
  // A sample was stored, and removed again.
  void use_room(int64_t index);
  // Stores a sample before the exploration.
  void store(int64_t index, int client = 0);
  // A claim without memory that stays.
  void claim(int64_t index, int client);
  void claim_memory(int64_t index, int client);
  // Its words are used only by who knows that it is reserved.
  void guard_steps();
  void clear_guards();
  // The process has closed its descriptor, and goes on.
  void lose_lock(int client);
  // It dies while a thread runs; `revive` undoes that, before the next execution.
  void die(int client);
  void revive(int client);
  // Takes its record away, as if it had never registered, and as a child after a fork.
  void unregister(int client);
  void make_child(int client);
  // And one whose fork did not come by the handlers, so that it opens the file anew at its first use.
  void bypass_handlers(int client);
  // As if nobody had ever used its record, and those behind it.
  void forget_record(int client);
  // Its descriptor is not there any more.
  void close_descriptor(int client);
  // All names that its readers have are taken.
  void take_reader_names(int client);
  void rewrite(int64_t index, uint64_t value);
  // As when every word is to be searched anew.
  // The round goes on from word `begin`; it is one of `ahead` events from now.
  void forget_searches(uint64_t begin = 0, uint64_t ahead = 0);
  bool search_has_failed();
  int free_extents();
  uint64_t start_time(int client);
  // Where the data of a stored sample are, as fillers see them.
  const uint8_t *sample(int64_t index);

 private:
  std::string name_;
  std::vector<Cache *> clients_;
  std::vector<ddpcache::Fill *> claims_;  // for good
};

// What threads do. Each gives the status code.
int32_t fill(Cache &cache, int64_t index, uint64_t value = 1, const std::function<void()> &while_open = {});
// `write` writes the data.
int32_t fill_words(Cache &cache, int64_t index, const std::function<void()> &write);
// Begins and writes it, and gives it up.
void abort_fill(Cache &cache, int64_t index);
// The same without memory.
void abort_claim(Cache &cache, int64_t index);
// Claims and writes, and does no more.
void claim_and_write(Cache &cache, int64_t index);
void look_and_keep(Cache &cache, int64_t index);
bool is_noted(Cache &cache, int64_t index);
bool is_named(Cache &cache, int64_t index);
// The value of the sample, checked to be whole; 0 where there is none.
// Registers it; false where it could not.
bool enroll(Cache &cache);
// What it does at its end to its record.
void leave(Cache &cache);
uint64_t look(Cache &cache, int64_t index);
int32_t load(Cache &cache, int64_t index, bool *loaded = nullptr);

}  // namespace weak
