// SPDX-License-Identifier: Apache-2.0
#include <trimtab/transport/mpi.hpp>

#include <cstdlib>
#include <utility>

namespace trimtab {
namespace {

constexpr const char* not_built =
    "mpi: trimtab was built without MPI (TRIMTAB_ENABLE_MPI=OFF, or no MPI was found when it was configured)";

}  // namespace

MpiSession::MpiSession(bool owns_mpi, MpiLimits limits) noexcept
    : owns_mpi_(owns_mpi), limits_(std::move(limits)) {}
MpiSession::MpiSession(MpiSession&&) noexcept = default;
MpiSession& MpiSession::operator=(MpiSession&&) noexcept = default;
MpiSession::~MpiSession() = default;

Result<MpiSession> MpiSession::start(MpiLimits /*limits*/) { return failure(Errc::unavailable, not_built); }

void MpiSession::abort(int exit_code) noexcept { std::_Exit(exit_code); }

Result<std::unique_ptr<Transport>> make_mpi_transport(const MpiSession&) {
  return failure(Errc::unavailable, not_built);
}

}  // namespace trimtab
