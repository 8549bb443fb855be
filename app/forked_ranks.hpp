// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/commands.hpp"

#include <trimtab/transport/bootstrap.hpp>

#include <cstdint>
#include <functional>

namespace trimtab {

/// One rank's work, in a process of its own.
using RankBody = std::function<Outcome(const Bootstrap& bootstrap)>;

/// Ranks whose loss is none of the others'.
struct RankLosses {
  std::function<bool(Rank)> may_be_lost;
  /// Told why such a rank failed, when others have served to the end.
  std::function<void(const Error&)> on_lost;
};

/// Runs `body` in `num_ranks` forked processes that can meet by their bootstraps, and waits for all of them.
/// Nothing outlives the call: ranks die with this process. To be called before it has any thread.
/// A rank that may be lost, and is stopped (SIGSTOP), is killed when all others have ended.
/// @return the first status that is not ok of those that served to the end, when all others may be lost; else
/// the cause (others then only lost their peer), or `peer_lost` naming a rank and the signal that killed it.
[[nodiscard]] Outcome run_forked_ranks(std::int32_t num_ranks, const RankBody& body,
                                       const RankLosses& losses);

}  // namespace trimtab
