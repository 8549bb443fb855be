// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/plan/diff.hpp>

#include "plan/holders.hpp"

namespace trimtab {

/// One layer of a placement with the ranks it was made for.
struct RankedRow {
  Row row;
  const Topology& topology;
};

/// The changes of one layer; `holders` are those of `before`.
[[nodiscard]] LayerDiff diff_rows(LayerId layer, const RankedRow& before, const Holders& holders,
                                  const RankedRow& after);

}  // namespace trimtab
