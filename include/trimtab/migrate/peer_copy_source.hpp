// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/transport/liveness.hpp>
#include <trimtab/transport/transport.hpp>
#include <trimtab/weights/expert_source.hpp>
#include <trimtab/weights/host_copy_plan.hpp>
#include <trimtab/weights/host_copy_source.hpp>

#include <chrono>
#include <cstddef>
#include <memory>

namespace trimtab {

/// Equal on all ranks.
struct PeerCopyOptions {
  Clock::duration deadline = std::chrono::seconds(1);  ///< For each wait for a keeper's next piece (M9).
  std::size_t piece_bytes = std::size_t{256} << 10;    ///< A bundle comes in pieces of this size.
  std::size_t pieces_ahead = 4;  ///< So many are asked for before the first of them has come.
};

/// Bundles out of the host copies that other ranks keep; and the keeper that gives out those of this rank.
///
/// `read` asks the keepers in the order of the plan, but for those that are gone or silent. When one does not
/// answer within the deadline, dies, has no copy or other bytes than those that were stored, it goes on to
/// the next. Bytes arrive in memory of this object, and only those of the read in hand are copied on: what
/// comes too late is dropped, and touches nothing. They are verified where they are copied to.
/// @return of `read`, when all keepers fail, the code of the last, and what was wrong with each: `timeout`,
///         `peer_lost`, `unavailable` (silent), `not_found`, `corrupt`.
///
/// One per rank; all ranks make theirs. A rank answers only inside `progress` and `read`, so one that serves
/// makes its own with `make_background_peer_copies`.
/// Threads: all calls, from any thread; reads take turns. Ownership: owns its channel, which nothing else may
/// use; shares the copies, which must not change meanwhile; borrows liveness and clock. Memory beside the
/// copies: a piece for every keeper asked so far, and for every piece that is on its way to a peer.
class PeerCopySource : public ExpertSource {
 public:
  /// @param copies    what this rank keeps; null: nothing
  /// @param plan      who keeps what; this rank's own copies are not read through here
  /// @param liveness  null: only what the channel tells of peers that are gone
  /// @return `invalid_argument` for options below 1, or a plan for another number of ranks; errors of the
  ///         channel.
  static Result<std::unique_ptr<PeerCopySource>> make(const PeerCopyOptions& options,
                                                      std::unique_ptr<Transport> channel,
                                                      std::shared_ptr<const HostCopySource> copies,
                                                      HostCopyPlan plan, const Liveness* liveness,
                                                      const Clock& clock);

  /// Answers what peers have asked for. Does not wait.
  /// @return whether they had asked; errors of the channel.
  virtual Result<bool> progress() = 0;

  /// Other copies and another plan from now on, such as those of a new view. Waits for reads.
  /// @return `invalid_argument`, and no effect, for a plan for another number of ranks.
  virtual Status replace(std::shared_ptr<const HostCopySource> copies, HostCopyPlan plan) = 0;
};

/// The same with a thread of its own that calls `progress`, so that a rank answers whatever else it does. Its
/// peers wait at most about `pause` longer for a first piece. The thread ends when the channel fails, which
/// the next `read` tells. The clock must be one that runs by itself.
[[nodiscard]] Result<std::unique_ptr<PeerCopySource>> make_background_peer_copies(
    const PeerCopyOptions& options, std::unique_ptr<Transport> channel,
    std::shared_ptr<const HostCopySource> copies, HostCopyPlan plan, const Liveness* liveness,
    const Clock& clock, Clock::duration pause = std::chrono::milliseconds(1));

}  // namespace trimtab
