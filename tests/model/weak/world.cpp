#include "world.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "locks.hpp"

namespace weak {
namespace {

using namespace ddpcache;

void must(const Status &status, const char *what) {
  if (status.ok()) return;
  std::fprintf(stderr, "weak: %s: %d %s\n", what, status.code(), status.message().c_str());
  std::abort();
}

// Of this program's own, so that it waits for no other's locks.
const std::string &directory() {
  static const struct Own {
    std::string path = "/dev/shm/weak-XXXXXX";
    Own() {
      if (!mkdtemp(path.data())) std::abort();
    }
    ~Own() { std::filesystem::remove_all(path); }
  } own;
  return own.path;
}

dc_array bytes_of(uint64_t bytes) {
  dc_array array = {};
  array.dtype_code = 1;  // unsigned
  array.dtype_bits = 8;
  array.dtype_lanes = 1;
  array.dimensions = 1;
  array.shape[0] = static_cast<int64_t>(bytes);
  return array;
}

// A sample is one number, at both ends.
void write_sample(uint8_t *data, uint64_t bytes, uint64_t value) {
  auto *numbers = reinterpret_cast<uint64_t *>(data);
  numbers[0] = value;
  numbers[bytes / 8 - 1] = value;
}

// Who is explored waits for ever, in no time; who looks at what was left waits for nobody.
int64_t patience() { return explorer().running() < 0 ? 0 : 1'000'000'000'000; }

}  // namespace

World::World(const Shape &shape) {
  static int last = 0;
  name_ = "weak-" + std::to_string(getpid()) + "-" + std::to_string(++last);
  dc_cache_options options = {};
  options.struct_size = sizeof options;
  options.length = shape.length;
  options.capacity_bytes = shape.steps * 4096;
  options.sample_bytes = shape.sample_bytes;
  options.clients_max = 4;
  options.droppable = shape.droppable;
  options.keyed = shape.keyed;
  options.checksums = DC_CHECKSUMS_OFF;
  options.timeout_ns = 10'000'000'000;
  explorer().clear_memory();
  revive_all();
  clients_.resize(static_cast<size_t>(shape.clients + shape.read_only));
  must(Cache::open(name_.c_str(), directory().c_str(), nullptr, options, &clients_[0]), "open");
  for (int i = 1; i < shape.clients; ++i)
    must(Cache::attach(name_.c_str(), directory().c_str(), 0, &clients_[i]), "attach");
  for (int i = shape.clients; i < shape.clients + shape.read_only; ++i) {
    must(Cache::attach_read_only(name_.c_str(), directory().c_str(), 0, &clients_[i]), "attach read only");
  }
  Segment &first = clients_[0]->segment_;
  for (Cache *cache : clients_) {
    const Segment &segment = cache->segment_;
    explorer().alias(segment.words_, first.layout.file_bytes, first.words_);
    explorer().alias(segment.readable_.data(), first.layout.file_bytes, first.words_);
  }
  if (!shape.races) explorer().watch(first.arena(), first.layout.arena_bytes());
}

World::~World() {
  for (Cache *cache : clients_) static_cast<void>(cache->close());
}

void World::prepare_thread(int number, int client) {
  explorer().prepare_thread(number, [&] { (*this)[client].tally(Counter::misses, 0); });
}

void World::store(int64_t index, int client) { must(Status(fill((*this)[client], index)), "fill"); }

void World::claim(int64_t index, int client) {
  Fill *fill = nullptr;
  must((*this)[client].begin_fill(index, 0, &fill), "begin_fill");
  claims_.push_back(fill);
}

void World::claim_memory(int64_t index, int client) {
  claim(index, client);
  dc_array array = bytes_of((*this)[client].segment_.header.geometry.sample_bytes);
  must(claims_.back()->allocate(&array, 1, nullptr), "allocate");
}

void World::clear_guards() { explorer().clear_guards(); }

void World::guard_steps() {
  const Segment &segment = (*this)[0].segment_;
  for (uint32_t step = 0; step < segment.layout.steps; ++step) {
    const uint64_t offset = segment.step_offset(step);
    explorer().guard(offset, segment.words_ + offset, segment.layout.step_bytes);
  }
}

void World::lose_lock(int client) {
  Clients &clients = (*this)[client].clients_;
  unlock(clients.file_.get(), client_byte(clients.life().client));
}

void World::die(int client) {
  Clients &clients = (*this)[client].clients_;
  unlock(clients.file_.get(), client_byte(clients.life().client));
  declare_dead(clients.record()->start_time.load(std::memory_order_relaxed));
}

void World::revive(int client) {
  Clients &clients = (*this)[client].clients_;
  static_cast<void>(lock_exclusive(clients.file_.get(), client_byte(clients.life().client)));
  revive_all();
}

void World::unregister(int client) {
  Clients &clients = (*this)[client].clients_;
  leave((*this)[client]);
  clients.process_->record.store(nullptr);
}

void World::make_child(int client) {
  unregister(client);
  Clients &clients = (*this)[client].clients_;
  clients.process_->generation.store(0);
  explorer().watch(&clients.process_->life, sizeof clients.process_->life);
}

void World::bypass_handlers(int client) {
  Clients &clients = (*this)[client].clients_;
  clients.process_->descriptor_ready.store(0);
  explorer().watch(&clients.file_, sizeof clients.file_);
}

void World::forget_record(int client) {
  const uint32_t number = (*this)[client].clients_.life().client;
  unregister(client);
  const Segment &segment = (*this)[client].segment_;
  std::memset(static_cast<void *>(&segment.client(number)), 0, sizeof(ClientRecord));
  segment.control().clients_used.store(number);
}

void World::close_descriptor(int client) {
  lose_lock(client);
  (*this)[client].clients_.file_.reset();
}

void World::take_reader_names(int client) {
  for (auto &slots : (*this)[client].clients_.process_->reader_slots) slots.store(UINT64_MAX);
}

void World::rewrite(int64_t index, uint64_t value) {
  write_sample(const_cast<uint8_t *>(sample(index)), (*this)[0].segment_.header.geometry.sample_bytes, value);
}

void World::use_room(int64_t index) {
  store(index);
  static_cast<void>((*this)[0].remove(index));
}

void World::forget_searches(uint64_t begin, uint64_t ahead) {
  Extents &extents = (*this)[0].extents_;
  ClassLine &line = (*this)[0].segment_.class_line(0);
  line.round_start.store(0);
  line.round_events.store(extents.events(line) + ahead);
  line.round_words.store(extents.steps_of(0) * (*this)[0].segment_.layout.classes[0].slots);
  line.freed_name.store(0);
  line.searched_words.store(begin);
  line.failed_freed.store(0);
}

bool World::search_has_failed() {
  const ClassLine &line = (*this)[0].segment_.class_line(0);
  return line.failed_freed.load() == (*this)[0].extents_.events(line) + 1;
}

int World::free_extents() {
  const Segment &segment = (*this)[0].segment_;
  int free = 0;
  for (uint32_t step = 0; step < segment.layout.steps; ++step) {
    Extent extent;
    if (!segment.find_extent({step, 0}, &extent)) continue;
    for (uint32_t slot = 0; slot < segment.layout.classes[extent.size_class].slots; ++slot) {
      const ExtentWord word(segment.extent_word({step, slot}).load());
      const EntryWord entry(segment.entry(word.index()).load());
      free += word.never_owned() || entry.state() == State::empty || entry.generation() != word.generation();
    }
  }
  return free;
}

const uint8_t *World::sample(int64_t index) {
  dc_view view;
  must((*this)[0].view(index, &view), "view");
  const Segment &segment = (*this)[0].segment_;
  const uint8_t *data = segment.words_ + (view.data - segment.readable_.data());
  Cache::release(&view);
  return data;
}

uint64_t World::start_time(int client) { return (*this)[client].clients_.record()->start_time.load(); }

int32_t fill(Cache &cache, int64_t index, uint64_t value, const std::function<void()> &while_open) {
  Fill *fill = nullptr;
  Status status = cache.begin_fill(index, patience(), &fill);
  if (!status.ok()) return status.code();
  dc_array array = bytes_of(cache.segment_.header.geometry.sample_bytes);
  status = fill->allocate(&array, 1, nullptr);
  if (status.ok()) {
    write_sample(array.data, array.bytes, value);
    if (while_open) while_open();
    status = fill->commit();
  } else {
    fill->abort();
  }
  delete fill;
  return status.code();
}

int32_t fill_words(Cache &cache, int64_t index, const std::function<void()> &write) {
  Fill *fill = nullptr;
  Status status = cache.begin_fill(index, patience(), &fill);
  if (!status.ok()) return status.code();
  dc_array array = bytes_of(cache.segment_.header.geometry.sample_bytes);
  status = fill->allocate(&array, 1, nullptr);
  if (status.ok()) {
    write();
    status = fill->commit();
  } else {
    fill->abort();
  }
  delete fill;
  return status.code();
}

void abort_fill(Cache &cache, int64_t index) {
  Fill *fill = nullptr;
  if (!cache.begin_fill(index, 0, &fill).ok()) return;
  dc_array array = bytes_of(cache.segment_.header.geometry.sample_bytes);
  if (fill->allocate(&array, 1, nullptr).ok()) write_sample(array.data, array.bytes, 7);
  fill->abort();
  delete fill;
}

void abort_claim(Cache &cache, int64_t index) {
  Fill *fill = nullptr;
  if (!cache.begin_fill(index, patience(), &fill).ok()) return;
  fill->abort();
  delete fill;
}

void claim_and_write(Cache &cache, int64_t index) {
  Fill *fill = nullptr;
  if (!cache.begin_fill(index, patience(), &fill).ok()) return;
  dc_array array = bytes_of(cache.segment_.header.geometry.sample_bytes);
  if (fill->allocate(&array, 1, nullptr).ok()) write_sample(array.data, array.bytes, 7);
}

void look_and_keep(Cache &cache, int64_t index) {
  dc_view view;
  if (cache.view(index, &view).ok()) explorer().require(view.data[0] != 0, "a sample without bytes");
}

bool is_noted(Cache &cache, int64_t index) {
  for (const FillNote &note : cache.clients_.record()->fills) {
    if (note.index_plus_one.load(std::memory_order_relaxed) == static_cast<uint64_t>(index) + 1) return true;
  }
  return false;
}

bool is_named(Cache &cache, int64_t index) {
  for (const Word &name : cache.clients_.record()->names) {
    const uint64_t named = name.load(std::memory_order_relaxed);
    if (named == 0) continue;
    const ExtentWord owned(cache.segment_.extent_word(place_of(named)).load(std::memory_order_relaxed));
    if (owned.index() == index) return true;
  }
  return false;
}

bool enroll(Cache &cache) { return cache.clients_.register_client().ok(); }

void leave(Cache &cache) { cache.clients_.leave_record(); }

uint64_t look(Cache &cache, int64_t index) {
  dc_view view;
  if (!cache.view(index, &view).ok()) return 0;
  const auto *numbers = static_cast<const uint64_t *>(static_cast<const void *>(view.data));
  const uint64_t first = numbers[0], last = numbers[view.bytes / 8 - 1];
  explorer().require(first == last, "a sample of two halves");
  Cache::release(&view);
  return first;
}

int32_t load(Cache &cache, int64_t index, bool *loaded) {
  const auto loader = [](dc_fill *handle, int64_t at, void *user) -> int32_t {
    auto *fill = reinterpret_cast<Fill *>(handle);
    dc_array array = bytes_of(3500);
    if (!fill->allocate(&array, 1, nullptr).ok()) return 0;
    write_sample(array.data, array.bytes, static_cast<uint64_t>(at) + 1);
    *static_cast<bool *>(user) = true;
    return DC_LOADED;
  };
  bool unused = false;
  dc_view view;
  const Status status = cache.load(index, loader, loaded ? loaded : &unused, patience(), &view);
  if (status.ok()) Cache::release(&view);
  return status.code();
}

}  // namespace weak
