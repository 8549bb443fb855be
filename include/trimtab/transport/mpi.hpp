// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/transport.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace trimtab {

/// How long a job waits for a rank that is dead or silent, where MPI itself would wait for ever: when it
/// starts and ends, and when a channel is opened or joined. The same on every rank.
///
/// There is no going on then: messages that this rank has given to MPI may still be written to. So the
/// process says one line and ends the job.
struct MpiLimits {
  std::chrono::milliseconds deadline{
      0};             ///< For each such wait; to leave a channel at most 10 s. Zero: no limit.
  int exit_code = 1;  ///< Of the job.
  std::function<void(const std::string&)> say =
      {};  ///< Called before the end, on any thread. Needed with a deadline.
};

/// Holds MPI initialised for this process; the last thing to be destroyed. Move-only.
class MpiSession {
 public:
  /// Initialises MPI (funneled: all calls from one thread) unless it was initialised already, in which case
  /// it is left to its owner.
  /// `limits` hold for the session and the channels of its transports.
  /// @return `unavailable` when built without MPI (TRIMTAB_ENABLE_MPI=OFF) or when this process was not
  /// started by an MPI
  ///         launcher such as mpirun.
  static Result<MpiSession> start(MpiLimits limits = {});
  ~MpiSession();
  MpiSession(MpiSession&&) noexcept;
  MpiSession& operator=(MpiSession&&) noexcept;

  /// Ends every process of the job with `exit_code`. For a failure that the other ranks cannot know of: they
  /// may be waiting for this rank in a message that will never come.
  [[noreturn]] void abort(int exit_code) noexcept;

  [[nodiscard]] const MpiLimits& limits() const noexcept { return limits_; }

 private:
  MpiSession(bool owns_mpi, MpiLimits limits) noexcept;
  bool owns_mpi_ = false;
  MpiLimits limits_;
};

/// Ranks are processes under an MPI launcher, two-sided messages only, over a communicator of its own
/// (MPI_Comm_dup). Collective over MPI_COMM_WORLD. Not fault tolerant: when a rank dies, the job ends, by the
/// launcher or by the limits of the session. Needs a live MpiSession. @return `unavailable` when built
/// without MPI.
[[nodiscard]] Result<std::unique_ptr<Transport>> make_mpi_transport(const MpiSession& session);

}  // namespace trimtab
