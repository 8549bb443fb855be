// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "moe/sample_batch.hpp"

namespace trimtab::moe {

struct BiasFit {
  std::vector<float> bias;           ///< [experts]
  std::vector<std::int64_t> counts;  ///< Choices of the sample under it.
  double misplaced_share = 1.0;
  std::int32_t iterations = 0;
};

/// Searches the bias under which the batch's choices follow `shares` (sum one, each at most 1 / top_k), by
/// the scores the batch holds. Returns the best bias seen in `max_iterations`, or the first that is good
/// enough.
[[nodiscard]] BiasFit search_bias(const ModelConfig& config, SampleBatch& batch,
                                  std::span<const double> shares, std::int32_t max_iterations);

}  // namespace trimtab::moe
