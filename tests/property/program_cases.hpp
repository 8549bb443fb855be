// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/migrate/program.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace trimtab::test {

/// All that shapes one program.
struct ProgramCase {
  Topology topology;
  Placement from;
  Placement to;
  std::vector<std::size_t> bundle_bytes;
  std::size_t staging_budget_bytes = 0;
  std::optional<std::size_t> stall_budget_bytes;

  [[nodiscard]] ProgramInput input() const {
    return {Epoch{3}, from, to, topology, bundle_bytes, staging_budget_bytes, stall_budget_bytes};
  }
};

struct ProgramCaseLimits {
  std::int32_t layers = 3;
  std::int32_t ranks = 7;
  std::int32_t slots_per_rank = 7;
  bool may_have_dead_ranks = true;
};

/// Draws uneven and dead ranks, nodes whose ranks are not neighbours, vacant slots, duplicates on a rank,
/// replicas that appear and vanish; placements that differ in little or in everything; budgets from one
/// bundle on. Only inside a property.
ProgramCase draw_program_case(const ProgramCaseLimits& limits);

/// The first rule that `program` breaks, or "". Everything is counted anew from moves and placements.
std::string find_fault(const ProgramCase& drawn, const Program& program);

/// Slots of `layer` that get another expert, on the rank that has most of them.
std::size_t max_fills(const ProgramCase& drawn, LayerId layer);

}  // namespace trimtab::test
