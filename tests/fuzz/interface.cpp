#include "interface.hpp"

#include <unistd.h>

#include <array>

namespace ddpcache::fuzz {

std::span<const Interface::Call> Interface::calls() {
#define DC_CALL(function) {#function, &Interface::call_##function},
  static constexpr Call kCalls[] = {
#include "interface_calls.inc"
  };
#undef DC_CALL
  return kCalls;
}

std::map<std::string, uint64_t> &Interface::counts() {
  static std::map<std::string, uint64_t> *all = new std::map<std::string, uint64_t>;
  return *all;
}

void Interface::run() {
  for (int left = 200; left > 0 && !input_.empty(); --left) call_one();
  end();
}

void Interface::call_one() {
  const Call &call = calls()[input_.below(static_cast<uint32_t>(calls().size()))];
  ++counts()[call.name];
  (this->*call.call)();
}

void Interface::end() {
  for (dc_fill *fill : fills_) DC_MUST(dc_cache_fill_abort(fill) == DC_OK);
  for (dc_view *view : views_) dc_cache_view_release(view);
  for (dc_cache *cache : caches_) DC_MUST(dc_cache_close(cache) == DC_OK);
  for (dc_sampler *sampler : samplers_) dc_sampler_close(sampler);
  for (dc_permutation *permutation : permutations_) dc_permutation_close(permutation);
  for (void *memory : memory_) std::free(memory);
  for (const std::string &name : names_) dc_cache_unlink(name.c_str(), nullptr, nullptr);
  if (saves_left_ < 1) unlink(("/dev/shm/fuzz-" + std::to_string(getpid()) + ".file").c_str());
}

// Any that the headers name, but for the one that says that the library is wrong.
int32_t Interface::outcome(int32_t status) {
  DC_MUST(status >= DC_ERROR_SAMPLER_STATE && status <= DC_PRESENT && status != DC_ERROR_INTERNAL);
  DC_MUST(std::strcmp(dc_strerror(status), "unknown status") != 0);
  return status;
}

dc_view *Interface::view() {
  static dc_view nothing;
  nothing = {};
  return views_.empty() || rarely() ? &nothing : views_[input_.below(static_cast<uint32_t>(views_.size()))];
}

void Interface::keep_view(const dc_view &view) {
  DC_MUST(view.owner != nullptr && view.array_count >= 1 && view.data != nullptr);
  views_.push_back(reinterpret_cast<dc_view *>(memory(sizeof view, true)));
  *views_.back() = view;
}

void Interface::allocate(dc_fill *fill) {
  std::vector<dc_array> made = arrays();
  const char *structure = input_.below(4) ? nullptr : text(5'000);
  dc_array *given = rarely() ? nullptr : made.data();
  const uint32_t count = static_cast<uint32_t>(made.size());
  if (outcome(dc_cache_fill_allocate(fill, given, count, structure, error())) != DC_OK) return;
  for (const dc_array &array : made) {
    if (array.bytes > 0) std::memset(array.data, 7, array.bytes);
  }
}

int32_t Interface::loader(dc_fill *fill, int64_t index, void *user) {
  Interface &play = *static_cast<Interface *>(user);
  DC_MUST(dc_cache_fill_index(fill) == index);
  if (!play.rarely()) play.allocate(fill);
  if (play.rarely()) DC_MUST(dc_cache_fill_commit(fill) == DC_ERROR_STATE);
  if (play.rarely()) DC_MUST(dc_cache_fill_abort(fill) == DC_ERROR_STATE);
  if (play.depth_ < 2) {
    ++play.depth_;
    for (uint32_t calls = play.input_.below(3); calls > 0; --calls) play.call_one();
    --play.depth_;
  }
  return play.rarely() ? static_cast<int32_t>(play.input_.number()) : DC_LOADED;
}

int32_t Interface::progress(uint64_t done, uint64_t total, void *user) {
  Interface &play = *static_cast<Interface *>(user);
  DC_MUST(done <= total);
  if (play.depth_ < 2) {
    ++play.depth_;
    for (uint32_t calls = play.input_.below(2); calls > 0; --calls) play.call_one();
    --play.depth_;
  }
  return play.rarely();
}

}  // namespace ddpcache::fuzz
