// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/result.hpp>

#include <cstdint>
#include <span>
#include <vector>

#include "moe/config.hpp"
#include "moe/quantise.hpp"
#include "moe/weights.hpp"

namespace trimtab::moe {

/// Rows that go through one expert together.
struct ExpertRows {
  std::span<const std::int8_t> values;  ///< [rows][hidden]
  std::span<const RowScale> scales;     ///< [rows]
  std::span<float* const> out;          ///< [rows]: where each row's `hidden` floats are written.
};

/// One expert on a batch: w13 GEMM, SwiGLU, quantise, w2 GEMM, scale.
///
/// A row's output depends on the row and the expert alone, bit for bit. Reuses its memory; one per thread,
/// which must have called `use_one_gemm_thread`.
class ExpertKernel {
 public:
  explicit ExpertKernel(const ModelConfig& config);

  /// @return the error of the GEMM.
  Status run(const ConstBundle& expert, const ExpertRows& rows);

 private:
  Status run_block(const ConstBundle& expert, const ExpertRows& rows);
  void activate_row(const ConstBundle& expert, RowScale scale, std::size_t row) noexcept;

  std::size_t hidden_;
  std::size_t intermediate_;
  std::vector<std::int32_t> sums_;      ///< [block][max(2 * intermediate, hidden)]
  std::vector<float> activated_;        ///< [intermediate]
  std::vector<std::int8_t> inner_;      ///< [block][intermediate]
  std::vector<RowScale> inner_scales_;  ///< [block]
};

/// state += sum over k of weights[k] * outputs[k], added up in order of k. `outputs[k]` is [hidden].
void combine_token(std::span<const float> weights, std::span<const float* const> outputs,
                   std::span<float> state) noexcept;

}  // namespace trimtab::moe
