// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/split/split_plan.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace trimtab {

struct SplitReport {
  SplitPlan plan;
  double noise_floor = 1.0;
  std::int64_t batch_assignments = 0;  ///< Over all live ranks: what the noise floor is for.
  double solve_us_median = 0.0;        ///< Per layer.
};

/// The document trimtab.split/1 (docs/formats/json-output.md).
/// @param with_shares  tell the assignments of every slot too
[[nodiscard]] nlohmann::ordered_json split_document(const SplitReport& report, std::optional<std::size_t> top,
                                                    bool with_shares);

/// A table by layer, the worst `top` first where given, then average and worst.
[[nodiscard]] std::string split_text(const SplitReport& report, std::optional<std::size_t> top);

}  // namespace trimtab
