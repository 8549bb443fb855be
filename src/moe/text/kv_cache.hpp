// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "moe/text/config.hpp"

namespace trimtab::moe {

/// Keys and values of all positions of some sequences, by layer of the model. One rank's; one thread.
class KvCache {
 public:
  /// Positions that lie side by side in the keys of a head: [positions / 8, rounded up][head width][8].
  static constexpr std::size_t block_positions = 8;

  /// Sequences have up to `num_positions` each.
  KvCache(const TextConfig& config, std::size_t num_sequences, std::size_t num_positions);

  /// All positions of one head, blocked as above. What was not written yet is zero, or of a sequence before.
  [[nodiscard]] std::span<float> keys(std::size_t sequence, std::size_t layer, std::size_t head) noexcept;
  /// [positions][head width] of one head.
  [[nodiscard]] std::span<float> values(std::size_t sequence, std::size_t layer, std::size_t head) noexcept;
  [[nodiscard]] std::size_t size_bytes() const noexcept { return memory_.size() * sizeof(float); }

 private:
  std::size_t layers_;
  std::size_t heads_;
  std::size_t head_floats_;  ///< Of the keys of a head; values have no more.
  std::vector<float> memory_;
};

}  // namespace trimtab::moe
