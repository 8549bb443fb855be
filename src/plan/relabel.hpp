// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/holders.hpp"

namespace trimtab {

/// `row` with the contents of ranks exchanged among ranks of equal standing (live, same slots, same speed),
/// so that fewest experts come to a rank that did not hold them, and of those fewest from another node.
/// Balance stays as it is. With `keep_nodes` ranks trade within their node, and whole nodes with nodes whose
/// ranks are alike one by one, so groups stay together.
[[nodiscard]] std::vector<ExpertId> relabel_ranks(Row row, const Holders& holders, const Topology& topology,
                                                  bool keep_nodes);

/// Moves in `row`: slots of live ranks that hold an expert which the rank did not hold before.
[[nodiscard]] std::int32_t count_moves(Row row, const Holders& holders, const Topology& topology);

}  // namespace trimtab
