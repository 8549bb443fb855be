// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/migrate/program.hpp>

namespace trimtab {

/// Puts the remote moves of `step` into rounds of disjoint pairs: transfers first, then relays, each in as
/// many rounds as the busiest rank sends or receives (König's theorem). Depends on the order of the moves and
/// nothing else.
void assign_rounds(Step& step, const Topology& topology);

}  // namespace trimtab
