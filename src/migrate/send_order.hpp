// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/migrate/program.hpp>

#include <tuple>

namespace trimtab {

/// The order in which every rank sends, and posts its receives, so that the i-th send to a peer meets its
/// i-th receive. Everything that a transfer or relay waits for comes before it in this order, on whatever
/// rank, so some bundle can always go on. Relays are last even where a step does not number its rounds.
[[nodiscard]] inline bool is_sent_before(const Move& a, const Move& b) noexcept {
  const auto place = [](const Move& move) {
    return std::tuple(move.kind == MoveKind::relay, move.round, move.layer, move.destination);
  };
  return place(a) < place(b);
}

}  // namespace trimtab
