// SPDX-License-Identifier: Apache-2.0
#include "io/generate.hpp"

#include "io/generator_math.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>
#include <utility>

namespace trimtab {
namespace {

// Largest sizes that are taken, so that a slip of the keyboard does not fill the memory.
constexpr std::int64_t max_axis = 1 << 20;
constexpr std::int64_t max_entries = std::int64_t{1} << 29;
constexpr std::int64_t max_assignments = std::int64_t{1} << 52;  // Every integer up to here is a double.

/// What a random number is for; a number of its own for each use.
enum class Purpose : std::uint64_t { popularity = 1, outlier_place, outlier_factor, outlier_moves };

template <class T>
Status check_range(std::string_view name, T value, std::type_identity_t<T> low,
                   std::type_identity_t<T> high) {
  if (value >= low && value <= high) return {};
  return failure(Errc::invalid_argument, fmt::format("{} {} is not in {}..{}", name, value, low, high));
}

Status check_sizes(const GenerateOptions& o) {
  if (Status s = check_range("layers", o.num_layers, 1, max_axis); !s) return s;
  if (Status s = check_range("experts", o.num_experts, 1, max_axis); !s) return s;
  if (Status s = check_range("dense layers", o.num_dense_layers, 0, o.num_layers); !s) return s;
  if (Status s = check_range("steps", o.num_phases, 1, max_axis); !s) return s;
  const std::int64_t per_phase = std::int64_t{o.num_layers} * o.num_experts;
  return check_range("layers x experts x steps",
                     per_phase > max_entries ? per_phase : per_phase * o.num_phases, 1, max_entries);
}

Status check_options(const GenerateOptions& o) {
  if (Status s = check_sizes(o); !s) return s;
  if (Status s = check_range("sigma", o.sigma, 0.0, 5.0); !s) return s;
  if (Status s = check_range("exponent", o.exponent, 0.0, 5.0); !s) return s;
  if (Status s = check_range("outliers", o.num_outliers, 0, o.num_experts); !s) return s;
  if (Status s = check_range("drift", o.drift, 0.0, 1.0); !s) return s;
  if (Status s = check_range("top-k", o.top_k, 1, o.num_experts); !s) return s;
  return check_range("tokens", o.tokens, 1, max_assignments / o.top_k);
}

/// One layer through all phases.
class LayerGenerator {
 public:
  LayerGenerator(const GenerateOptions& options, LayerId layer)
      : options_(options),
        layer_(static_cast<std::uint64_t>(layer.value())),
        num_experts_(static_cast<std::size_t>(options.num_experts)),
        scores_(num_experts_),
        outlier_epochs_(static_cast<std::size_t>(options.num_outliers)) {}

  /// Whole assignments of the next phase.
  std::vector<double> next() {
    advance();
    std::vector<double> shares = ordinary_shares();
    add_outliers(shares);
    cap(shares);
    ++phase_;
    return round(shares);
  }

 private:
  std::uint64_t seed(Purpose purpose) const {
    return random_bits({options_.seed, static_cast<std::uint64_t>(purpose), layer_});
  }

  // An autoregressive step keeps mean 0 and variance 1, whatever the drift.
  void advance() {
    const double change = phase_ == 0 ? 1.0 : options_.drift;
    const double keep = std::sqrt(1.0 - change * change);
    for (std::size_t e = 0; e < num_experts_; ++e) {
      scores_[e] = keep * scores_[e] + change * nearly_gaussian({seed(Purpose::popularity), phase_, e});
    }
    for (std::size_t i = 0; phase_ > 0 && i < outlier_epochs_.size(); ++i) {
      if (uniform({seed(Purpose::outlier_moves), phase_, i}) < options_.drift) outlier_epochs_[i] = phase_;
    }
  }

  std::vector<double> ordinary_shares() const {
    std::vector<double> weights(num_experts_);
    if (options_.distribution == Distribution::lognormal) {
      for (std::size_t e = 0; e < num_experts_; ++e) weights[e] = repeatable_exp(options_.sigma * scores_[e]);
      return weights;
    }
    std::vector<std::size_t> order(num_experts_);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return scores_[a] > scores_[b]; });
    for (std::size_t place = 0; place < num_experts_; ++place) {
      const double log_place = repeatable_log(static_cast<double>(place + 1));
      weights[order[place]] = repeatable_exp(-options_.exponent * log_place);
    }
    return weights;
  }

  /// The experts that are outliers now, each once.
  std::vector<std::size_t> outliers() const {
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; i < outlier_epochs_.size(); ++i) {
      std::size_t e = random_bits({seed(Purpose::outlier_place), outlier_epochs_[i], i}) % num_experts_;
      while (std::find(chosen.begin(), chosen.end(), e) != chosen.end()) e = (e + 1) % num_experts_;
      chosen.push_back(e);
    }
    return chosen;
  }

  // An outlier's share is its factor times the mean share, and no more than a token's choices allow; all of
  // them together leave half of the load to the others.
  void add_outliers(std::vector<double>& shares) const {
    const std::vector<std::size_t> chosen = outliers();
    std::vector<double> hot(chosen.size());
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const double factor = 10.0 + 3.0 * uniform({seed(Purpose::outlier_factor), outlier_epochs_[i], i});
      hot[i] = std::min(factor / static_cast<double>(num_experts_), 1.0 / options_.top_k);
      shares[chosen[i]] = 0.0;
    }
    const double hot_sum = std::accumulate(hot.begin(), hot.end(), 0.0);
    const double rest = std::accumulate(shares.begin(), shares.end(), 0.0);
    const double hot_scale = rest > 0.0 && hot_sum > 0.5 ? 0.5 / hot_sum : 1.0;
    const double rest_scale = rest > 0.0 ? (1.0 - hot_sum * hot_scale) / rest : 0.0;
    for (double& share : shares) share *= rest_scale;
    for (std::size_t i = 0; i < chosen.size(); ++i) shares[chosen[i]] = hot[i] * hot_scale;
  }

  // Shares sum to 1 and none exceeds 1 / top_k: what is cut from the hottest is spread over the others in
  // proportion, which may lift more of them to the limit.
  void cap(std::vector<double>& shares) const {
    const double limit = 1.0 / options_.top_k;
    std::vector<std::size_t> order(num_experts_);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
    double rest = std::accumulate(shares.begin(), shares.end(), 0.0);
    double budget = 1.0;
    for (const std::size_t e : order) {
      const double share = rest > 0.0 ? shares[e] * budget / rest : limit;
      rest -= shares[e];
      shares[e] = std::min(share, limit);
      budget -= shares[e];
    }
  }

  // Rounding the running sum keeps the total exact, but for an expert at its limit that would be rounded up.
  std::vector<double> round(const std::vector<double>& shares) const {
    const auto tokens = static_cast<double>(options_.tokens);
    const double total = tokens * options_.top_k;
    std::vector<double> loads(num_experts_);
    double sum = 0.0;
    double given = 0.0;
    for (std::size_t e = 0; e < num_experts_; ++e) {
      sum += shares[e];
      loads[e] = std::clamp(std::floor(sum * total + 0.5) - given, 0.0, tokens);
      given += loads[e];
    }
    for (double& load : loads) {
      const double change = std::clamp(total - given, -load, tokens - load);
      load += change;
      given += change;
    }
    return loads;
  }

  const GenerateOptions& options_;
  std::uint64_t layer_;
  std::size_t num_experts_;
  std::uint64_t phase_ = 0;
  std::vector<double> scores_;                 // Mean 0, variance 1, by expert.
  std::vector<std::uint64_t> outlier_epochs_;  // The phase in which each outlier moved last.
};

}  // namespace

std::string_view to_string(Distribution distribution) noexcept {
  return distribution == Distribution::lognormal ? "lognormal" : "zipf";
}

Result<std::vector<LoadMatrix>> generate_loads(const GenerateOptions& options) {
  if (Status checked = check_options(options); !checked) return failure(std::move(checked));
  const auto width = static_cast<std::size_t>(options.num_experts);
  const std::size_t size = static_cast<std::size_t>(options.num_layers) * width;
  std::vector<std::vector<double>> phases(static_cast<std::size_t>(options.num_phases),
                                          std::vector<double>(size, 0.0));
  for (LayerId layer : ids<LayerId>(options.num_layers)) {
    if (layer.value() < options.num_dense_layers) continue;
    LayerGenerator generator(options, layer);
    for (std::vector<double>& phase : phases) {
      const std::vector<double> row = generator.next();
      std::copy(row.begin(), row.end(), phase.begin() + static_cast<std::ptrdiff_t>(layer.index() * width));
    }
  }
  std::vector<LoadMatrix> matrices;
  for (std::vector<double>& phase : phases) {
    auto matrix = LoadMatrix::make(options.num_layers, options.num_experts, std::move(phase));
    if (!matrix) return failure(std::move(matrix));
    matrices.push_back(std::move(*matrix));
  }
  return matrices;
}

}  // namespace trimtab
