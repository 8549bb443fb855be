// SPDX-License-Identifier: Apache-2.0
#include "delta_cases.hpp"

#include <rapidcheck.h>

#include <algorithm>

namespace trimtab::test {
namespace {

Topology draw_old_ranks(std::int32_t num_experts) {
  std::vector<RankInfo> ranks;
  std::int32_t slots = 0;
  while (slots < num_experts) {
    ranks.push_back({NodeId{0}, *rc::gen::inRange(1, 6)});
    slots += ranks.back().num_slots;
  }
  return Topology::make(std::move(ranks)).value();
}

std::vector<ExpertId> draw_row(std::int32_t num_slots, std::int32_t num_experts) {
  std::vector<ExpertId> row;
  for (std::int32_t s = 0; s < num_slots; ++s) {
    row.push_back(ExpertId{s < num_experts ? s : *rc::gen::inRange(-1, num_experts)});
  }
  for (std::size_t s = row.size(); s > 1; --s) {
    std::swap(row[s - 1], row[*rc::gen::inRange(std::size_t{0}, s)]);
  }
  return row;
}

/// Either drawn, or planned without regard to groups for other loads.
Placement draw_placement(std::int32_t num_layers, std::int32_t num_experts, const Topology& topology) {
  std::vector<ExpertId> map;
  for (std::int32_t layer = 0; layer < num_layers; ++layer) {
    const std::vector<ExpertId> row = draw_row(topology.num_slots(), num_experts);
    map.insert(map.end(), row.begin(), row.end());
  }
  return Placement::make(num_layers, topology.num_slots(), num_experts, std::move(map)).value();
}

DeltaOptions draw_options() {
  DeltaOptions delta;
  const int kind = *rc::gen::inRange(0, 5);
  if (kind == 1) delta.max_moves = *rc::gen::inRange(0, 12);
  if (kind == 2) {
    delta.expert_bytes = 3;
    delta.move_budget_bytes = static_cast<std::uint64_t>(*rc::gen::inRange(0, 60));
  }
  if (kind >= 3) delta.within = *rc::gen::inRange(0, 4) * 0.1;
  delta.fine_curve = *rc::gen::arbitrary<bool>();
  return delta;
}

}  // namespace

DrawnDelta draw_delta(const CaseLimits& limits) {
  PlanCase plan = draw_case(limits);
  const Locality locality = plan.options.locality;
  RC_PRE(locality == Locality::automatic || locality == Locality::none || locality == Locality::group_strict);
  DeltaOptions delta = draw_options();
  const std::int32_t num_experts = plan.loads.num_experts();
  const bool has_room = plan.topology.num_slots() >= num_experts;
  if (!has_room || *rc::gen::weightedElement<bool>({{3, false}, {1, true}})) {
    delta.from = draw_old_ranks(num_experts);
  }
  Placement current =
      draw_placement(plan.loads.num_layers(), num_experts, delta.from ? *delta.from : plan.topology);
  return {std::move(plan), std::move(current), std::move(delta)};
}

}  // namespace trimtab::test
