// SPDX-License-Identifier: Apache-2.0
//
// Against every placement there is, for up to 4 experts in 6 slots on 3 ranks.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>

#include "brute_force.hpp"
#include "delta_cases.hpp"
#include "plan/delta_start.hpp"
#include "plan/relabel.hpp"
#include "support/delta_checks.hpp"
#include "support/plan_checks.hpp"

namespace trimtab::test {
namespace {

constexpr LayerId layer{0};

DrawnDelta draw_tiny_delta() {
  DrawnDelta drawn = draw_delta({.layers = 1,
                                 .nodes = 2,
                                 .ranks_per_node = 3,
                                 .slots_per_rank = 4,
                                 .groups_per_node = 2,
                                 .experts_per_group = 4});
  RC_PRE(is_feasible(drawn.plan) && drawn.plan.loads.num_experts() <= 4);
  RC_PRE(drawn.plan.topology.num_slots() <= 6 && drawn.plan.topology.num_ranks() <= 3);
  return drawn;
}

std::int32_t repeats(Row row, ExpertId expert, Rank rank, const Topology& topology) {
  std::int32_t count = 0;
  for (SlotId slot : topology.slots_of(rank)) count += row[slot.index()] == expert ? 1 : 0;
  return std::max(0, count - 1);
}

/// The rules of a delta plan, as its contract words them.
class Rules {
 public:
  Rules(const DrawnDelta& drawn, const DeltaPlan& made)
      : drawn_(drawn),
        made_(made),
        topology_(drawn.plan.topology),
        from_(drawn.delta.from ? *drawn.delta.from : topology_),
        holders_(drawn.current.layer(layer), drawn.current.num_experts(), from_),
        carried_(carry_over({drawn.current.layer(layer), from_}, drawn.plan.loads.layer(layer), topology_)) {}

  [[nodiscard]] bool allow(Row row) const {
    for (SlotId slot : ids<SlotId>(row.size())) {
      const bool is_vacant = row[slot.index()] == no_expert;
      if (!topology_.is_alive(slot)) {
        if (!is_vacant) return false;
      } else if (is_vacant && !drawn_.plan.options.allow_vacant) {
        return false;
      }
    }
    return allows_repeats(row) && allows_groups(row);
  }

  [[nodiscard]] std::int32_t moves(Row row) const { return count_moves(row, holders_, topology_); }

 private:
  /// No more second copies than now, unless the plan itself could not do without.
  [[nodiscard]] bool allows_repeats(Row row) const {
    return !repeats_more(row) || repeats_more(made_.plan.placement.layer(layer));
  }

  [[nodiscard]] bool repeats_more(Row row) const {
    for (Rank rank : ids<Rank>(topology_.num_ranks())) {
      for (ExpertId e : ids<ExpertId>(drawn_.current.num_experts())) {
        if (repeats(row, e, rank, topology_) > repeats(carried_, e, rank, topology_)) return true;
      }
    }
    return false;
  }

  [[nodiscard]] bool allows_groups(Row row) const {
    return made_.plan.locality != Locality::group_strict ||
           keeps_groups_together(row, drawn_.current.num_experts(), drawn_.plan.options.num_groups,
                                 topology_);
  }

  const DrawnDelta& drawn_;
  const DeltaPlan& made_;
  const Topology& topology_;
  const Topology& from_;
  Holders holders_;
  std::vector<ExpertId> carried_;
};

/// Of all placements as even as the one planned.
std::int32_t fewest_moves(const DrawnDelta& drawn, const DeltaPlan& made) {
  const Rules rules(drawn, made);
  const auto loads = drawn.plan.loads.layer(layer);
  const double limit =
      max_pressure(loads, made.plan.placement.layer(layer), drawn.plan.topology) * (1.0 + 1e-12);
  std::int32_t fewest = std::numeric_limits<std::int32_t>::max();
  for_each_row(drawn.current.num_experts(), drawn.plan.topology, [&](Row row) {
    if (!rules.allow(row) || max_pressure(loads, row, drawn.plan.topology) > limit) return;
    fewest = std::min(fewest, rules.moves(row));
  });
  return fewest;
}

RC_GTEST_PROP(TinyDelta, LiesBetweenTheFewestMovesAndTheBound, ()) {
  const DrawnDelta drawn = draw_tiny_delta();
  SerialExecutor executor;
  const auto made = plan_delta(drawn.plan.loads, drawn.current, drawn.plan.topology, drawn.plan.options,
                               drawn.delta, executor);
  const bool has_load = made.has_value() && !made->plan.layers[0].is_dense;
  RC_PRE(has_load);
  const LayerDelta& delta = made->layers[0];
  const std::int32_t fewest = fewest_moves(drawn, *made);
  RC_CLASSIFY(delta.counts.moves == fewest, "fewest moves");
  RC_CLASSIFY(delta.counts.moves == fewest + 1, "one move more");
  RC_CLASSIFY(delta.moves_bound == fewest, "bound is exact");
  RC_ASSERT(delta.moves_bound <= fewest);
  RC_ASSERT(delta.counts.moves >= fewest);
}

}  // namespace
}  // namespace trimtab::test
