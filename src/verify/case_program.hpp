// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify/case.hpp"
#include "verify/violation.hpp"

#include <trimtab/migrate/program.hpp>

#include <optional>

namespace trimtab::verify {

/// The program of `drawn` from `from`, in service as `epoch`, to `to`, told to `story`.
/// @return the error of build_program.
[[nodiscard]] Result<Program> make_program(const Case& drawn, Epoch epoch, const Placement& from,
                                           const Placement& to, const Story& story);
/// The same among the ranks that are alive in `topology`, some of which have kept bundles.
[[nodiscard]] Result<Program> make_program(const Case& drawn, const Topology& topology,
                                           std::span<const KeptExpert> kept, Epoch epoch,
                                           const Placement& from, const Placement& to, const Story& story);

/// The first thing that is wrong with a program by itself: a placement on the way that does not serve every
/// expert (I1), another end than `to`, more staging than the budget (M8), more bytes than the bound.
[[nodiscard]] std::optional<Violation> check_program(const Case& drawn, const Program& program,
                                                     const Placement& from, const Placement& to);

}  // namespace trimtab::verify
