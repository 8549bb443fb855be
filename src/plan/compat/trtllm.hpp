// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// Copies of each expert as TensorRT-LLM counts them: highest average of single-precision loads, equal
/// averages to the higher expert; without any load evenly, the lower experts first.
/// Precondition: num_slots >= loads.size() >= 1.
[[nodiscard]] std::vector<std::int32_t> count_like_trtllm(std::span<const double> loads,
                                                          std::int32_t num_slots);

/// One layer, by SlotId: replicas by load, then by expert, each onto the least loaded rank with room, equal
/// loads to the lower rank. The order is total, so this is TensorRT-LLM's plan exactly.
/// Precondition: num_ranks divides row.size() >= loads.size() >= 1.
void plan_row_like_trtllm(std::span<const double> loads, std::int32_t num_ranks, std::span<ExpertId> row);

}  // namespace trimtab
