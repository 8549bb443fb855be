// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/row.hpp"

namespace trimtab {

/// max / mean rank load, by speed, when each expert's load is divided between its live slots as well as it
/// can be; 1.0 for zero load. Precondition: every expert has a live slot.
[[nodiscard]] double exact_imbalance(LayerLoads loads, Row row, const Topology& topology);

}  // namespace trimtab
