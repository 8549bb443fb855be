// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/topology.hpp>
#include <trimtab/plan/nodes_per_token.hpp>
#include <trimtab/plan/planner.hpp>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trimtab {

/// How to plan: `--effort`, `--groups`, `--locality`, `--allow-vacant`, `--threads`, and with several load
/// files
/// `--objective` and `--weights`,
/// or with one `--variance` and `--samples`.
struct PlanningOptions {
  PlanOptions plan;
  std::optional<std::int32_t> top_groups;
  std::int32_t top_k = 8;
  bool spill_curve = false;
  std::string variance;  ///< A file of variances, or none.
  std::int32_t samples = 8;
  int threads;

  PlanningOptions();
  void add_to(CLI::App& verb);

  /// Usage error when the options do not fit each other, the model or the ranks.
  void check(std::size_t num_scenarios, std::int32_t num_experts, const Topology& topology) const;

  /// Where `--top-groups` tells it.
  [[nodiscard]] std::optional<GroupLimit> group_limit() const;
};

}  // namespace trimtab
