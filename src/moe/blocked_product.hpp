// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace trimtab::moe {

/// Output channels that lie side by side in a blocked matrix: [channels / 8, rounded up][inputs][8], so that
/// one block fits the first cache.
inline constexpr std::size_t block_channels = 8;

[[nodiscard]] constexpr std::size_t blocked_size(std::size_t channels, std::size_t inputs) noexcept {
  return (channels + block_channels - 1) / block_channels * block_channels * inputs;
}

/// Lays out a matrix, [inputs][channels]; what the last block lacks becomes zero.
void block_matrix(std::span<const float> plain, std::size_t channels, std::span<float> out) noexcept;

/// out[rows][channels] = rows [rows][inputs] * matrix. Each product sums over the inputs in ascending order,
/// in a lane of its own: it does not depend on the other rows.
void blocked_product(std::span<const float> rows, std::size_t inputs, std::span<const float> blocked,
                     std::size_t channels, std::span<float> out) noexcept;

}  // namespace trimtab::moe
