// SPDX-License-Identifier: Apache-2.0
#include "moe/bias_search.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace trimtab::moe {
namespace {

constexpr double good_enough_share = 0.004;

/// Bias of one expert if all others left the threshold where it is: as many of its scores come out positive
/// as tokens are to choose it.
float first_guess(std::vector<float>& scores, double wanted) {
  const auto count = std::min(static_cast<std::size_t>(std::lround(wanted)), scores.size() - 1);
  const auto cut = scores.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(scores.begin(), cut, scores.end(), std::greater<>());
  return wanted > 0.0 ? -*cut : -*cut - 1.0f;
}

std::vector<float> first_guesses(std::span<const float> scores, std::span<const double> wanted) {
  const std::size_t experts = wanted.size();
  std::vector<float> bias(experts);
  std::vector<float> column(scores.size() / experts);
  for (std::size_t e = 0; e < experts; ++e) {
    for (std::size_t t = 0; t < column.size(); ++t) column[t] = scores[t * experts + e];
    bias[e] = first_guess(column, wanted[e]);
  }
  return bias;
}

double misplaced(std::span<const std::int64_t> counts, std::span<const double> wanted) {
  double missing = 0.0;
  double total = 0.0;
  for (std::size_t e = 0; e < wanted.size(); ++e) {
    missing += std::max(0.0, wanted[e] - static_cast<double>(counts[e]));
    total += wanted[e];
  }
  return missing / total;
}

/// Moves each bias by the logarithm of wanted over counted, with a step of its own that shrinks when the
/// error changes sign and grows while it does not.
class Steps {
 public:
  explicit Steps(std::size_t experts) : steps_(experts, 0.06), last_(experts, 0.0) {}

  void update(std::span<const std::int64_t> counts, std::span<const double> wanted, std::span<float> bias) {
    for (std::size_t e = 0; e < bias.size(); ++e) {
      const double error = std::log((wanted[e] + 0.5) / (static_cast<double>(counts[e]) + 0.5));
      steps_[e] = std::clamp(steps_[e] * (error * last_[e] < 0.0 ? 0.6 : 1.15), 0.002, 0.3);
      last_[e] = error;
      bias[e] += static_cast<float>(steps_[e] * std::clamp(error, -2.0, 2.0));
    }
  }

 private:
  std::vector<double> steps_;
  std::vector<double> last_;
};

}  // namespace

BiasFit search_bias(const ModelConfig& config, SampleBatch& batch, std::span<const double> shares,
                    std::int32_t max_iterations) {
  const std::size_t experts = config.experts();
  const std::size_t tokens = batch.scores().size() / experts;
  std::vector<double> wanted(experts);
  for (std::size_t e = 0; e < experts; ++e)
    wanted[e] = shares[e] * static_cast<double>(tokens) * config.top_k;
  std::vector<float> bias = first_guesses(batch.scores(), wanted);
  std::vector<std::int64_t> counts(experts);
  Steps steps(experts);
  BiasFit best;
  for (std::int32_t i = 1; i <= max_iterations && best.misplaced_share > good_enough_share; ++i) {
    batch.count_choices(bias, counts);
    const double share = misplaced(counts, wanted);
    if (share < best.misplaced_share || best.bias.empty()) best = {bias, counts, share, 0};
    best.iterations = i;
    steps.update(counts, wanted, bias);
  }
  return best;
}

}  // namespace trimtab::moe
