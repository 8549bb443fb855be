// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/mpi_errors.hpp"
#include "transport/mpi/mpi_meeting.hpp"

#include <trimtab/transport/mpi.hpp>

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace trimtab {
namespace {

// MPI_Init without a launcher makes a world of one rank, which is never what was meant; and with some
// versions it ends the process. So it is found out before.
bool is_under_launcher() {
  constexpr std::array set_by_launchers = {
      "OMPI_COMM_WORLD_SIZE",  // Open MPI
      "PMIX_RANK",             // Open MPI, Slurm
      "PMI_RANK",
      "PMI_SIZE",
      "PMI_ID",               // MPICH, Intel MPI, Slurm
      "MV2_COMM_WORLD_RANK",  // MVAPICH
  };
  return std::ranges::any_of(set_by_launchers, [](const char* name) { return std::getenv(name) != nullptr; });
}

Status init(const MpiLimits& limits) {
  if (!is_under_launcher()) {
    return failure(
        Errc::unavailable,
        "mpi: this process was not started by an MPI launcher; start it with: mpirun -n N trimtab …");
  }
  const MpiGuard guard(limits, "MPI_Init_thread");
  int provided = MPI_THREAD_SINGLE;
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  if (code != MPI_SUCCESS) return failure(Errc::unavailable, mpi_message("MPI_Init_thread", code));
  if (provided < MPI_THREAD_FUNNELED) {
    MPI_Finalize();
    return failure(Errc::unavailable, fmt::format("mpi: thread level {} < {} (MPI_THREAD_FUNNELED)", provided,
                                                  MPI_THREAD_FUNNELED));
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return {};
}

void finalize_if(bool owns_mpi, const MpiLimits& limits) noexcept {
  if (!owns_mpi || !is_mpi_live()) return;
  const MpiGuard guard(limits, "MPI_Finalize");
  MPI_Finalize();
}

}  // namespace

MpiSession::MpiSession(bool owns_mpi, MpiLimits limits) noexcept
    : owns_mpi_(owns_mpi), limits_(std::move(limits)) {}

MpiSession::MpiSession(MpiSession&& other) noexcept
    : owns_mpi_(std::exchange(other.owns_mpi_, false)), limits_(std::move(other.limits_)) {}

MpiSession& MpiSession::operator=(MpiSession&& other) noexcept {
  if (this != &other) {
    finalize_if(owns_mpi_, limits_);
    owns_mpi_ = std::exchange(other.owns_mpi_, false);
    limits_ = std::move(other.limits_);
  }
  return *this;
}

MpiSession::~MpiSession() { finalize_if(owns_mpi_, limits_); }

Result<MpiSession> MpiSession::start(MpiLimits limits) {
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  if (is_finalized != 0)
    return failure(Errc::unavailable, "mpi: MPI was finalised before and cannot start again");
  if (is_mpi_live()) return MpiSession(false, std::move(limits));
  if (Status initialised = init(limits); !initialised) return failure(std::move(initialised));
  return MpiSession(true, std::move(limits));
}

void MpiSession::abort(int exit_code) noexcept {
  if (is_mpi_live()) MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

}  // namespace trimtab
