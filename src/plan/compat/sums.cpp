// SPDX-License-Identifier: Apache-2.0
#include "plan/compat/sums.hpp"

#include <array>
#include <cstddef>

namespace trimtab {
namespace {

/// torch adds four vectors side by side, and starts new partial sums every 16 rounds, on four levels. A fifth
/// level would be needed above 2^16 rounds.
constexpr std::size_t num_streams = 4;
constexpr std::size_t rounds_per_level = 16;
constexpr std::size_t num_levels = 4;
constexpr std::size_t vector_width = 8;

template <std::size_t width>
using Lanes = std::array<float, width>;

template <std::size_t width>
void add(Lanes<width>& sum, const float* values) {
  for (std::size_t i = 0; i < width; ++i) sum[i] += values[i];
}

/// Levels are carried like the digits of a number of base 16.
template <class Sums>
void carry(std::array<Sums, num_levels>& sums, std::size_t rounds) {
  for (std::size_t level = 1; level < num_levels; ++level) {
    for (std::size_t i = 0; i < sums[level].size(); ++i) sums[level][i] += sums[level - 1][i];
    sums[level - 1].fill(0.0F);
    rounds /= rounds_per_level;
    if (rounds % rounds_per_level != 0) break;
  }
}

/// Lane by lane, of `num_vectors` vectors of `width`.
template <std::size_t width>
Lanes<width> sum_vectors(const float* values, std::size_t num_vectors) {
  std::array<Lanes<num_streams * width>, num_levels> sums{};
  const std::size_t num_rounds = num_vectors / num_streams;
  for (std::size_t round = 0; round < num_rounds;) {
    add(sums[0], values + round * num_streams * width);
    if (++round % rounds_per_level == 0) carry(sums, round);
  }
  for (std::size_t level = 1; level < num_levels; ++level) add(sums[0], sums[level].data());
  Lanes<width> total{};
  for (std::size_t i = 0; i < width; ++i) total[i] = sums[0][i];
  for (std::size_t v = num_rounds * num_streams; v < num_vectors; ++v) add(total, values + v * width);
  for (std::size_t stream = 1; stream < num_streams; ++stream) add(total, sums[0].data() + stream * width);
  return total;
}

}  // namespace

float sum_like_torch(std::span<const float> values) {
  if (values.size() < vector_width) return sum_vectors<1>(values.data(), values.size())[0];
  const std::size_t num_vectors = values.size() / vector_width;
  const Lanes<vector_width> lanes = sum_vectors<vector_width>(values.data(), num_vectors);
  float total = 0.0F;
  for (float value : values.subspan(num_vectors * vector_width)) total += value;
  for (float lane : lanes) total += lane;
  return total;
}

float sum_like_numpy(std::span<const float> values) {
  constexpr std::size_t num_sums = 8;
  constexpr std::size_t block = 128;
  if (values.size() > block) {
    const std::size_t half = values.size() / 2 / num_sums * num_sums;
    return sum_like_numpy(values.first(half)) + sum_like_numpy(values.subspan(half));
  }
  std::array<float, num_sums> r{};
  const std::size_t whole = values.size() / num_sums * num_sums;
  for (std::size_t i = 0; i < whole; ++i) r[i % num_sums] += values[i];
  float total = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  for (float value : values.subspan(whole)) total += value;
  return total;
}

}  // namespace trimtab
