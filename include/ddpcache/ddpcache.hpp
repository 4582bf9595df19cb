// ddpcache/ddpcache.hpp: the C interface as C++17 objects. Header only; link the same library.
//
// What the C headers say of threads, processes, blocking and errors holds here too. Every object owns its handle, moves
// and does not copy. A status below zero is thrown as ddpcache::Error with the library's sentence; expected outcomes
// are values (an empty optional, a bool) or exceptions of their own (Full, Busy).
//
//     ddpcache::CacheOptions options(60000);
//     ddpcache::Cache cache("digits", "digits v1", options);
//     ddpcache::View view = cache.load(index, [](ddpcache::Filling &filling, std::int64_t index) {
//       std::uint8_t *pixels = filling.allocate<std::uint8_t>({8, 8});
//       decode(index, pixels);
//     });
//     use(view.array(0).values<std::uint8_t>());
#ifndef DDPCACHE_DDPCACHE_HPP
#define DDPCACHE_DDPCACHE_HPP

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ddpcache/ddpcache.h"

namespace ddpcache {
// An inline namespace of its own keeps these names apart from the library's own when it is linked statically.
inline namespace cxx {

/// An error of the library: its status and a full sentence.
class Error : public std::runtime_error {
 public:
  Error(std::int32_t status, const std::string &message) : std::runtime_error(message), status_(status) {}
  explicit Error(std::int32_t status) : Error(status, dc_strerror(status)) {}
  /// One of dc_status.
  std::int32_t status() const noexcept { return status_; }

 private:
  std::int32_t status_;
};

/// DC_FULL: the cache has no room for the sample.
class Full : public Error {
 public:
  Full() : Error(DC_FULL) {}
};

/// DC_BUSY: another client was still filling the sample at the deadline.
class Busy : public Error {
 public:
  Busy() : Error(DC_BUSY) {}
};

namespace detail {

inline std::int32_t check(std::int32_t status) {
  if (status < 0) throw Error(status);
  return status;
}

inline std::int32_t check(std::int32_t status, const dc_error &error) {
  if (status < 0) throw Error(status, error.message);
  return status;
}

/// Repeats a call that waits, with the time that is left, for as long as signals interrupt it.
template <typename Call>
std::int32_t until_uninterrupted(std::chrono::nanoseconds timeout, Call &&call) {
  const auto begin = std::chrono::steady_clock::now();
  std::int32_t status = call(timeout.count());
  while (status == DC_INTERRUPTED) {
    const std::chrono::nanoseconds left = timeout - (std::chrono::steady_clock::now() - begin);
    status = call(std::max<std::int64_t>(left.count(), 0));
  }
  return status;
}

inline const char *text_or_null(const std::string &text) { return text.empty() ? nullptr : text.c_str(); }

}  // namespace detail

/// The DLPack type code and bits of an arithmetic C++ type.
template <typename T>
struct DType {
  static_assert(std::is_arithmetic_v<T>, "give dtype_code and dtype_bits of a dc_array yourself");
  static constexpr std::uint8_t code = std::is_same_v<T, bool>       ? 6
                                       : std::is_floating_point_v<T> ? 2
                                       : std::is_signed_v<T>         ? 0
                                                                     : 1;
  static constexpr std::uint8_t bits = sizeof(T) * 8;
};

/// Describes one array of a sample: C order, outermost dimension first. Throws Error for more than 8 dimensions or a
/// name that is too long.
template <typename T>
dc_array describe(const std::vector<std::int64_t> &shape, const std::string &name = "") {
  dc_array array = {};
  if (shape.size() > DC_DIMENSIONS_MAX || name.size() >= sizeof array.name) {
    throw Error(DC_ERROR_RANGE, "an array has at most 8 dimensions and a name of at most 55 bytes, not " +
                                    std::to_string(shape.size()) + " and " + std::to_string(name.size()));
  }
  for (std::size_t d = 0; d < shape.size(); ++d) array.shape[d] = shape[d];
  array.dimensions = static_cast<std::uint32_t>(shape.size());
  array.dtype_code = DType<T>::code;
  array.dtype_bits = DType<T>::bits;
  array.dtype_lanes = 1;
  std::memcpy(array.name, name.data(), name.size());
  return array;
}

/// Elements of an array that somebody else owns. Valid as long as the view or fill that it came from.
template <typename T>
class Span {
 public:
  Span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
  T *data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  T *begin() const noexcept { return data_; }
  T *end() const noexcept { return data_ + size_; }
  T &operator[](std::size_t i) const noexcept { return data_[i]; }

 private:
  T *data_;
  std::size_t size_;
};

/// One array of a viewed sample, read only.
class Array {
 public:
  explicit Array(const dc_array &array) : array_(array) {}

  const std::uint8_t *data() const noexcept { return array_.data; }
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(array_.bytes); }
  std::vector<std::int64_t> shape() const { return {array_.shape, array_.shape + array_.dimensions}; }
  std::string name() const { return array_.name; }
  const dc_array &raw() const noexcept { return array_; }

  /// All elements in C order. Throws Error (DC_ERROR_RECORD) where they are of another type.
  template <typename T>
  Span<const T> values() const {
    if (array_.dtype_code != DType<T>::code || array_.dtype_bits != DType<T>::bits || array_.dtype_lanes != 1) {
      throw Error(DC_ERROR_RECORD, "the array has DLPack type code " + std::to_string(array_.dtype_code) + " of " +
                                       std::to_string(array_.dtype_bits) + " bits times " +
                                       std::to_string(array_.dtype_lanes) + " lanes");
    }
    return {reinterpret_cast<const T *>(array_.data), bytes() / sizeof(T)};
  }

 private:
  dc_array array_;
};

/// A look at a sample, without a copy. May outlive its cache.
class View {
 public:
  View() noexcept = default;
  explicit View(const dc_view &view) noexcept : view_(view) {}
  View(View &&other) noexcept : view_(std::exchange(other.view_, dc_view{})) {}
  View &operator=(View &&other) noexcept {
    std::swap(view_, other.view_);
    return *this;
  }
  ~View() { dc_cache_view_release(&view_); }

  std::int64_t index() const noexcept { return view_.index; }
  std::uint32_t array_count() const noexcept { return view_.array_count; }
  /// The first array's bytes.
  const std::uint8_t *data() const noexcept { return view_.data; }
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(view_.bytes); }

  Array array(std::uint32_t number) const {
    dc_array array;
    detail::check(dc_view_array(&view_, number, &array));
    return Array(array);
  }
  /// The structure string; empty where there is none.
  std::string structure() const {
    std::uint64_t length = 0;
    const char *text = dc_view_structure(&view_, &length);
    return text ? std::string(text, static_cast<std::size_t>(length)) : std::string();
  }

 private:
  dc_view view_ = {};
};

/// What a loader is given: the memory for its sample, once it knows the shape.
class Filling {
 public:
  explicit Filling(dc_fill *fill) noexcept : fill_(fill) {}

  std::int64_t index() const noexcept { return dc_cache_fill_index(fill_); }

  /// Memory for one array of T. Throws Full where the cache has no room, Error where the sample is too large.
  template <typename T>
  T *allocate(const std::vector<std::int64_t> &shape) {
    dc_array array = describe<T>(shape);
    allocate(&array, 1);
    return reinterpret_cast<T *>(array.data);
  }

  /// Memory for several arrays, whose `data` it sets.
  void allocate(dc_array *arrays, std::size_t count, const std::string &structure = "") {
    dc_error error;
    const std::int32_t status = dc_cache_fill_allocate(fill_, arrays, static_cast<std::uint32_t>(count),
                                                       detail::text_or_null(structure), &error);
    if (detail::check(status, error) == DC_FULL) throw Full();
  }

 protected:
  dc_fill *fill_;
};

/// A claimed entry. Aborted unless committed; used and ended on the thread that began it.
class Fill : public Filling {
 public:
  explicit Fill(dc_fill *fill) noexcept : Filling(fill) {}
  Fill(Fill &&other) noexcept : Filling(std::exchange(other.fill_, nullptr)) {}
  Fill &operator=(Fill &&other) noexcept {
    std::swap(fill_, other.fill_);
    return *this;
  }
  ~Fill() { dc_cache_fill_abort(fill_); }

  /// Publishes the sample. After Error DC_ERROR_LOST it is gone; after any other it can still be committed.
  void commit() {
    const std::int32_t status = dc_cache_fill_commit(fill_);
    if (status == DC_OK || status == DC_ERROR_LOST) fill_ = nullptr;
    detail::check(status);
  }
};

/// dc_cache_options with its defaults set.
struct CacheOptions : dc_cache_options {
  explicit CacheOptions(std::int64_t entries) : dc_cache_options() {
    dc_cache_options_init(this, sizeof(dc_cache_options));
    length = entries;
  }
};

/// How long load and begin_fill wait for another filler where nothing else is said.
inline constexpr std::chrono::nanoseconds default_timeout = std::chrono::seconds(60);

/// A process's handle on a cache.
class Cache {
 public:
  /// Opens or creates; see dc_cache_open.
  Cache(const std::string &name, const std::string &fingerprint, const CacheOptions &options,
        const std::string &directory = "") {
    dc_error error;
    detail::check(dc_cache_open(name.c_str(), detail::text_or_null(directory), detail::text_or_null(fingerprint),
                                &options, &cache_, &error),
                  error);
  }

  /// Attaches to a cache that is in use or kept; see dc_cache_attach.
  static Cache attach(const std::string &name, const std::string &directory = "",
                      std::chrono::nanoseconds timeout = std::chrono::seconds(10)) {
    Cache cache;
    dc_error error;
    detail::check(
        dc_cache_attach(name.c_str(), detail::text_or_null(directory), timeout.count(), &cache.cache_, &error), error);
    return cache;
  }

  Cache(Cache &&other) noexcept : cache_(std::exchange(other.cache_, nullptr)) {}
  Cache &operator=(Cache &&other) noexcept {
    std::swap(cache_, other.cache_);
    return *this;
  }
  ~Cache() { dc_cache_close(cache_); }

  dc_cache *raw() const noexcept { return cache_; }

  /// A look at a sample, or nothing where it is not in the cache.
  std::optional<View> view(std::int64_t index) {
    dc_view view;
    if (detail::check(dc_cache_view(cache_, index, &view)) != DC_OK) return std::nullopt;
    return View(view);
  }

  bool contains(std::int64_t index) const { return detail::check(dc_cache_contains(cache_, index)) == DC_OK; }

  /// A look at a sample, which `loader(Filling &, int64_t index)` decodes first where nobody has.
  ///
  /// What the loader throws passes through, with the entry given back. Throws Full, Busy at the deadline, and Error.
  template <typename Loader>
  View load(std::int64_t index, Loader &&loader, std::chrono::nanoseconds timeout = default_timeout) {
    struct Call {
      std::remove_reference_t<Loader> &loader;
      std::exception_ptr thrown;
    } call{loader, nullptr};
    const dc_loader trampoline = [](dc_fill *fill, std::int64_t wanted, void *user) -> std::int32_t {
      Call &own = *static_cast<Call *>(user);
      try {
        Filling filling(fill);
        own.loader(filling, wanted);
        return DC_LOADED;
      } catch (...) {
        own.thrown = std::current_exception();
        return 0;
      }
    };
    dc_view view;
    const std::int32_t status = detail::until_uninterrupted(
        timeout, [&](std::int64_t left_ns) { return dc_cache_load(cache_, index, trampoline, &call, left_ns, &view); });
    if (call.thrown) std::rethrow_exception(call.thrown);
    if (status == DC_FULL) throw Full();
    if (status == DC_BUSY) throw Busy();
    detail::check(status);
    return View(view);
  }

  /// Claims an empty entry; nothing where the sample is in the cache already. Throws Busy at the deadline.
  std::optional<Fill> begin_fill(std::int64_t index, std::chrono::nanoseconds timeout = default_timeout) {
    dc_fill *fill = nullptr;
    switch (detail::check(detail::until_uninterrupted(
        timeout, [&](std::int64_t left_ns) { return dc_cache_fill_begin(cache_, index, left_ns, &fill); }))) {
      case DC_PRESENT: return std::nullopt;
      case DC_FULL: throw Full();
      case DC_OK: return Fill(fill);
      default: throw Busy();
    }
  }

  /// Copies one array of many samples of equal size; see dc_cache_read_batch. The statuses, one a sample.
  std::vector<std::int32_t> read_batch(const std::vector<std::int64_t> &indices, std::uint8_t *buffer,
                                       std::uint64_t sample_bytes, std::uint32_t threads = 1,
                                       std::uint32_t number = 0) {
    std::vector<std::int32_t> statuses(indices.size(), DC_OK);
    const std::int32_t status = dc_cache_read_batch(cache_, indices.data(), static_cast<std::int64_t>(indices.size()),
                                                    number, buffer, sample_bytes, statuses.data(), threads);
    // A status that no sample has is the whole call's.
    if (status < 0 && std::find(statuses.begin(), statuses.end(), status) == statuses.end()) throw Error(status);
    return statuses;
  }

  /// Removes a sample from a droppable cache; false where it was not there.
  bool remove(std::int64_t index) { return detail::check(dc_cache_remove(cache_, index)) == DC_OK; }
  /// Removes all samples of a droppable cache; how many.
  std::int64_t clear() {
    std::int64_t removed = 0;
    detail::check(dc_cache_clear(cache_, &removed));
    return removed;
  }

  dc_cache_info info() const {
    dc_cache_info info = {};
    info.struct_size = sizeof info;
    detail::check(dc_cache_info_get(cache_, &info));
    return info;
  }
  dc_cache_stats stats(dc_stats_scope scope = DC_STATS_CACHE) const {
    dc_cache_stats stats = {};
    stats.struct_size = sizeof stats;
    detail::check(dc_cache_stats_get(cache_, scope, &stats));
    return stats;
  }
  /// Throws Error DC_ERROR_DAMAGED with the first broken invariant.
  dc_cache_report check() const {
    dc_cache_report report = {};
    report.struct_size = sizeof report;
    dc_error error;
    detail::check(dc_cache_check(cache_, &report, &error), error);
    return report;
  }

  /// False where there was none.
  static bool unlink(const std::string &name, const std::string &directory = "") {
    dc_error error;
    const std::int32_t status = dc_cache_unlink(name.c_str(), detail::text_or_null(directory), &error);
    if (status == DC_ERROR_NOT_FOUND) return false;
    detail::check(status, error);
    return true;
  }

 private:
  Cache() = default;

  dc_cache *cache_ = nullptr;
};

/// dc_sampler_options with its defaults set.
struct SamplerOptions : dc_sampler_options {
  explicit SamplerOptions(std::int64_t samples) : dc_sampler_options() {
    dc_sampler_options_init(this, sizeof(dc_sampler_options));
    length = samples;
  }

  /// Takes node and rank from the launcher's variables; see dc_topology_detect.
  SamplerOptions &detect_topology() {
    dc_topology topology = {};
    topology.struct_size = sizeof topology;
    dc_error error;
    detail::check(dc_topology_detect(&topology, &error), error);
    node = topology.node;
    nodes = topology.nodes;
    local_rank = topology.local_rank;
    local_size = topology.local_size;
    return *this;
  }
};

/// The sampler of one rank.
class Sampler {
 public:
  explicit Sampler(const SamplerOptions &options) {
    dc_error error;
    detail::check(dc_sampler_open(&options, &sampler_, &error), error);
  }
  Sampler(Sampler &&other) noexcept : sampler_(std::exchange(other.sampler_, nullptr)) {}
  Sampler &operator=(Sampler &&other) noexcept {
    std::swap(sampler_, other.sampler_);
    return *this;
  }
  ~Sampler() { dc_sampler_close(sampler_); }

  dc_sampler *raw() const noexcept { return sampler_; }

  void set_epoch(std::int64_t epoch) {
    dc_error error;
    detail::check(dc_sampler_set_epoch(sampler_, epoch, &error), error);
  }
  std::int64_t size() const {
    std::int64_t size = 0;
    detail::check(dc_sampler_size(sampler_, &size));
    return size;
  }
  /// The leading samples that are no repeats: what a metric should count.
  std::int64_t real_size() const {
    std::int64_t size = 0;
    dc_error error;
    detail::check(dc_sampler_real_size(sampler_, &size, &error), error);
    return size;
  }
  /// The next index of the epoch, or nothing at its end.
  std::optional<std::int64_t> next() {
    std::int64_t index = 0;
    if (detail::check(dc_sampler_next(sampler_, &index)) == DC_END) return std::nullopt;
    return index;
  }
  /// `count` indices from `position` on.
  std::vector<std::int64_t> read(std::int64_t position, std::int64_t count) const {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
    dc_error error;
    detail::check(dc_sampler_read(sampler_, position, indices.data(), count, &error), error);
    return indices;
  }
  /// How many samples this node holds.
  std::int64_t shard_size() const {
    std::int64_t size = 0;
    detail::check(dc_sampler_shard_size(sampler_, &size));
    return size;
  }
  /// `count` of the indices that this node holds, from `position` on.
  std::vector<std::int64_t> shard(std::int64_t position, std::int64_t count) const {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
    dc_error error;
    detail::check(dc_sampler_shard_read(sampler_, position, indices.data(), count, &error), error);
    return indices;
  }
  /// Whether this node holds the sample in this epoch or held it in the last; what it does not keep may be dropped.
  bool keeps(std::int64_t index) const { return detail::check(dc_sampler_keeps(sampler_, index)) == DC_OK; }
  /// The state of an epoch in which each rank was trained on `consumed` samples since it began or was resumed.
  std::vector<std::uint8_t> save_state(std::int64_t consumed) const {
    std::vector<std::uint8_t> state(DC_SAMPLER_STATE_BYTES_MAX);
    std::uint64_t size = 0;
    dc_error error;
    detail::check(dc_sampler_state_save(sampler_, consumed, state.data(), state.size(), &size, &error), error);
    state.resize(size);
    return state;
  }
  /// Goes on where a saved epoch was stopped, under this layout; see dc_sampler_state_load.
  void load_state(const std::vector<std::uint8_t> &state) {
    dc_error error;
    detail::check(dc_sampler_state_load(sampler_, state.data(), state.size(), &error), error);
  }

 private:
  dc_sampler *sampler_ = nullptr;
};

}  // namespace cxx
}  // namespace ddpcache

#endif
