// SPDX-License-Identifier: Apache-2.0
#include "moe/blocked_product.hpp"

#include <algorithm>
#include <cstring>

#include "moe/lanes.hpp"

namespace trimtab::moe {
namespace {

constexpr std::size_t rows_at_once = 4;

template <std::size_t Rows>
void multiply_block(const float* rows, std::size_t inputs, const float* block, std::size_t channels,
                    std::size_t wanted, float* out) noexcept {
  Lanes sums[Rows][2] = {};
  for (std::size_t i = 0; i < inputs; ++i) {
    const Lanes low = load_lanes(block + i * block_channels);
    const Lanes high = load_lanes(block + i * block_channels + 4);
    for (std::size_t r = 0; r < Rows; ++r) {
      const float x = rows[r * inputs + i];
      sums[r][0] += x * low;
      sums[r][1] += x * high;
    }
  }
  for (std::size_t r = 0; r < Rows; ++r) std::memcpy(out + r * channels, sums[r], wanted * sizeof(float));
}

}  // namespace

void block_matrix(std::span<const float> plain, std::size_t channels, std::span<float> out) noexcept {
  const std::size_t inputs = plain.size() / channels;
  std::fill(out.begin(), out.end(), 0.0f);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const std::size_t input = i / channels;
    const std::size_t channel = i % channels;
    out[(channel / block_channels * inputs + input) * block_channels + channel % block_channels] = plain[i];
  }
}

void blocked_product(std::span<const float> rows, std::size_t inputs, std::span<const float> blocked,
                     std::size_t channels, std::span<float> out) noexcept {
  const std::size_t count = rows.size() / inputs;
  // Blocks outside, rows inside: a block stays in the first cache.
  for (std::size_t first = 0; first < channels; first += block_channels) {
    const float* block = &blocked[first * inputs];
    const std::size_t wanted = std::min(block_channels, channels - first);
    std::size_t row = 0;
    for (; row + rows_at_once <= count; row += rows_at_once) {
      multiply_block<rows_at_once>(&rows[row * inputs], inputs, block, channels, wanted,
                                   &out[row * channels + first]);
    }
    for (; row < count; ++row)
      multiply_block<1>(&rows[row * inputs], inputs, block, channels, wanted, &out[row * channels + first]);
  }
}

}  // namespace trimtab::moe
