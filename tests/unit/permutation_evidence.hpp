// Statistics of many permutations of one length, each as a standard score: how far, in standard deviations, what was
// counted is from what uniformly random permutations give. Both sides count: too even is as wrong as too uneven.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ddpcache::evidence {

using Order = std::vector<uint32_t>;

// The order of the how manieth key, for keys that differ as little as keys can.
using Draw = std::function<Order(uint64_t key)>;

// Scores by name. `unit` is a distance at which a permutation of this kind could have structure, besides 1 and 2.
std::map<std::string, double> collect(uint32_t length, uint64_t keys, uint32_t unit, const Draw &draw);

// The largest absolute score, with its name.
std::pair<double, std::string> worst(const std::map<std::string, double> &scores);

// The standard score of a chi-squared value.
double score_of_chi_squared(double value, double degrees);

}  // namespace ddpcache::evidence
