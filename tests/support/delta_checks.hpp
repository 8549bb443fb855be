// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/plan/delta.hpp>

#include <string>

namespace trimtab::test {

/// One call of plan_delta.
struct DeltaCase {
  const LoadMatrix& loads;
  const Placement& current;
  const Topology& topology;
  const PlanOptions& options;
  const DeltaOptions& delta;
};

/// Planned on the calling thread; stops the test program where planning fails.
[[nodiscard]] DeltaPlan delta_of(const DeltaCase& given);

/// Empty, or the first broken promise: experts live (I1), nothing vacant without leave, no second copies
/// beyond those of `current` and the unavoidable ones (I2), groups together, counts and imbalance as
/// reported, limits kept, the balance asked for reached, experts that stay in their slots, a falling curve.
[[nodiscard]] std::string broken_delta(const DeltaPlan& made, const DeltaCase& given);

/// Mean over the layers that are not dense.
[[nodiscard]] double mean_imbalance(const DeltaPlan& made);
[[nodiscard]] std::int64_t total_moves(const DeltaPlan& made);
/// Moves over slots, of all layers.
[[nodiscard]] double share_moved(const DeltaPlan& made);

}  // namespace trimtab::test
