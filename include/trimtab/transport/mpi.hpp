// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/transport.hpp>

#include <memory>

namespace trimtab {

/// Holds MPI initialised for this process; the last thing to be destroyed. Move-only.
class MpiSession {
 public:
  /// Initialises MPI (funneled: all calls from one thread) unless it was initialised already, in which case
  /// it is left to its owner.
  /// @return `unavailable` when built without MPI (TRIMTAB_ENABLE_MPI=OFF) or when this process was not
  /// started by an MPI
  ///         launcher such as mpirun.
  static Result<MpiSession> start();
  ~MpiSession();
  MpiSession(MpiSession&&) noexcept;
  MpiSession& operator=(MpiSession&&) noexcept;

  /// Ends every process of the job with `exit_code`. For a failure that the other ranks cannot know of: they
  /// may be waiting for this rank in a message that will never come.
  [[noreturn]] void abort(int exit_code) noexcept;

 private:
  explicit MpiSession(bool owns_mpi) noexcept;
  bool owns_mpi_ = false;
};

/// Ranks are processes under an MPI launcher, two-sided messages only, over a communicator of its own
/// (MPI_Comm_dup). Collective over MPI_COMM_WORLD. Not fault tolerant: when a rank dies, the launcher ends
/// the job. Needs a live MpiSession. @return `unavailable` when built without MPI.
[[nodiscard]] Result<std::unique_ptr<Transport>> make_mpi_transport(const MpiSession& session);

}  // namespace trimtab
