// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/load_matrix.hpp>
#include <trimtab/core/result.hpp>

#include <cstdint>
#include <vector>

namespace trimtab {

/// Load scenarios for loads that are known with an error: `mean` itself, then draws around it in which each
/// expert deviates on its own by about the root of its variance, never below zero. A plan made for all of
/// them keeps uncertain experts apart.
///
/// The draws are a fixed sequence (sums of twelve uniform numbers in place of a normal one, which needs no
/// library function whose last digit may differ).
/// @param variance       of the load, by layer and expert, in squared assignments; the size of `mean`
/// @param num_scenarios  at least 1
/// @return `invalid_argument` when the sizes differ or there is no scenario
[[nodiscard]] Result<std::vector<LoadMatrix>> sample_scenarios(const LoadMatrix& mean,
                                                               const LoadMatrix& variance,
                                                               std::int32_t num_scenarios);

}  // namespace trimtab
