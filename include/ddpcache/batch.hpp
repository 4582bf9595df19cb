// ddpcache/batch.hpp: places that a batch is copied to, and descriptions of its samples.
#ifndef DDPCACHE_BATCH_HPP
#define DDPCACHE_BATCH_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ddpcache/batch.h"
#include "ddpcache/error.hpp"
#include "ddpcache/sample.hpp"

namespace ddpcache {
inline namespace DDPCACHE_CXX {

/// Where one array of every sample of a batch goes: memory of the caller's, and how it is shared out. See dc_gather.
class Place {
 public:
  /// Every sample has the same share of `values`.
  template <typename T>
  Place(std::uint32_t number, Span<T> values) noexcept
      : number_(number), buffer_(reinterpret_cast<std::uint8_t *>(values.data())), room_(values.size() * sizeof(T)) {}
  template <typename T>
  Place(std::uint32_t number, std::vector<T> &values) noexcept : Place(number, Span<T>(values.data(), values.size())) {}

  /// Sample i has bytes offsets[i]..offsets[i + 1] of `values`; one offset more than samples, which the caller keeps.
  template <typename T>
  Place(std::uint32_t number, Span<T> values, const std::vector<std::int64_t> &offsets) noexcept
      : Place(number, values) {
    offsets_ = &offsets;
  }
  template <typename T>
  Place(std::uint32_t number, std::vector<T> &values, const std::vector<std::int64_t> &offsets) noexcept
      : Place(number, Span<T>(values.data(), values.size()), offsets) {}

  /// The part of a batch of `samples`. Throws Error DC_ERROR_RANGE where the memory does not fit their number.
  dc_gather part_for(std::size_t samples) const {
    if (!offsets_) {
      if (samples == 0 ? room_ != 0 : room_ % samples != 0) {
        detail::raise(Error(DC_ERROR_RANGE, std::to_string(room_) + " bytes cannot be shared out evenly among " +
                                                std::to_string(samples) + " samples"));
      }
      return {buffer_, nullptr, samples ? room_ / samples : 0, number_, 0};
    }
    if (offsets_->size() != samples + 1 || offsets_->back() < 0 ||
        static_cast<std::uint64_t>(offsets_->back()) > room_) {
      detail::raise(Error(DC_ERROR_RANGE, std::to_string(samples) + " samples need one offset more, up to the " +
                                              std::to_string(room_) + " bytes there are, and have " +
                                              std::to_string(offsets_->size())));
    }
    return {buffer_, offsets_->data(), 0, number_, 0};
  }

 private:
  std::uint32_t number_;
  std::uint8_t *buffer_;
  std::size_t room_;
  const std::vector<std::int64_t> *offsets_ = nullptr;
};

/// What one array of one sample of a batch is. See dc_cache_describe_batch.
struct Description {
  std::int32_t status;        ///< DC_OK, DC_MISS, DC_ERROR_RECORD or DC_ERROR_RANGE
  std::uint32_t array_count;  ///< arrays of the sample
  std::uint64_t structure;    ///< hash of its structure string; 0: none
  Array array;                ///< without data; all zero where the status is not DC_OK
};

}  // namespace DDPCACHE_CXX
}  // namespace ddpcache

#endif
