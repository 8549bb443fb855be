// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/placement.hpp>

#include <deque>
#include <utility>

namespace trimtab {

/// The placement in service and those before it that somebody may still count by. Not thread-safe.
class PlacementHistory {
 public:
  PlacementHistory(Epoch epoch, Placement placement) {
    placements_.emplace_back(epoch, std::move(placement));
  }

  [[nodiscard]] Epoch epoch() const noexcept { return placements_.back().first; }
  [[nodiscard]] const Placement& placement() const noexcept { return placements_.back().second; }
  /// Null when it was forgotten or never was in service.
  [[nodiscard]] const Placement* find(Epoch epoch) const noexcept;

  /// `placement` is in service from the next epoch on.
  void push(Placement placement);
  /// Frees those below `oldest`, but for the one in service.
  void forget_before(Epoch oldest);

 private:
  std::deque<std::pair<Epoch, Placement>> placements_;  ///< Ascending; the last is in service.
};

}  // namespace trimtab
