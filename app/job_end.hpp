// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/commands.hpp"

#include <trimtab/transport/collectives.hpp>
#include <trimtab/transport/mpi.hpp>

#include <chrono>
#include <string>
#include <string_view>

namespace trimtab {

// A launcher kills the whole job as soon as one process ends with another status than 0. So whatever a rank
// has to say must be said while the others still wait for it, which they do until all have left MPI.

/// Where MPI would wait for ever for a rank, the job ends after `deadline` with a line of `who` and the
/// status of a lost peer.
[[nodiscard]] MpiLimits job_limits(std::string who, std::chrono::milliseconds deadline);

/// Makes one outcome of what the ranks found, each for itself: ok, or on every rank the error of the lowest
/// rank that has one, with that rank's number unless it is 0. Collective over `root`.
/// @return an error of its own when a rank does not come: the ranks do not agree then.
[[nodiscard]] Result<Status> agree(Transport& root, const Clock& clock, const CollectiveOptions& options,
                                   const Status& mine);

/// To be called before the session of the job ends: brings standard output out, and says an error on the
/// rank that `speaks`. @return what the process ends with.
[[nodiscard]] ExitStatus say_before_end(std::string_view who, const Outcome& outcome, bool speaks);

}  // namespace trimtab
