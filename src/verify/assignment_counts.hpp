// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/random.hpp"

#include <trimtab/migrate/engine.hpp>
#include <trimtab/record/recorder.hpp>
#include <trimtab/route/routing_table.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trimtab::verify {

/// One rank's tokens: routes a few in every forward, has them counted by slot, and remembers by expert, so
/// that the counts can be compared when they are folded (R5). Not thread-safe.
class AssignmentCounts {
 public:
  AssignmentCounts(std::int32_t num_layers, std::int32_t num_slots, std::int32_t num_experts,
                   std::uint64_t seed);

  /// Routes the tokens of one forward by `table`. @return what the recorder says against it.
  [[nodiscard]] Status route(const RoutingTable& table);

  /// Folds all that was counted, window by window, and compares. With `takes_stale_maps` a window is folded
  /// with the placement of the epoch before its own, where there is one.
  /// @return `corrupt` naming epoch, layer, expert and both counts, or the error of the fold.
  [[nodiscard]] Status check(const Engine& engine, bool takes_stale_maps);

 private:
  static constexpr std::int32_t num_tokens = 3;

  [[nodiscard]] Status compare(const SlotCounts& window, const Placement& placement) const;

  std::int32_t num_layers_;
  std::int32_t num_experts_;
  Recorder recorder_;
  Random random_;
  std::map<Epoch, std::vector<std::int64_t>> routed_;  ///< [layers][experts] of each epoch.
};

}  // namespace trimtab::verify
