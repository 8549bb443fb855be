// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "migrate/copy_rate.hpp"

#include <trimtab/core/clock.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/migrate/engine.hpp>
#include <trimtab/migrate/program.hpp>
#include <trimtab/weights/expert_store.hpp>

#include <cstddef>
#include <optional>
#include <vector>

namespace trimtab {

/// Makes programs out of goals, and stall budgets in bytes out of those in time. Not thread-safe. Borrows
/// store, topology and what is kept.
class GoalBuilder {
 public:
  GoalBuilder(const ExpertStore& store, const Topology& topology, std::size_t staging_budget_bytes,
              bool has_source, const std::vector<KeptExpert>& kept)
      : store_(store),
        topology_(topology),
        staging_budget_bytes_(staging_budget_bytes),
        has_source_(has_source),
        kept_(kept) {}

  [[nodiscard]] CopyRate& copy_rate() noexcept { return copy_rate_; }

  /// What this rank's rate makes of the goal's stall budget; nothing for none.
  /// @return `unavailable` without a rate; the errors of `stall_budget`.
  [[nodiscard]] Result<std::optional<std::size_t>> stall_bytes(const MigrationGoal& goal) const;

  /// The program from `from` in `epoch` to the goal; the errors of `build_program`.
  [[nodiscard]] Result<Program> build(const MigrationGoal& goal, Epoch epoch, const Placement& from,
                                      std::optional<std::size_t> stall_bytes) const;

 private:
  const ExpertStore& store_;
  const Topology& topology_;
  std::size_t staging_budget_bytes_;
  bool has_source_;
  const std::vector<KeptExpert>& kept_;
  CopyRate copy_rate_;
};

}  // namespace trimtab
