// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/plan/planner.hpp>

#include <cstdint>
#include <string_view>
#include <vector>

namespace trimtab {

/// Planners of other systems, by name: "what would my engine do today". They plan every row, all-zero ones
/// included, know equal live ranks only, and may put an expert on a rank twice (I2).
enum class CompatPlanner : std::uint8_t {
  deepseek,  ///< DeepSeek's EPLB, bit for bit, in torch 1.13 as packaged by Debian 12.
  trtllm,    ///< TensorRT-LLM's load balancer: one flat packing, whatever the nodes and groups.
  vllm,      ///< vLLM's default policy: the same balance; equal loads may be ordered otherwise.
};

/// "deepseek", "trtllm", "vllm".
[[nodiscard]] std::string_view to_string(CompatPlanner planner) noexcept;

/// Plans as `planner` would. Of `options` it takes the groups and the locality: `automatic` leaves the choice
/// between a flat plan and one by groups and nodes to the planner's own rule, `none` makes it flat.
///
/// The reports are those of plan_rebalance, except that no row is dense. Pure, and parallel over layers, as
/// plan_rebalance is; memory is O(slots + experts) per layer.
/// @return `infeasible` when the slots are fewer than the experts; `invalid_argument` when the ranks differ
///         in slots or speed or one is dead, when vacant slots, spill or the exact split are asked for, when
///         the sum of a row is too large for single precision, and when groups do not divide experts, or by
///         group: nodes the groups or ranks.
[[nodiscard]] Result<Plan> plan_like(CompatPlanner planner, const LoadMatrix& loads, const Topology& topology,
                                     const PlanOptions& options, Executor& executor);

/// The arguments of DeepSeek's `rebalance_experts` besides the loads: num_replicas, num_groups, num_nodes,
/// num_gpus.
struct EplbShape {
  std::int32_t num_slots = 0;
  std::int32_t num_groups = 1;
  std::int32_t num_nodes = 1;
  std::int32_t num_ranks = 1;
};

/// What DeepSeek's `rebalance_experts` returns, row-major. Its tensors hold the same numbers in 64 bits.
struct EplbPlan {
  std::int32_t num_layers = 0;
  std::int32_t num_slots = 0;
  std::int32_t num_experts = 0;
  std::int32_t max_copies = 0;                     ///< Largest number of copies of an expert over all layers.
  std::vector<ExpertId> physical_to_logical = {};  ///< [layers][slots]
  /// [layers][experts][max_copies]: slots in the order in which the copies were made, not ascending; then
  /// no_slot.
  std::vector<SlotId> logical_to_physical = {};
  std::vector<std::int32_t> logical_count = {};  ///< [layers][experts]
};

/// DeepSeek's `rebalance_experts`, bit for bit: docs/design/0006-compatibility-planners.md has the rules.
/// By groups and nodes when the nodes divide the groups, flat otherwise (then nodes need not divide ranks).
///
/// Among equal loads, which are the norm, the order is that of GNU libstdc++'s `std::sort`, as in the
/// reference.
/// @return as plan_like, and `invalid_argument` when the ranks do not divide the slots or a count is < 1.
[[nodiscard]] Result<EplbPlan> rebalance_experts(const LoadMatrix& loads, const EplbShape& shape,
                                                 Executor& executor);

}  // namespace trimtab
