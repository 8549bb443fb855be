// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/diff_row.hpp"

namespace trimtab {

/// What the slots of `topology` hold of `before` without any move: rank r keeps what it held, in place where
/// it has room for all, else what is rarest, then heaviest. Dead ranks and ranks that are new hold nothing.
[[nodiscard]] std::vector<ExpertId> carry_over(const RankedRow& before, LayerLoads loads,
                                               const Topology& topology);

/// Vacates slots whose node is not the home of their expert.
void vacate_strangers(std::span<ExpertId> row, std::span<const NodeId> home, const Topology& topology);

/// Whether `after` has more second copies of some expert on some rank than `before`.
[[nodiscard]] bool adds_second_copies(Row before, Row after, const Topology& topology);

/// The contents of each rank permuted so that what was in one of its slots before stays there.
void align_row(const RankedRow& before, std::span<ExpertId> row, const Topology& topology);

}  // namespace trimtab
