// Every function of the C interface with any arguments that the headers allow a caller to make: wrong numbers, NULL,
// structs of any size, live objects in any order. What a caller must never do (a handle that is no more, memory that is
// smaller than he says) is not done.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "ddpcache/ddpcache.h"
#include "input.hpp"

namespace ddpcache::fuzz {

class Interface {
 public:
  explicit Interface(Input &input) : input_(input) {}
  Interface(const Interface &) = delete;
  Interface &operator=(const Interface &) = delete;

  // Calls functions as the input says, and at last ends every object that is left.
  void run();

  struct Call {
    const char *name;
    void (Interface::*call)();
  };
  // All of them, sorted.
  static std::span<const Call> calls();
  // How often each has been called so far.
  static std::map<std::string, uint64_t> &counts();

 private:
  void call_one();
  void end();

  // In interface_values.cpp: what arguments are made of.
  bool rarely() { return input_.below(16) == 15; }
  const char *name();
  const char *directory();
  const char *text(uint32_t bytes_max);
  const char *path();
  int64_t index() { return rarely() ? input_.signed_number() : input_.below(40); }
  int64_t timeout_ns() { return rarely() ? -1 : input_.byte() * int64_t{100}; }
  int64_t count_below(uint32_t most) { return rarely() ? -1 : int64_t{input_.below(most)}; }
  uint64_t room() { return input_.below(8) ? input_.byte() : input_.take<uint16_t>(); }
  std::span<const uint8_t> key();
  dc_error *error();
  // Memory of exactly this size until the end; NULL now and then.
  uint8_t *memory(uint64_t bytes, bool never_null = false);
  template <typename T>
  T *output() {
    return reinterpret_cast<T *>(memory(sizeof(T)));
  }
  template <typename T>
  T *array_of(uint64_t count) {
    return reinterpret_cast<T *>(memory(count * sizeof(T)));
  }
  int64_t *indices(int64_t count);
  // A struct that grows, with a size that is mostly right.
  uint8_t *sized(uint32_t right_size);
  dc_cache_options *cache_options();
  dc_sampler_options *sampler_options();
  std::vector<dc_array> arrays();

  dc_cache *cache() { return any_of(caches_); }
  dc_fill *fill() { return any_of(fills_); }
  dc_sampler *sampler() { return any_of(samplers_); }
  dc_permutation *permutation() { return any_of(permutations_); }
  dc_view *view();
  template <typename T>
  T *any_of(const std::vector<T *> &objects) {
    return objects.empty() || rarely() ? nullptr : objects[input_.below(static_cast<uint32_t>(objects.size()))];
  }
  template <typename T>
  static void forget(std::vector<T *> *objects, T *object) {
    std::erase(*objects, object);
  }
  void keep_cache(dc_cache *cache, const char *name) {
    caches_.push_back(cache);
    names_.emplace_back(name);
  }
  void keep_view(const dc_view &view);
  bool may_open() { return opens_left_ > 0 && opens_left_-- > 0; }

  static int32_t loader(dc_fill *fill, int64_t index, void *user);
  static int32_t progress(uint64_t done, uint64_t total, void *user);
  void allocate(dc_fill *fill);
  template <typename Take>
  void fill_view(Take &&take) {
    dc_view view = {};
    if (outcome(take(rarely() ? nullptr : &view)) == DC_OK) keep_view(view);
  }
  static int32_t outcome(int32_t status);

#define DC_CALL(function) void call_##function();
#include "interface_calls.inc"
#undef DC_CALL

  Input &input_;
  std::vector<dc_cache *> caches_;
  std::vector<dc_fill *> fills_;
  std::vector<dc_sampler *> samplers_;
  std::vector<dc_permutation *> permutations_;
  std::vector<dc_view *> views_;
  std::vector<void *> memory_;
  std::vector<std::string> names_;  // of caches that were made, or may have been
  int opens_left_ = 3;
  int saves_left_ = 1;
  int depth_ = 0;
};

}  // namespace ddpcache::fuzz
