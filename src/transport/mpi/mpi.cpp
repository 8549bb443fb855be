// SPDX-License-Identifier: Apache-2.0
#include <trimtab/transport/mpi.hpp>

#include "transport/mpi/mpi_end.hpp"
#include "transport/mpi/mpi_errors.hpp"

#include <fmt/format.h>

#include <array>

namespace trimtab {

std::string mpi_message(std::string_view call, int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return fmt::format("mpi: {}: {}", call, std::string_view(text.data(), static_cast<std::size_t>(length)));
}

bool is_mpi_live() noexcept {
  int is_initialized = 0;
  int is_finalized = 0;
  MPI_Initialized(&is_initialized);
  MPI_Finalized(&is_finalized);
  return is_initialized != 0 && is_finalized == 0;
}

Result<std::unique_ptr<Transport>> make_mpi_transport(const MpiSession& session) {
  if (!is_mpi_live()) return failure(Errc::unavailable, "mpi: MPI was finalised");
  return MpiEnd::open(MPI_COMM_WORLD, session.limits());
}

}  // namespace trimtab
