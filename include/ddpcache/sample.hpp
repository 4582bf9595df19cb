// ddpcache/sample.hpp: arrays, views and fills of one sample.
#ifndef DDPCACHE_SAMPLE_HPP
#define DDPCACHE_SAMPLE_HPP

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ddpcache/cache.h"
#include "ddpcache/error.hpp"

namespace ddpcache {
inline namespace DDPCACHE_CXX {

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
    detail::raise(Error(DC_ERROR_RANGE, "an array has at most 8 dimensions and a name of at most 55 bytes, not " +
                                            std::to_string(shape.size()) + " and " + std::to_string(name.size())));
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
      detail::raise(Error(DC_ERROR_RECORD, "the array has DLPack type code " + std::to_string(array_.dtype_code) +
                                               " of " + std::to_string(array_.dtype_bits) + " bits times " +
                                               std::to_string(array_.dtype_lanes) + " lanes"));
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
    return try_allocate<T>(shape).value();
  }
  /// The same without throwing; DC_FULL is an error of it.
  template <typename T>
  Result<T *> try_allocate(const std::vector<std::int64_t> &shape) {
    dc_array array = describe<T>(shape);
    dc_error error;
    const std::int32_t status = try_allocate(&array, 1, "", &error);
    return detail::result(status, error, reinterpret_cast<T *>(array.data));
  }

  /// Memory for several arrays, whose `data` it sets.
  void allocate(dc_array *arrays, std::size_t count, const std::string &structure = "") {
    dc_error error;
    if (detail::check(try_allocate(arrays, count, structure, &error), error) == DC_FULL) detail::raise(Full());
  }
  /// The same; the status, and optionally the sentence. See dc_cache_fill_allocate.
  std::int32_t try_allocate(dc_array *arrays, std::size_t count, const std::string &structure = "",
                            dc_error *error = nullptr) {
    return dc_cache_fill_allocate(fill_, arrays, static_cast<std::uint32_t>(count), detail::text_or_null(structure),
                                  error);
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
  void commit() { detail::check(try_commit()); }
  /// The same; the status. See dc_cache_fill_commit.
  std::int32_t try_commit() {
    const std::int32_t status = dc_cache_fill_commit(fill_);
    if (status == DC_OK || status == DC_ERROR_LOST) fill_ = nullptr;
    return status;
  }
};

}  // namespace DDPCACHE_CXX
}  // namespace ddpcache

#endif
