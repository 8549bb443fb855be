// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/commands.hpp"

#include <trimtab/transport/bootstrap.hpp>

#include <cstdint>
#include <functional>

namespace trimtab {

/// One rank's work, in a process of its own.
using RankBody = std::function<Outcome(const Bootstrap& bootstrap)>;

/// Runs `body` in `num_ranks` forked processes that can meet by their bootstraps, and waits for all of them.
/// Nothing outlives the call: ranks die with this process. To be called before it has any thread.
/// @param may_die  whether a rank's death by a signal is no failure
/// @return what the ranks came to: the cause, when some fail (others then only lost their peer); the first
///         status that is not ok; or `peer_lost` naming a rank and the signal that killed it.
[[nodiscard]] Outcome run_forked_ranks(std::int32_t num_ranks, const RankBody& body,
                                       const std::function<bool(Rank)>& may_die);

}  // namespace trimtab
