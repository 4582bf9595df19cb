// ddpcache/cache.hpp: a cache as a C++ object.
#ifndef DDPCACHE_CACHE_HPP
#define DDPCACHE_CACHE_HPP

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ddpcache/batch.h"
#include "ddpcache/batch.hpp"
#include "ddpcache/cache.h"
#include "ddpcache/error.hpp"
#include "ddpcache/keys.h"
#include "ddpcache/report.h"
#include "ddpcache/sample.hpp"
#include "ddpcache/saving.h"

namespace ddpcache {
inline namespace DDPCACHE_CXX {

/// dc_cache_options with its defaults set.
struct CacheOptions : dc_cache_options {
  explicit CacheOptions(std::int64_t entries) : dc_cache_options() {
    dc_cache_options_init(this, sizeof(dc_cache_options));
    length = entries;
  }
};

/// How long load and begin_fill wait for another filler where nothing else is said.
inline constexpr std::chrono::nanoseconds default_timeout = std::chrono::seconds(60);

/// What dc_cache_estimate gives.
struct Estimate {
  std::uint64_t capacity_bytes;  ///< to ask for
  std::uint64_t total_bytes;     ///< that the cache then takes in all
};

/// Hears how far a save or restore has come: bytes done, bytes in all. False stops it. See dc_progress.
using Progress = std::function<bool(std::uint64_t, std::uint64_t)>;

namespace detail {

/// What a progress that throws leaves for the caller of the call that it stopped.
struct ProgressCall {
  const Progress &progress;
  std::exception_ptr thrown = nullptr;

  static std::int32_t run(std::uint64_t done, std::uint64_t total, void *user) {
    ProgressCall &own = *static_cast<ProgressCall *>(user);
    bool go_on = false;
    return completes(own.thrown, [&] { go_on = own.progress(done, total); }) && go_on ? 0 : 1;
  }
  dc_progress function() const { return progress ? &run : nullptr; }
};

}  // namespace detail

/// A process's handle on a cache.
class Cache {
 public:
  /// Opens or creates; see dc_cache_open.
  Cache(const std::string &name, const std::string &fingerprint, const CacheOptions &options,
        const std::string &directory = "")
      : Cache(try_open(name, fingerprint, options, directory).value()) {}
  /// The same without throwing.
  static Result<Cache> try_open(const std::string &name, const std::string &fingerprint, const CacheOptions &options,
                                const std::string &directory = "") {
    return made([&](dc_cache **cache, dc_error *error) {
      return dc_cache_open(name.c_str(), detail::text_or_null(directory), detail::text_or_null(fingerprint), &options,
                           cache, error);
    });
  }

  /// Attaches to a cache that is in use or kept; see dc_cache_attach.
  static Cache attach(const std::string &name, const std::string &directory = "",
                      std::chrono::nanoseconds timeout = std::chrono::seconds(10)) {
    return try_attach(name, directory, timeout).value();
  }
  /// The same without throwing.
  static Result<Cache> try_attach(const std::string &name, const std::string &directory = "",
                                  std::chrono::nanoseconds timeout = std::chrono::seconds(10)) {
    return made([&](dc_cache **cache, dc_error *error) {
      return dc_cache_attach(name.c_str(), detail::text_or_null(directory), timeout.count(), cache, error);
    });
  }

  /// Attaches to look only; see dc_cache_attach_read_only.
  static Cache attach_read_only(const std::string &name, const std::string &directory = "",
                                std::chrono::nanoseconds timeout = std::chrono::seconds(10)) {
    return try_attach_read_only(name, directory, timeout).value();
  }
  /// The same without throwing.
  static Result<Cache> try_attach_read_only(const std::string &name, const std::string &directory = "",
                                            std::chrono::nanoseconds timeout = std::chrono::seconds(10)) {
    return made([&](dc_cache **cache, dc_error *error) {
      return dc_cache_attach_read_only(name.c_str(), detail::text_or_null(directory), timeout.count(), cache, error);
    });
  }

  /// Opens a cache with the samples of a saved file; see dc_cache_restore. An empty fingerprint takes the file's, as do
  /// options of nullptr. What progress throws passes through. Throws Interrupted where it says false.
  static Cache restore(const std::string &path, const std::string &name, const std::string &fingerprint = "",
                       const dc_cache_options *options = nullptr, const std::string &directory = "",
                       const Progress &progress = nullptr) {
    return try_restore(path, name, fingerprint, options, directory, progress).value();
  }
  /// The same, which throws nothing but what progress does; DC_INTERRUPTED is an error of it.
  static Result<Cache> try_restore(const std::string &path, const std::string &name,
                                   const std::string &fingerprint = "", const dc_cache_options *options = nullptr,
                                   const std::string &directory = "", const Progress &progress = nullptr) {
    detail::ProgressCall call{progress};
    Result<Cache> cache = made([&](dc_cache **opened, dc_error *error) {
      return dc_cache_restore(path.c_str(), name.c_str(), detail::text_or_null(directory),
                              detail::text_or_null(fingerprint), options, call.function(), &call, opened, error);
    });
    if (call.thrown) std::rethrow_exception(call.thrown);
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

  /// The index of a key in a keyed cache, given to it now if it has none; see keys.h. Throws Full where all are taken.
  std::int64_t intern(std::string_view key) { return try_intern(key).value(); }
  /// The same without throwing; DC_FULL is an error of it.
  Result<std::int64_t> try_intern(std::string_view key) {
    std::int64_t index = 0;
    const std::int32_t status = dc_cache_intern(cache_, bytes_of(key), key.size(), &index);
    if (status != DC_OK) return Error(status);
    return index;
  }
  /// The index of a key, or nothing where it has none.
  std::optional<std::int64_t> lookup(std::string_view key) const {
    std::int64_t index = 0;
    if (detail::check(dc_cache_lookup(cache_, bytes_of(key), key.size(), &index)) != DC_OK) return std::nullopt;
    return index;
  }
  /// A look at the sample of a key, or nothing where it is not in the cache.
  std::optional<View> view(std::string_view key) {
    dc_view view;
    if (detail::check(dc_cache_view_key(cache_, bytes_of(key), key.size(), &view)) != DC_OK) return std::nullopt;
    return View(view);
  }

  /// A look at a sample, which `loader(Filling &, int64_t index)` decodes first where nobody has.
  ///
  /// A loader that returns bool fails by false. What it throws passes through, with the entry given back. Throws Full,
  /// Busy at the deadline, and Error.
  template <typename Loader>
  View load(std::int64_t index, Loader &&loader, std::chrono::nanoseconds timeout = default_timeout) {
    return try_load(index, std::forward<Loader>(loader), timeout).value();
  }
  /// The same, which throws nothing but what the loader does; DC_FULL and DC_BUSY are errors of it.
  template <typename Loader>
  Result<View> try_load(std::int64_t index, Loader &&loader, std::chrono::nanoseconds timeout = default_timeout) {
    struct Call {
      std::remove_reference_t<Loader> &loader;
      std::exception_ptr thrown;
    } call{loader, nullptr};
    const dc_loader trampoline = [](dc_fill *fill, std::int64_t wanted, void *user) -> std::int32_t {
      Call &own = *static_cast<Call *>(user);
      Filling filling(fill);
      bool loaded = true;
      const bool completed = detail::completes(own.thrown, [&] {
        if constexpr (std::is_same_v<decltype(own.loader(filling, wanted)), bool>) {
          loaded = own.loader(filling, wanted);
        } else {
          own.loader(filling, wanted);
        }
      });
      return completed && loaded ? DC_LOADED : 0;
    };
    dc_view view;
    const std::int32_t status = detail::until_uninterrupted(
        timeout, [&](std::int64_t left_ns) { return dc_cache_load(cache_, index, trampoline, &call, left_ns, &view); });
    if (call.thrown) std::rethrow_exception(call.thrown);
    if (status != DC_OK) return Error(status);
    return View(view);
  }

  /// Claims an empty entry; nothing where the sample is in the cache already. Throws Full, Busy at the deadline, Error.
  std::optional<Fill> begin_fill(std::int64_t index, std::chrono::nanoseconds timeout = default_timeout) {
    return try_begin_fill(index, timeout).value();
  }
  /// The same without throwing; DC_FULL and DC_BUSY are errors of it.
  Result<std::optional<Fill>> try_begin_fill(std::int64_t index, std::chrono::nanoseconds timeout = default_timeout) {
    dc_fill *fill = nullptr;
    const std::int32_t status = detail::until_uninterrupted(
        timeout, [&](std::int64_t left_ns) { return dc_cache_fill_begin(cache_, index, left_ns, &fill); });
    if (status == DC_PRESENT) return std::optional<Fill>();
    if (status != DC_OK) return Error(status);
    return std::optional<Fill>(Fill(fill));
  }

  /// Copies one array of one sample into a buffer; how many bytes, or nothing where it is not in the cache. Throws
  /// Error (DC_ERROR_BUFFER) where it does not fit.
  std::optional<std::uint64_t> read(std::int64_t index, std::uint8_t *buffer, std::uint64_t buffer_bytes,
                                    std::uint32_t number = 0) {
    std::uint64_t bytes = 0;
    if (detail::check(dc_cache_read(cache_, index, number, buffer, buffer_bytes, &bytes)) != DC_OK) return std::nullopt;
    return bytes;
  }
  /// The structure string of a sample, empty where it has none; nothing where the sample is not in the cache.
  std::optional<std::string> structure(std::int64_t index) {
    std::vector<std::uint8_t> text(DC_STRUCTURE_BYTES_MAX);
    std::uint64_t bytes = 0;
    if (detail::check(dc_cache_structure(cache_, index, text.data(), text.size(), &bytes)) != DC_OK)
      return std::nullopt;
    return std::string(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bytes));
  }
  /// Which of `count` samples from `first` on are in the cache: sample first + i is bit i % 8 of byte i / 8.
  std::vector<std::uint8_t> residency(std::int64_t first, std::int64_t count) const {
    std::vector<std::uint8_t> bitmap(static_cast<std::size_t>(std::max<std::int64_t>(count, 0) + 7) / 8);
    detail::check(dc_cache_residency(cache_, first, count, bitmap.data()));
    return bitmap;
  }

  /// Copies one array of many samples of equal size; see dc_cache_read_batch. The statuses, one a sample.
  std::vector<std::int32_t> read_batch(const std::vector<std::int64_t> &indices, std::uint8_t *buffer,
                                       std::uint64_t sample_bytes, std::uint32_t threads = 1,
                                       std::uint32_t number = 0) {
    return of_batch(indices, [&](std::int64_t count, std::int32_t *statuses) {
      return dc_cache_read_batch(cache_, indices.data(), count, number, buffer, sample_bytes, statuses, threads);
    });
  }

  /// Copies several arrays of many samples; see dc_cache_gather. The statuses, one a sample.
  ///
  ///     std::vector<float> images(2 * 3 * 32 * 32);
  ///     std::vector<std::int64_t> labels(2);
  ///     cache.gather({7, 9}, {{0, images}, {1, labels}});
  ///
  /// Throws Error, with nothing copied, where a place does not fit the number of samples.
  std::vector<std::int32_t> gather(const std::vector<std::int64_t> &indices, const std::vector<Place> &places,
                                   std::uint32_t threads = 1) {
    std::vector<dc_gather> parts;
    parts.reserve(places.size());
    for (const Place &place : places) parts.push_back(place.part_for(indices.size()));
    return of_batch(indices, [&](std::int64_t count, std::int32_t *statuses) {
      return dc_cache_gather(cache_, indices.data(), count, parts.data(), static_cast<std::uint32_t>(parts.size()),
                             statuses, threads);
    });
  }

  /// What array `number` of each of many samples is; see dc_cache_describe_batch.
  std::vector<Description> describe(const std::vector<std::int64_t> &indices, std::uint32_t number = 0) const {
    const std::size_t size = indices.size();
    std::vector<dc_array> arrays(size);
    std::vector<std::uint32_t> counts(size);
    std::vector<std::uint64_t> structures(size);
    const std::vector<std::int32_t> statuses = of_batch(indices, [&](std::int64_t count, std::int32_t *found) {
      return dc_cache_describe_batch(cache_, indices.data(), count, number, arrays.data(), counts.data(),
                                     structures.data(), found);
    });
    std::vector<Description> descriptions;
    for (std::size_t i = 0; i < size; ++i) {
      descriptions.push_back({statuses[i], counts[i], structures[i], Array(arrays[i])});
    }
    return descriptions;
  }

  /// Maps in the background what is there; see dc_cache_populate.
  void populate() { detail::check(dc_cache_populate(cache_)); }

  /// Removes a sample from a droppable cache; false where it was not there.
  bool remove(std::int64_t index) { return detail::check(dc_cache_remove(cache_, index)) == DC_OK; }
  /// Removes those of many samples that are there; how many were.
  std::int64_t remove(const std::vector<std::int64_t> &indices) {
    std::int64_t removed = 0;
    const auto count = static_cast<std::int64_t>(indices.size());
    detail::check(dc_cache_remove_batch(cache_, indices.data(), count, &removed));
    return removed;
  }
  /// Removes all samples of a droppable cache; how many.
  std::int64_t clear() {
    std::int64_t removed = 0;
    detail::check(dc_cache_clear(cache_, &removed));
    return removed;
  }

  /// Writes all samples to a file; how many. See dc_cache_save. What progress throws passes through. Throws Interrupted
  /// where it says false.
  std::int64_t save(const std::string &path, const Progress &progress = nullptr) {
    return try_save(path, progress).value();
  }
  /// The same, which throws nothing but what progress does; DC_INTERRUPTED is an error of it.
  Result<std::int64_t> try_save(const std::string &path, const Progress &progress = nullptr) {
    std::int64_t saved = 0;
    dc_error error;
    detail::ProgressCall call{progress};
    const std::int32_t status = dc_cache_save(cache_, path.c_str(), call.function(), &call, &saved, &error);
    if (call.thrown) std::rethrow_exception(call.thrown);
    return detail::result(status, error, saved);
  }

  /// What is in a saved file, by its header. See dc_saved_info_get.
  static dc_saved_info saved(const std::string &path) { return try_saved(path).value(); }
  /// The same without throwing.
  static Result<dc_saved_info> try_saved(const std::string &path) {
    dc_saved_info info = {};
    info.struct_size = sizeof info;
    dc_error error;
    const std::int32_t status = dc_saved_info_get(path.c_str(), &info, &error);
    return detail::result(status, error, info);
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
  dc_cache_report check() const { return try_check().value(); }
  /// The same without throwing.
  Result<dc_cache_report> try_check() const {
    dc_cache_report report = {};
    report.struct_size = sizeof report;
    dc_error error;
    const std::int32_t status = dc_cache_check(cache_, &report, &error);
    return detail::result(status, error, report);
  }

  /// False where there was none.
  static bool unlink(const std::string &name, const std::string &directory = "") {
    dc_error error;
    const std::int32_t status = dc_cache_unlink(name.c_str(), detail::text_or_null(directory), &error);
    if (status == DC_ERROR_NOT_FOUND) return false;
    detail::check(status, error);
    return true;
  }

  /// How large a cache must be for all of its samples; see dc_cache_estimate.
  static Estimate estimate(const CacheOptions &options, std::uint64_t sample_bytes) {
    Estimate found = {};
    dc_error error;
    detail::check(dc_cache_estimate(&options, sample_bytes, &found.capacity_bytes, &found.total_bytes, &error), error);
    return found;
  }
  /// The names of this user's caches, sorted.
  static std::vector<std::string> list(const std::string &directory = "") {
    std::vector<std::uint8_t> text;
    std::uint64_t bytes = 0;
    dc_error error;
    std::int32_t status = DC_ERROR_BUFFER;
    while (status == DC_ERROR_BUFFER) {  // others make caches meanwhile
      text.resize(static_cast<std::size_t>(bytes));
      status = dc_cache_list(detail::text_or_null(directory), text.data(), text.size(), &bytes, &error);
    }
    detail::check(status, error);
    std::vector<std::string> names(1);
    for (std::uint64_t i = 0; i < bytes; ++i) {
      if (text[i] == '\n') {
        names.emplace_back();
      } else {
        names.back() += static_cast<char>(text[i]);
      }
    }
    names.pop_back();
    return names;
  }
  /// Removes this user's caches that nobody is attached to and that are not kept; how many.
  static std::int32_t gc(const std::string &directory = "") {
    std::int32_t removed = 0;
    dc_error error;
    detail::check(dc_cache_gc(detail::text_or_null(directory), &removed, &error), error);
    return removed;
  }

 private:
  Cache() = default;

  template <typename Call>
  static Result<Cache> made(Call &&call) {
    Cache cache;
    dc_error error;
    const std::int32_t status = call(&cache.cache_, &error);
    return detail::result(status, error, std::move(cache));
  }
  static const std::uint8_t *bytes_of(std::string_view key) {
    return reinterpret_cast<const std::uint8_t *>(key.data());
  }

  /// Runs a call that has a status for each sample. A status that no sample has is the whole call's.
  template <typename Call>
  static std::vector<std::int32_t> of_batch(const std::vector<std::int64_t> &indices, Call &&call) {
    std::vector<std::int32_t> statuses(indices.size(), DC_OK);
    const std::int32_t status = call(static_cast<std::int64_t>(indices.size()), statuses.data());
    if (status < 0 && std::find(statuses.begin(), statuses.end(), status) == statuses.end()) {
      detail::raise(Error(status));
    }
    return statuses;
  }

  dc_cache *cache_ = nullptr;
};

}  // namespace DDPCACHE_CXX
}  // namespace ddpcache

#endif
