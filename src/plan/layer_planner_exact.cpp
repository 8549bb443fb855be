// SPDX-License-Identifier: Apache-2.0
//
// What LayerPlanner does for the exact split.
#include "plan/connect.hpp"
#include "plan/layer_planner.hpp"
#include "plan/split_search.hpp"

#include <algorithm>

namespace trimtab {
namespace {

/// What a connected replica graph may cost of the even balance.
constexpr double connecting_costs = 1.0 + 5e-3;
constexpr double rounding = 1e-12;

std::size_t split_steps_per_slot(Effort effort) { return effort == Effort::thorough ? 100 : 20; }
std::size_t split_rounds_of(Effort effort) { return effort == Effort::thorough ? 8 : 4; }

}  // namespace

double LayerPlanner::plan_exact(std::span<const Scenario> scenarios, std::span<ExpertId> row,
                                Parts& parts) const {
  const Scenario& first = scenarios.front();
  parts = first.parts;
  const auto spread =
      scenarios.size() == 1 ? part_maker_.count_for_split(first.loads, parts) : std::optional<Parts>();
  if (!spread) {
    parts = plan_even(scenarios, row);
    return plan_for_split(scenarios, parts, row);
  }
  plan_one(first.loads, *spread, row);
  const double exact = plan_for_split(scenarios, *spread, row);
  if (exact <= bound_of(scenarios, ShareMode::exact) * (1.0 + rounding)) return exact;
  std::vector<ExpertId> even(row.size());
  plan_even(scenarios, even);
  const double of_even = exact_imbalance_of(scenarios, even);
  if (of_even >= exact) return exact;
  std::copy(even.begin(), even.end(), row.begin());
  return connect(scenarios, of_even, row);
}

// Connected ranks level each other, so most rows need nothing else.
double LayerPlanner::plan_for_split(std::span<const Scenario> scenarios, const Parts& parts,
                                    std::span<ExpertId> row) const {
  double exact = connect(scenarios, exact_imbalance_of(scenarios, row), row);
  if (options_.effort == Effort::fast || exact <= bound_of(scenarios, ShareMode::exact) * good_enough)
    return exact;
  std::vector<LoadView> views = views_of(scenarios, ShareMode::exact, row);
  search_split(views, parts);
  const Row found = views.front().packing.row();
  const double optimum = exact_imbalance_of(scenarios, found);
  if (optimum >= exact) return exact;
  std::copy(found.begin(), found.end(), row.begin());
  return connect(scenarios, optimum, row);
}

void LayerPlanner::search_split(std::span<LoadView> views, const Parts& parts) const {
  SplitSearchOptions searching{
      .objective = options_.objective,
      .good_enough = good_enough,
      .max_steps = split_steps_per_slot(options_.effort) * views[0].packing.row().size(),
      .rounds = split_rounds_of(options_.effort)};
  const bool spills = options_.locality == Locality::group_spill;
  const SpillLimit limit{parts.home, options_.spill};
  if (spills) {
    searching.spill = &limit;
    return search_for_split(views, part_maker_.everything(), searching);
  }
  for (const Part& part : parts.parts) search_for_split(views, part.region, searching);
}

// The connected row may cost a little of the even balance: it pays with the first drift that shares absorb.
double LayerPlanner::connect(std::span<const Scenario> scenarios, double exact,
                             std::span<ExpertId> row) const {
  const double before = imbalance_of(scenarios, row);
  std::vector<ExpertId> connected(row.begin(), row.end());
  const std::vector<double> loads =
      scenarios.size() == 1 ? std::vector<double>(scenarios[0].loads.begin(), scenarios[0].loads.end())
                            : common_loads(scenarios);
  const double mean = load_of(part_maker_.everything().experts, loads) / topology_.total_speed();
  connect_replicas(loads, topology_,
                   {.max_pressure = bound_of(scenarios, ShareMode::even) * mean * connecting_costs,
                    .within_nodes = locality_is_by_group_},
                   connected);
  if (imbalance_of(scenarios, connected) > before * connecting_costs) return exact;
  const double optimum = exact_imbalance_of(scenarios, connected);
  if (optimum > exact * (1.0 + rounding)) return exact;
  std::copy(connected.begin(), connected.end(), row.begin());
  return optimum;
}

}  // namespace trimtab
