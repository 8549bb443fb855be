// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>

#include <cstddef>
#include <span>

#include "moe/config.hpp"

namespace trimtab::moe {

/// A forward number that no service reaches: its tokens are for calibration.
inline constexpr Forward calibration_forward{~std::uint64_t{0}};

/// Writes the states of tokens `first_token`, … that `rank` brings to `forward`, [tokens][hidden], size one
/// per element. A function of (seed, forward, rank, token), so both arms and the reference see the same
/// tokens.
void fill_tokens(const ModelConfig& config, Forward forward, Rank rank, std::size_t first_token,
                 std::span<float> out) noexcept;

}  // namespace trimtab::moe
