// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/topology.hpp>

#include <span>

namespace trimtab::test {

/// Largest over mean rank load (by speed) when each expert's load is divided between its live ranks as well
/// as it can be: what no split of this row can beat. Found by max-flow, to ask placements what they could do.
[[nodiscard]] double best_split_imbalance(std::span<const double> loads, std::span<const ExpertId> row,
                                          const Topology& topology);

}  // namespace trimtab::test
