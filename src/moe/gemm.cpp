// SPDX-License-Identifier: Apache-2.0
#include "moe/gemm.hpp"

#include <fmt/format.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

namespace trimtab::moe {

Status gemm_int8(const GemmShape& shape, std::span<const std::int8_t> activations,
                 std::span<const std::int8_t> weights, std::span<std::int32_t> out) {
  const auto [rows, channels, inputs] = shape;
  if (activations.size() < rows * inputs || weights.size() < channels * inputs ||
      out.size() < rows * channels) {
    return failure(Errc::invalid_argument,
                   fmt::format("gemm {} x {} x {} on {} activations, {} weights, {} outputs", rows, channels,
                               inputs, activations.size(), weights.size(), out.size()));
  }
  if (rows == 0 || channels == 0) return {};
  const auto size = [](std::size_t n) { return static_cast<dnnl_dim_t>(n); };
  const std::int32_t no_offset = 0;
  const dnnl_status_t status = dnnl_gemm_s8s8s32(
      'N', 'T', 'F', size(rows), size(channels), size(inputs), 1.0f, activations.data(), size(inputs), 0,
      weights.data(), size(inputs), 0, 0.0f, out.data(), size(channels), &no_offset);
  if (status == dnnl_success) return {};
  return failure(Errc::internal, fmt::format("oneDNN gemm {} x {} x {}: status {}", rows, channels, inputs,
                                             static_cast<int>(status)));
}

void use_one_gemm_thread() noexcept { omp_set_num_threads(1); }

}  // namespace trimtab::moe
