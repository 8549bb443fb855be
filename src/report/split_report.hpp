// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trimtab {

/// One layer of a placement under its load: imbalance by how the replicas share it.
struct LayerSplit {
  LayerId layer;
  double even = 1.0;       ///< Every replica of an expert takes the same.
  double exact = 1.0;      ///< The best split.
  double waterfill = 1.0;  ///< The best split, with the tokens of a shared expert filling up the emptier ranks.
  std::vector<Rank> tight_ranks;        ///< What holds `exact` up: the experts below have replicas on these only.
  std::vector<ExpertId> tight_experts;  ///< Empty when nothing but the mean holds it up.
  std::vector<std::int64_t> assignments = {};  ///< [slots], or empty when they are not to be told.
};

struct SplitReport {
  std::vector<LayerSplit> layers;  ///< Those that carry load.
  double noise_floor = 1.0;
  std::int64_t batch_assignments = 0;  ///< Of all live ranks: what the noise floor is for.
  double solve_us_median = 0.0;        ///< Per layer.
};

/// The document trimtab.split/1 (docs/formats/json-output.md).
[[nodiscard]] nlohmann::ordered_json split_document(const SplitReport& report, std::optional<std::size_t> top);

/// A table by layer, the worst `top` first where given, then average and worst.
[[nodiscard]] std::string split_text(const SplitReport& report, std::optional<std::size_t> top);

}  // namespace trimtab
