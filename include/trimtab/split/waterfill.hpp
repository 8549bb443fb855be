// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// Shared-expert tokens that each rank takes, where any live rank may take any token: filled up from the
/// lowest load / speed. The largest load / speed then is the larger of what it was and the mean of everything
/// together; on an exact split that is the least that routed and shared tokens can reach jointly.
/// @param rank_loads  routed assignments of each rank, none negative
/// @return by Rank, sum `num_tokens`; of equally low ranks the first ones take more. `invalid_argument`
/// naming rank
///         and value, the sizes, or a negative or too large (2^53) number of tokens.
[[nodiscard]] Result<std::vector<std::int64_t>> fill_ranks(std::span<const std::int64_t> rank_loads,
                                                           std::int64_t num_tokens, const Topology& topology);

/// The tokens of one batch, for fill_by_token.
struct TokenRanks {
  std::span<const Rank> home;     ///< [tokens]: where the token is.
  std::span<const Rank> visited;  ///< [tokens][k]: ranks of its routed replicas; -1 is padding.
  std::int32_t k = 0;
};

/// Where the shared-expert part of each token is computed.
struct TokenFill {
  std::vector<Rank> ranks;     ///< [tokens]
  double max_pressure = 0.0;   ///< Largest load / speed of a rank, routed and shared together.
  std::int64_t num_extra = 0;  ///< Tokens sent to a rank that is neither their home nor visited anyway.
};

/// Chooses a rank for the shared-expert part of each token, so that the largest load / speed is least:
/// exactly, where sampling by weights is right only on average.
///
/// A token may stay at home or go to a live rank that its routed assignments visit anyway, which costs no
/// transfer. Only while the fullest rank is below the mean of routed and shared tokens together may it go to
/// any live rank; then every rank reaches that mean. Deterministic. Memory is O(tokens * k + ranks).
/// @param rank_loads  routed assignments of each rank under the split in use, none negative
/// @return `invalid_argument` naming token and value for a home that is not a live rank or a visited rank out
/// of
///         range, or the sizes.
[[nodiscard]] Result<TokenFill> fill_by_token(std::span<const std::int64_t> rank_loads,
                                              const TokenRanks& tokens, const Topology& topology);

}  // namespace trimtab
