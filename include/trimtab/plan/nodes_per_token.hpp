// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/topology.hpp>

#include <cstdint>
#include <span>

namespace trimtab {

/// How a router with a group limit chooses: `top_k` experts out of the best `top_groups` of `num_groups`
/// consecutive, equally large expert groups.
struct GroupLimit {
  std::int32_t num_groups = 1;
  std::int32_t top_groups = 1;
  std::int32_t top_k = 1;
};

struct NodesPerToken {
  double mean = 0.0;     ///< Expected.
  std::int32_t max = 0;  ///< No token needs more.
};

/// How many nodes a token's experts lie on in one layer, when every replica of an expert is as likely as
/// another.
///
/// Loads do not tell which experts are chosen together, so the mean assumes: a set of groups is as likely as
/// the product of their loads, and from each of them the token draws top_k / top_groups experts by load.
/// O(nodes * groups * top_groups).
/// @param loads  by logical expert
/// @param row    expert of each slot; slots of dead ranks are ignored
/// Precondition: the groups divide the experts, 1 <= top_groups <= num_groups, top_k >= 1, every loaded
/// expert has a live slot. Zero load: {0, 0}.
[[nodiscard]] NodesPerToken compute_nodes_per_token(std::span<const double> loads,
                                                    std::span<const ExpertId> row, const Topology& topology,
                                                    const GroupLimit& limit);

}  // namespace trimtab
