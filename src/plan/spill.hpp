// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/anneal.hpp"

#include <optional>

namespace trimtab {

/// Load of `row` that replicas outside their expert's home node serve, as a share of all load; 0 of no load.
[[nodiscard]] double spilled_share(LayerLoads loads, Row row, std::span<const NodeId> home,
                                   const Topology& topology);

/// Follows what lies outside its home while views are changed, and says which changes the limit allows.
/// Without a limit it allows everything and costs nothing.
class SpillLedger {
 public:
  /// Borrows both.
  SpillLedger(const SpillLimit* limit, std::span<const LoadView> views);

  /// What a change does to the spilled share, the mean over the views by weight; nullopt when a view would
  /// leave its limit, or get further from it. The arguments are those of Packing::swap and Packing::put, to
  /// be called before the packings change.
  [[nodiscard]] std::optional<double> price_swap(SlotId a, SlotId b) const {
    return limit_ == nullptr ? 0.0 : price(after_swap(a, b));
  }
  [[nodiscard]] std::optional<double> price_put(SlotId slot, ExpertId expert) const {
    return limit_ == nullptr ? 0.0 : price(after_put(slot, expert));
  }
  /// Takes note of a change, also before the packings change.
  void swap(SlotId a, SlotId b) {
    if (limit_ != nullptr) take(after_swap(a, b));
  }
  void put(SlotId slot, ExpertId expert) {
    if (limit_ != nullptr) take(after_put(slot, expert));
  }

 private:
  /// Two experts with more or fewer replicas, abroad and in all.
  struct Change {
    struct OfExpert {
      ExpertId expert;
      std::int32_t abroad;
      std::int32_t copies;
    };
    OfExpert first, second;
  };

  [[nodiscard]] std::int32_t is_abroad(ExpertId expert, SlotId slot) const;
  [[nodiscard]] Change after_swap(SlotId a, SlotId b) const;
  [[nodiscard]] Change after_put(SlotId slot, ExpertId expert) const;
  [[nodiscard]] double spill_change(const LoadView& view, const Change::OfExpert& of) const;
  [[nodiscard]] std::optional<double> price(const Change& change) const;
  void take(const Change& change);

  const SpillLimit* limit_;
  std::span<const LoadView> views_;
  std::vector<std::int32_t> abroad_;  ///< By ExpertId: replicas outside the home node.
  std::vector<double> spilled_;       ///< By view: load.
  std::vector<double> total_;         ///< By view: load.
};

}  // namespace trimtab
