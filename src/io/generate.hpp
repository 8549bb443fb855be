// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/load_matrix.hpp>
#include <trimtab/core/result.hpp>

#include <cstdint>
#include <string_view>
#include <vector>

namespace trimtab {

/// How the popularity of the experts of one layer is spread.
enum class Distribution : std::uint8_t {
  lognormal,  ///< Like real models: most experts near the mean, a few several times as hot.
  zipf,       ///< Popularity falls as a power of the expert's place in a random order.
};

/// "lognormal", "zipf".
[[nodiscard]] std::string_view to_string(Distribution distribution) noexcept;

struct GenerateOptions {
  std::int32_t num_layers = 8;
  std::int32_t num_experts = 64;
  std::int32_t num_dense_layers = 0;  ///< First rows that stay zero, as the dense layers of a model.
  Distribution distribution = Distribution::lognormal;
  double sigma = 0.65;            ///< Of the logarithm (lognormal). Real models: 0.55 to 0.8.
  double exponent = 1.0;          ///< Of the power law (zipf).
  std::int32_t num_outliers = 0;  ///< Experts per layer at 10 to 13 times the mean load.
  std::int32_t num_phases = 1;
  double drift = 0.3;  ///< From one phase to the next: 0 nothing changes, 1 everything is drawn anew.
  std::int64_t tokens = 65536;  ///< Per layer and phase.
  std::int32_t top_k = 8;       ///< Experts a token is routed to; each layer's loads sum to tokens * top_k.
  std::uint64_t seed = 1;
};

/// Loads as a router under shifting traffic would give them: one matrix per phase, in whole assignments, no
/// expert above `tokens` (a token goes to an expert once).
///
/// Drift moves the logarithm of each popularity as a stationary random walk, so that later phases are as
/// uneven as the first; an outlier moves to another expert with probability `drift`. Pure: the same options
/// give the same bytes on every machine. A layer does not depend on how many others there are, nor a phase on
/// how many follow.
/// @return `invalid_argument` naming the option, its value and its limits.
[[nodiscard]] Result<std::vector<LoadMatrix>> generate_loads(const GenerateOptions& options);

}  // namespace trimtab
