#include "permutation_evidence.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace ddpcache::evidence {
namespace {

constexpr uint32_t bins = 16;

// Adds up chi-squared values of independent parts.
struct ChiSquared {
  double value = 0, degrees = 0;

  void add(double more, double more_degrees) {
    value += more;
    degrees += more_degrees;
  }

  template <typename Counts>
  void add_counts(const Counts &counts, const Counts &expected) {
    double sum = 0;
    for (size_t i = 0; i < counts.size(); ++i)
      sum += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i];
    add(sum, static_cast<double>(counts.size()) - 1);
  }
};

// Counts that should be Poisson distributed, as the number of fixed points of a random permutation nearly is.
class Poisson {
 public:
  explicit Poisson(double mean) : mean_(mean) {}

  void add(uint32_t count) { ++seen_[std::min<size_t>(count, seen_.size() - 1)]; }

  double score() const {
    const double total = std::accumulate(seen_.begin(), seen_.end(), 0.0);
    double sum = 0, left = 1, chance = std::exp(-mean_);
    for (size_t i = 0; i < seen_.size(); ++i) {
      const double expected = total * (i + 1 < seen_.size() ? chance : left);
      sum += (seen_[i] - expected) * (seen_[i] - expected) / expected;
      left -= chance;
      chance *= mean_ / static_cast<double>(i + 1);
    }
    return score_of_chi_squared(sum, static_cast<double>(seen_.size()) - 1);
  }

 private:
  double mean_;
  std::array<double, 6> seen_{};
};

// A quantity of mean 0 and variance 1 for each key: its mean, and its variance.
struct Normal {
  double sum = 0, squares = 0, count = 0;

  void add(double value) {
    sum += value;
    squares += value * value;
    ++count;
  }
  double mean_score() const { return sum / std::sqrt(count); }
  double variance_score() const { return score_of_chi_squared(squares, count); }
};

// Where positions and values are both cut into classes: a contingency table with fixed margins, for each key and in
// total.
class Table {
 public:
  template <typename RowOf, typename ColumnOf>
  void add(const Order &order, RowOf row_of, ColumnOf column_of) {
    std::array<double, bins * bins> counts{};
    std::array<double, bins> rows{}, columns{};
    for (uint32_t i = 0; i < order.size(); ++i) {
      const uint32_t row = row_of(i), column = column_of(order[i]);
      ++counts[row * bins + column];
      ++rows[row];
      ++columns[column];
    }
    const double length = static_cast<double>(order.size());
    double sum = 0;
    for (uint32_t cell = 0; cell < counts.size(); ++cell) {
      const double expected = rows[cell / bins] * columns[cell % bins] / length;
      sum += (counts[cell] - expected) * (counts[cell] - expected) / expected;
      total_[cell] += counts[cell];
      total_expected_[cell] += expected;
    }
    each_.add(sum * (length - 1) / length, degrees);
  }

  double each_score() const { return score_of_chi_squared(each_.value, each_.degrees); }

  double total_score() const {
    double sum = 0;
    for (uint32_t cell = 0; cell < total_.size(); ++cell) {
      sum += (total_[cell] - total_expected_[cell]) * (total_[cell] - total_expected_[cell]) / total_expected_[cell];
    }
    return score_of_chi_squared(sum, degrees);
  }

 private:
  static constexpr double degrees = (bins - 1.0) * (bins - 1.0);
  ChiSquared each_;
  std::array<double, bins * bins> total_{}, total_expected_{};
};

// What two orders, or an order and its own shift, have to do with each other: pairs (a(i), b(i)) for i < count, whose
// difference modulo length is any of least..length-1 with equal chance.
class Pairing {
 public:
  Pairing(uint32_t length, uint32_t count, uint32_t least)
      : length_(length), count_(count), least_(least), exact_(static_cast<double>(count) / (length - least)) {
    for (uint32_t difference = least; difference < length; ++difference) {
      expected_[bin_of(difference)] += static_cast<double>(count) / (length - least);
    }
  }

  template <typename A, typename B>
  void add(A a, B b) {
    const double mean = (length_ - 1) / 2.0, variance = (static_cast<double>(length_) * length_ - 1) / 12.0;
    double products = 0;
    std::array<double, bins> seen{};
    uint32_t exact = 0;
    for (uint32_t i = 0; i < count_; ++i) {
      const uint32_t first = a(i), second = b(i);
      const uint32_t difference = second >= first ? second - first : second + (length_ - first);
      products += (first - mean) * (second - mean);
      ++seen[bin_of(difference)];
      exact += difference == least_;
    }
    // Two different values of one order have correlation -1/(length-1).
    const double bias = least_ ? static_cast<double>(count_) / (length_ - 1) : 0;
    correlation_.add((products / variance + bias) / std::sqrt(static_cast<double>(count_)));
    differences_.add_counts(seen, expected_);
    for (uint32_t bin = 0; bin < bins; ++bin) total_[bin] += seen[bin];
    exact_.add(exact);
    ++keys_;
  }

  void report(const std::string &name, std::map<std::string, double> &scores) const {
    std::array<double, bins> expected = expected_;
    for (double &count : expected) count *= keys_;
    ChiSquared total;
    total.add_counts(total_, expected);
    scores[name + " correlation, mean"] = correlation_.mean_score();
    scores[name + " correlation, variance"] = correlation_.variance_score();
    scores[name + " differences, each key"] = score_of_chi_squared(differences_.value, differences_.degrees);
    scores[name + " differences, all keys"] = score_of_chi_squared(total.value, total.degrees);
    scores[name + " least differences"] = exact_.score();
  }

 private:
  uint32_t bin_of(uint32_t difference) const { return static_cast<uint32_t>(uint64_t{difference} * bins / length_); }

  uint32_t length_, count_, least_;
  double keys_ = 0;
  Normal correlation_;
  ChiSquared differences_;
  std::array<double, bins> total_{}, expected_{};
  Poisson exact_;
};

double descents_score(const Order &order) {
  const double length = static_cast<double>(order.size());
  double descents = 0;
  for (size_t i = 1; i < order.size(); ++i) descents += order[i] < order[i - 1];
  return (descents - (length - 1) / 2) / std::sqrt((length + 1) / 12);
}

// The number of cycles has mean H(n) and variance H(n) - H2(n), harmonic numbers.
double cycles_score(const Order &order) {
  double mean = 0, squares = 0;
  for (size_t i = 1; i <= order.size(); ++i) {
    mean += 1.0 / static_cast<double>(i);
    squares += 1.0 / (static_cast<double>(i) * static_cast<double>(i));
  }
  std::vector<bool> seen(order.size());
  double cycles = 0;
  for (uint32_t start = 0; start < order.size(); ++start) {
    cycles += !seen[start];
    for (uint32_t at = start; !seen[at]; at = order[at]) seen[at] = true;
  }
  return (cycles - mean) / std::sqrt(mean - squares);
}

}  // namespace

// Wilson and Hilferty: the cube root of chi-squared over its degrees is nearly normal.
double score_of_chi_squared(double value, double degrees) {
  const double spread = 2 / (9 * degrees);
  return (std::cbrt(value / degrees) - (1 - spread)) / std::sqrt(spread);
}

std::map<std::string, double> collect(uint32_t length, uint64_t keys, uint32_t unit, const Draw &draw) {
  Table coarse, fine, mixed, inverse_mixed;
  Normal descents, cycles;
  Poisson fixed_points(1);
  std::map<uint32_t, Pairing> lags;
  for (uint32_t lag : {1u, 2u, unit, 3 * unit}) lags.emplace(lag, Pairing(length, length - lag, 1));
  Pairing neighbours(length, length, 0);
  const auto high = [length](uint32_t x) { return static_cast<uint32_t>(uint64_t{x} * bins / length); };
  const auto low = [](uint32_t x) { return x % bins; };
  const auto middle = [unit](uint32_t x) { return x / unit % bins; };
  Order previous;
  for (uint64_t key = 0; key < keys; ++key) {
    const Order order = draw(key);
    coarse.add(order, high, high);
    fine.add(order, low, low);
    mixed.add(order, low, high);
    inverse_mixed.add(order, middle, low);
    descents.add(descents_score(order));
    cycles.add(cycles_score(order));
    uint32_t fixed = 0;
    for (uint32_t i = 0; i < length; ++i) fixed += order[i] == i;
    fixed_points.add(fixed);
    for (auto &[lag, pairing] : lags) {
      pairing.add([&](uint32_t i) { return order[i]; }, [&, ahead = lag](uint32_t i) { return order[i + ahead]; });
    }
    if (!previous.empty()) {
      neighbours.add([&](uint32_t i) { return previous[i]; }, [&](uint32_t i) { return order[i]; });
    }
    previous = order;
  }
  std::map<std::string, double> scores = {
      {"place by value, each key", coarse.each_score()},
      {"place by value, all keys", coarse.total_score()},
      {"low place by low value, each key", fine.each_score()},
      {"low place by low value, all keys", fine.total_score()},
      {"low place by high value, each key", mixed.each_score()},
      {"low place by high value, all keys", mixed.total_score()},
      {"middle place by low value, each key", inverse_mixed.each_score()},
      {"middle place by low value, all keys", inverse_mixed.total_score()},
      {"descents, mean", descents.mean_score()},
      {"descents, variance", descents.variance_score()},
      {"cycles, mean", cycles.mean_score()},
      {"fixed points", fixed_points.score()},
  };
  for (const auto &[lag, pairing] : lags) pairing.report("lag " + std::to_string(lag), scores);
  neighbours.report("neighbouring keys", scores);
  return scores;
}

std::pair<double, std::string> worst(const std::map<std::string, double> &scores) {
  std::pair<double, std::string> found;
  for (const auto &[name, score] : scores) {
    if (!(std::abs(score) <= found.first)) found = {std::abs(score), name};
  }
  return found;
}

}  // namespace ddpcache::evidence
