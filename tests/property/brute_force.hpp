// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/topology.hpp>

#include <cstdint>
#include <functional>
#include <span>

namespace trimtab::test {

/// Calls `visit` with every row of `num_slots` entries, vacant slots included, in which each expert has a
/// slot on a live rank. (E + 1)^S rows are tried: for tiny cases only.
void for_each_row(std::int32_t num_experts, const Topology& topology,
                  const std::function<void(std::span<const ExpertId>)>& visit);

/// No expert twice on a rank.
[[nodiscard]] bool has_no_duplicates(std::span<const ExpertId> row, const Topology& topology);

/// Largest load / speed of a live rank under even shares.
[[nodiscard]] double max_pressure(std::span<const double> loads, std::span<const ExpertId> row,
                                  const Topology& topology);

/// Largest load of one replica on a live rank.
[[nodiscard]] double max_share(std::span<const double> loads, std::span<const ExpertId> row,
                               const Topology& topology);

/// Least share of the load that live replicas outside the home node of their group serve, over all ways to
/// give each node equally many groups as their home.
[[nodiscard]] double least_spill(std::span<const double> loads, std::span<const ExpertId> row,
                                 std::int32_t num_groups, const Topology& topology);

}  // namespace trimtab::test
