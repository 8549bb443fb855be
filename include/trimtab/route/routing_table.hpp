// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/model_role.hpp>
#include <trimtab/core/placement.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/split/split.hpp>

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

struct TableOptions {
  ModelRole model = ModelRole::target;
  /// [ranks]: how many tokens each rank sends, to weigh ranks in mode `nearest`. Empty, or zero for all live
  /// ranks: the live ranks send the same.
  std::span<const std::int64_t> source_loads = {};
};

/// The content of a table, as `RoutingTable::view` shows it and a buffer stores it.
struct TableParts {
  std::int32_t num_layers = 0;
  std::int32_t num_experts = 0;
  std::vector<std::uint32_t> first_replica = {};  ///< [layers * experts + 1]
  std::vector<SlotId> slots = {};
  std::vector<std::uint32_t> share_begins = {};  ///< Beside `slots`.
};

/// Placement and split, compiled for look-up: for each layer and expert the live slots that serve it, and the
/// share of each, in CSR form.
///
/// A share is a whole number of parts of `whole_share`; the shares of one expert sum to it exactly. Each is
/// less than one part from the exact ratio: below half a token over 2^31 tokens. Slots left without a part
/// are not listed, nor are dead and vacant ones; what was theirs falls to the other slots of the expert,
/// evenly when all of it was theirs.
///
/// Immutable; safe to read from any thread. Memory is O(slots + experts) per layer, never
/// O(experts x ranks).
class RoutingTable {
 public:
  static constexpr std::uint64_t whole_share = std::uint64_t{1} << 32;

  /// Even shares: every live replica takes the same.
  /// @return the error of `check_live` when an expert has no live slot; `invalid_argument` naming the rank
  ///         when a source load is negative, the sizes when there is not one for each rank, or their sum when
  ///         it is 2^62 or more.
  static Result<RoutingTable> compile(const Placement& placement, const Topology& topology,
                                      TableIdentity identity, const TableOptions& options = {});

  /// The shares of `split`.
  /// @return as above; `invalid_argument` with both shapes when split and placement differ in theirs.
  static Result<RoutingTable> compile(const Placement& placement, const Topology& topology,
                                      TableIdentity identity, const Split& split,
                                      const TableOptions& options = {});

  /// A table from parts that came from elsewhere; none of them is trusted.
  /// @return `corrupt` naming layer, expert and value when sizes do not agree, an expert has no slot, slots
  /// of
  ///         an expert do not ascend, a slot serves two experts, is not in `topology` or on no live rank, or
  ///         shares do not begin at 0 and ascend; errors of source loads as above.
  static Result<RoutingTable> restore(TableParts parts, const Topology& topology, TableIdentity identity,
                                      const TableOptions& options = {});

  [[nodiscard]] TableIdentity identity() const noexcept { return identity_; }
  [[nodiscard]] ModelRole model() const noexcept { return model_; }
  /// Of identity, model and all content: tables that differ in anything differ here.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept { return fingerprint_; }
  [[nodiscard]] std::int32_t num_layers() const noexcept { return num_layers_; }
  [[nodiscard]] std::int32_t num_experts() const noexcept { return num_experts_; }
  [[nodiscard]] std::int32_t num_slots() const noexcept { return topology_.num_slots(); }
  [[nodiscard]] const Topology& topology() const noexcept { return topology_; }
  /// [ranks + 1]: tokens that the ranks below each send, as far as they live.
  [[nodiscard]] std::span<const std::int64_t> source_loads_before() const noexcept {
    return source_loads_before_;
  }
  /// Memory that the table holds.
  [[nodiscard]] std::size_t bytes() const noexcept;

  /// The slots that serve one expert, ascending; never empty.
  [[nodiscard]] std::span<const SlotId> replicas(LayerId layer, ExpertId expert) const noexcept {
    const std::size_t row = row_of(layer, expert);
    return std::span(slots_).subspan(first_replica_[row], first_replica_[row + 1] - first_replica_[row]);
  }
  /// Beside `replicas`: where the share of each begins, in parts; it ends where the next begins, the last at
  /// `whole_share`. The first is 0, and each is above the one before.
  [[nodiscard]] std::span<const std::uint32_t> share_begins(LayerId layer, ExpertId expert) const noexcept {
    const std::size_t row = row_of(layer, expert);
    return std::span(share_begins_)
        .subspan(first_replica_[row], first_replica_[row + 1] - first_replica_[row]);
  }

  /// The share of the i-th replica, in parts, given `share_begins` of its expert.
  [[nodiscard]] static std::uint64_t share_at(std::span<const std::uint32_t> begins, std::size_t i) noexcept {
    return (i + 1 < begins.size() ? begins[i + 1] : whole_share) - begins[i];
  }

  /// All layers: the replicas of expert e of layer l are at the places `first[l * experts + e]` up to the
  /// next entry.
  struct View {
    std::span<const std::uint32_t> first;  ///< [layers * experts + 1]
    std::span<const SlotId> slots;
    std::span<const std::uint32_t> share_begins;
  };
  [[nodiscard]] View view() const noexcept { return {first_replica_, slots_, share_begins_}; }

 private:
  struct Inputs;

  RoutingTable(std::int32_t num_layers, std::int32_t num_experts, const Topology& topology,
               TableIdentity identity, const TableOptions& options);
  static Result<RoutingTable> compile(const Inputs& inputs, TableIdentity identity,
                                      const TableOptions& options);
  [[nodiscard]] std::size_t row_of(LayerId layer, ExpertId expert) const noexcept {
    return layer.index() * static_cast<std::size_t>(num_experts_) + expert.index();
  }
  void reserve();
  void add_row(std::span<const SlotId> replicas, std::span<const std::int64_t> assignments);
  void add_even(std::span<const SlotId> replicas, std::size_t num_live);
  void add_shared(std::span<const SlotId> replicas, std::span<const std::int64_t> assignments);
  void add_source_loads(std::span<const std::int64_t> loads);
  [[nodiscard]] std::uint64_t compute_fingerprint() const;

  std::int32_t num_layers_;
  std::int32_t num_experts_;
  TableIdentity identity_;
  ModelRole model_;
  std::uint64_t fingerprint_ = 0;
  Topology topology_;
  std::vector<std::int64_t> source_loads_before_;  ///< [ranks + 1]
  std::vector<std::uint32_t> first_replica_;       ///< [layers * experts + 1]
  std::vector<SlotId> slots_;
  std::vector<std::uint32_t> share_begins_;  ///< Beside slots_.
};

}  // namespace trimtab
