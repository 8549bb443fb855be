// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/placement.hpp>
#include <trimtab/core/topology.hpp>

#include <optional>

namespace trimtab::verify {

/// `target` as the live ranks of `topology` can have it: other slots are vacant, and experts that would have
/// none go into vacant slots or those of experts that have several. The same on every rank.
/// @return nothing when a layer has fewer live slots than experts.
[[nodiscard]] std::optional<Placement> goal_among_living(const Placement& target, const Topology& topology);

}  // namespace trimtab::verify
