// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/result.hpp>

#include <cstdint>
#include <span>
#include <vector>

#include "moe/quantise.hpp"
#include "moe/text/model.hpp"

namespace trimtab::moe {

/// Rows through a matrix in W8A8: quantise, int8 GEMM, scale. A row's result depends on the row alone. Reuses
/// its memory; one per thread, which must have called `use_one_gemm_thread`.
class QuantisedProduct {
 public:
  /// `rows` is [rows][inputs], `out` [rows][channels].
  /// @return the error of the GEMM.
  Status run(const QuantisedMatrix& matrix, std::span<const float> rows, std::size_t inputs,
             std::span<float> out);

 private:
  Status run_block(const QuantisedMatrix& matrix, std::span<const float> rows, std::size_t inputs,
                   std::span<float> out);

  std::vector<std::int8_t> values_;
  std::vector<RowScale> scales_;
  std::vector<std::int32_t> sums_;
};

}  // namespace trimtab::moe
