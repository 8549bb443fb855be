// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/placement.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/route/routing_table.hpp>

#include <cstdint>

namespace trimtab {

/// Makes the routing table that a step's commit publishes, so that a new placement is met with the right
/// shares from its first forward on. Immutable; equal on all ranks of a program.
class TableCompiler {
 public:
  virtual ~TableCompiler() = default;

  /// Pure: the same table on every rank. Called before the vote; an error becomes a no.
  [[nodiscard]] virtual Result<RoutingTable> compile(const Placement& placement, const Topology& topology,
                                                     TableIdentity identity) const = 0;

  /// Of all that shapes the tables; ranks that differ in it do not agree on the program (M6).
  [[nodiscard]] virtual std::uint64_t fingerprint() const noexcept = 0;
};

}  // namespace trimtab
