// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/result.hpp>

#include <cstdint>
#include <string_view>

namespace trimtab {

/// How an assignment is given to one of its expert's replicas. None samples at random.
enum class DispatchMode : std::uint8_t {
  /// The replica nearest to the rank that dispatches: on the same rank, else on the same node, else anywhere.
  /// Which one is the same for all assignments under one table; ranks that lack a nearer one are dealt out so
  /// that each replica gets its share of their tokens.
  nearest,
  /// The index of the token decides, so that ranks which hold the same tokens agree (R3). Keeps no state.
  rank_invariant,
  /// Shares are met to within one assignment per replica over everything this rank dispatched under the
  /// table, within two over any part of it (R4).
  quota,
  /// How many assignments of the batch each slot takes is given, and met exactly.
  exact_batch,
};

/// As options and messages spell it: `nearest`, `rank-invariant`, `quota`, `exact-batch`.
[[nodiscard]] std::string_view to_string(DispatchMode mode) noexcept;

/// @return `invalid_argument` naming `text` and what it may be.
[[nodiscard]] Result<DispatchMode> parse_dispatch_mode(std::string_view text);

}  // namespace trimtab
