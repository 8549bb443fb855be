// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/placement.hpp>
#include <trimtab/core/topology.hpp>

#include <cstdint>
#include <span>
#include <unordered_map>

namespace trimtab {

/// How many live slots of one layer hold an expert: on each rank, in each node, and anywhere.
///
/// A copy is worth keeping inside the smallest of the three groups around it that needs the expert in the
/// end: as long as each of those groups holds one, no expert is lost (I1), and no rank or node has to fetch
/// what it had.
class Holdings {
 public:
  /// `row` is what the slots hold now, `goal` what they hold in the end. Borrows `topology`.
  Holdings(std::span<const ExpertId> row, std::span<const ExpertId> goal, std::int32_t num_experts,
           const Topology& topology);

  /// Whether the group that is to keep the copy of `expert` at `slot` holds no other.
  [[nodiscard]] bool is_last(ExpertId expert, SlotId slot) const;
  /// Whether a copy at `other` would let the one at `slot` go.
  [[nodiscard]] bool is_substitute(ExpertId expert, SlotId slot, SlotId other) const;

  void add(ExpertId expert, SlotId slot) { change(expert, slot, 1); }
  void remove(ExpertId expert, SlotId slot) { change(expert, slot, -1); }

 private:
  /// Ranks, then nodes, then the one of all.
  using Group = std::uint64_t;
  struct Count {
    std::int32_t num_held = 0;
    bool is_needed = false;
  };

  [[nodiscard]] Group rank_group(SlotId slot) const noexcept;
  [[nodiscard]] Group node_group(SlotId slot) const noexcept;
  [[nodiscard]] Group whole_group() const noexcept;
  [[nodiscard]] Group keeping_group(ExpertId expert, SlotId slot) const;
  [[nodiscard]] std::uint64_t key(Group group, ExpertId expert) const noexcept;
  [[nodiscard]] bool needs(Group group, ExpertId expert) const;
  void change(ExpertId expert, SlotId slot, std::int32_t by);

  const Topology& topology_;
  std::uint64_t num_experts_;
  std::unordered_map<std::uint64_t, Count> counts_;
};

}  // namespace trimtab
