// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/plan/planner.hpp>

#include <cstdint>
#include <vector>

namespace trimtab {

/// Slots per layer to try: first, first + step, … up to `last`, which is included where the step meets it.
struct SlotRange {
  std::int32_t first = 0;
  std::int32_t last = 0;
  std::int32_t step = 1;
};

/// What a placement reaches, max / mean rank load. With several scenarios each figure is that of the scenario
/// where it is largest.
struct SweepFigure {
  double mean = 1.0;   ///< Over layers that are not dense in that scenario.
  double worst = 1.0;  ///< Layer.
};

struct SlotSweepPoint {
  std::int32_t slots = 0;      ///< Per layer, over all ranks.
  std::int32_t redundant = 0;  ///< Live slots - experts.
  SweepFigure even;            ///< Planned for even shares, under even shares.
  SweepFigure even_split;      ///< The same placement under the exact split: what shares alone would add.
  SweepFigure exact;           ///< Planned for the exact split, under the exact split.
  SweepFigure exact_even;  ///< The same placement under even shares: what it costs an engine without split.
};

/// The curve of redundant slots against imbalance: how many slots a service needs with even shares, and how
/// many with the exact split. At each point one placement is planned for all scenarios together, for either
/// kind of shares.
///
/// Pure, like plan_rebalance, and parallel over layers. The figures do not depend on the objective, which
/// only says what the plans make small.
/// @param ranks    nodes, speeds and liveness count; slot counts do not: the slots of a point are divided
///                 evenly over all ranks, the first ranks have one more where they do not divide them
/// @param options  for every plan but `shares`, which are those of the figure
/// @return `invalid_argument` when a bound of the range is below 1, the last below the first or the step
///         below 1; the errors of plan_rebalance, each naming the number of slots it met
[[nodiscard]] Result<std::vector<SlotSweepPoint>> sweep_slots(std::span<const LoadMatrix> scenarios,
                                                              const Topology& ranks, const SlotRange& range,
                                                              const PlanOptions& options, Executor& executor);

}  // namespace trimtab
