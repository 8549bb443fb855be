// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/topology.hpp>

namespace trimtab {

/// The imbalance that sampling alone gives: the expected max / mean of the live ranks' loads when each of
/// `assignments` routed assignments goes to a rank by itself, with probability in proportion to the rank's
/// speed. A balance measured over batches of that size cannot be told from a perfect one below this.
///
/// Rank loads are taken as independent and normal with the variance of a Poisson count. For equal ranks that
/// has the same expected maximum as a multinomial draw in the normal limit: the common part that makes the
/// loads add up to the total shifts all of them alike. Accurate to a few percent of its excess from about 30
/// assignments per rank on. 1.0 for one live rank or no assignment.
/// Precondition: `assignments` is finite and not negative.
[[nodiscard]] double noise_floor(double assignments, const Topology& topology);

}  // namespace trimtab
