// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/plan/compat.hpp>

namespace trimtab {

/// What `shape` comes to under the rule of DeepSeek and vLLM: as it is when its nodes divide its groups, flat
/// otherwise, which is one group on one node.
[[nodiscard]] EplbShape resolve_shape(const EplbShape& shape) noexcept;

/// The first thing that makes a plan of `num_experts` impossible, if any; messages begin with the number at
/// fault. `shape` is resolved or not.
[[nodiscard]] Status check_shape(std::int32_t num_experts, const EplbShape& shape);

/// Single precision must hold every sum that a planner forms.
[[nodiscard]] Status check_totals(const LoadMatrix& loads);

/// Equal live ranks, and, when `by_node`, equally many on each node in order; the message names `planner`.
[[nodiscard]] Status check_ranks(std::string_view planner, const Topology& topology, bool by_node);

}  // namespace trimtab
