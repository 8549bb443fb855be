// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace trimtab {

/// "mpi: CALL: what MPI says of the code".
[[nodiscard]] std::string mpi_message(std::string_view call, int code);

/// Between MPI_Init and MPI_Finalize, whoever called them.
[[nodiscard]] bool is_mpi_live() noexcept;

}  // namespace trimtab
