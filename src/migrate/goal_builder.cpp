// SPDX-License-Identifier: Apache-2.0
#include "migrate/goal_builder.hpp"

#include <vector>

namespace trimtab {

Result<std::optional<std::size_t>> GoalBuilder::stall_bytes(const MigrationGoal& goal) const {
  if (!goal.stall_budget) return std::optional<std::size_t>();
  const std::optional<double> rate = copy_rate_.bytes_per_s();
  if (!rate) return failure(Errc::unavailable, "no copy rate is known: the clock stands still");
  Result<std::size_t> bytes = stall_budget(*goal.stall_budget, *rate);
  if (!bytes) return failure(std::move(bytes));
  return std::optional(*bytes);
}

Result<Program> GoalBuilder::build(const MigrationGoal& goal, Epoch epoch, const Placement& from,
                                   std::optional<std::size_t> stall_bytes) const {
  std::vector<std::size_t> bundle_bytes;
  for (LayerId layer : ids<LayerId>(store_.num_layers())) bundle_bytes.push_back(store_.bundle_bytes(layer));
  return build_program({.epoch = epoch,
                        .from = from,
                        .to = goal.to,
                        .topology = topology_,
                        .bundle_bytes = bundle_bytes,
                        .staging_budget_bytes = staging_budget_bytes_,
                        .stall_budget_bytes = stall_bytes,
                        .has_source = has_source_,
                        .kept = kept_});
}

}  // namespace trimtab
