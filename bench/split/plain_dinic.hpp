// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/topology.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace trimtab::bench {

/// What the split is measured beside: the same optimum in whole assignments by plain means, over a network
/// that is prepared too. No order below the fullest ranks, no tight set.
class PlainSplit {
 public:
  virtual ~PlainSplit() = default;

  /// Returns the largest rank load.
  virtual std::int64_t solve(std::span<const std::int64_t> loads, std::span<std::int64_t> assignments) = 0;
};

/// Dinic's blocking flows as textbooks have them, and discrete Newton steps on the target. All ranks alive,
/// of equal speed.
std::unique_ptr<PlainSplit> make_dinic_split(std::span<const ExpertId> row, std::int32_t num_experts,
                                             const Topology& topology);

/// LEMON's preflow push in the place of Dinic.
std::unique_ptr<PlainSplit> make_lemon_split(std::span<const ExpertId> row, std::int32_t num_experts,
                                             const Topology& topology);

}  // namespace trimtab::bench
