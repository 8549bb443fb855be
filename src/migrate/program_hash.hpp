// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/migrate/program.hpp>

#include <cstdint>

namespace trimtab {

/// Over all that the ranks must agree on before a byte moves (M6).
[[nodiscard]] std::uint64_t hash_of(const Program& program, const ProgramInput& input);

}  // namespace trimtab
