// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/plan/slot_sweep.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace trimtab {

/// The document trimtab.sweep/1 (docs/formats/json-output.md).
[[nodiscard]] nlohmann::ordered_json sweep_document(std::span<const SlotSweepPoint> points,
                                                    std::int32_t num_experts, std::size_t num_scenarios);

/// A row for each number of slots.
[[nodiscard]] std::string sweep_text(std::span<const SlotSweepPoint> points, std::size_t num_scenarios);

}  // namespace trimtab
