// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/load_matrix.hpp>
#include <trimtab/plan/compat.hpp>

#include <vector>

namespace trimtab::bench {

/// Raw twin of rebalance_experts: DeepSeek's Python written down in C++ line by line, with its scans.
/// Precondition: sizes that divide, counts that are sound, group loads that are exact in single precision.
[[nodiscard]] EplbPlan rebalance_plainly(const LoadMatrix& loads, const EplbShape& shape);

/// Raw twin of `trtllm`: TensorRT-LLM's planner with the standard library's heaps. [layers][slots].
[[nodiscard]] std::vector<ExpertId> plan_with_heaps(const LoadMatrix& loads, const EplbShape& shape);

}  // namespace trimtab::bench
