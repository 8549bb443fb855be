// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/placement.hpp>
#include <trimtab/core/topology.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// Which table a batch was routed by. A change of placement raises the epoch; a change of shares alone raises
/// the version.
struct TableIdentity {
  Epoch epoch;
  std::uint32_t split_version = 0;

  friend bool operator==(const TableIdentity&, const TableIdentity&) = default;
};

/// Placement and split, compiled for look-up: for each layer and expert the live slots that serve it, in CSR
/// form. The split is even: every live replica takes the same share.
///
/// Immutable; safe to read from any thread. Memory is O(slots), never O(experts x ranks).
class RoutingTable {
 public:
  /// @return the error of `check_live` when an expert has no live slot.
  static Result<RoutingTable> compile(const Placement& placement, const Topology& topology,
                                      TableIdentity identity);

  [[nodiscard]] TableIdentity identity() const noexcept { return identity_; }
  [[nodiscard]] std::int32_t num_layers() const noexcept { return num_layers_; }
  [[nodiscard]] std::int32_t num_experts() const noexcept { return num_experts_; }
  /// The live slots of one expert, ascending; never empty.
  [[nodiscard]] std::span<const SlotId> replicas(LayerId layer, ExpertId expert) const noexcept {
    const std::size_t row = layer.index() * static_cast<std::size_t>(num_experts_) + expert.index();
    return std::span(slots_).subspan(first_replica_[row], first_replica_[row + 1] - first_replica_[row]);
  }

  /// One layer, laid out for a loop over assignments: the replicas of expert e are `slots[first[e]]` to
  /// `slots[first[e + 1] - 1]`, and the replica after place i in its expert's ring is at place `after[i]`.
  struct LayerView {
    std::span<const std::uint32_t> first;  ///< [experts + 1]
    std::span<const SlotId> slots;         ///< Of all layers.
    std::span<const std::uint32_t> after;  ///< Of all layers.
  };
  [[nodiscard]] LayerView layer(LayerId layer) const noexcept {
    const auto width = static_cast<std::size_t>(num_experts_);
    return {std::span(first_replica_).subspan(layer.index() * width, width + 1), slots_, after_};
  }

 private:
  RoutingTable(std::int32_t num_layers, std::int32_t num_experts, TableIdentity identity);
  /// Appends the live slots of the next expert; there must be one.
  void add_row(std::span<const SlotId> replicas, const Topology& topology);

  std::int32_t num_layers_;
  std::int32_t num_experts_;
  TableIdentity identity_;
  std::vector<std::uint32_t> first_replica_;  ///< [layers * experts + 1]
  std::vector<SlotId> slots_;
  std::vector<std::uint32_t> after_;  ///< Beside slots_: the next place in the ring.
};

}  // namespace trimtab
