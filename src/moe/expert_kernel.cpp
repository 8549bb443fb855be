// SPDX-License-Identifier: Apache-2.0
#include "moe/expert_kernel.hpp"

#include <algorithm>
#include <cmath>

#include "moe/dequantise.hpp"
#include "moe/gemm.hpp"

namespace trimtab::moe {
namespace {

/// Rows per GEMM: enough to pay for packing the weights, few enough for the sums to stay in the cache.
constexpr std::size_t block_rows = 128;

}  // namespace

ExpertKernel::ExpertKernel(const ModelConfig& config)
    : hidden_(config.width()),
      intermediate_(config.inner()),
      sums_(block_rows * std::max(2 * intermediate_, hidden_)),
      activated_(intermediate_),
      inner_(block_rows * intermediate_),
      inner_scales_(block_rows) {}

Status ExpertKernel::run(const ConstBundle& expert, const ExpertRows& rows) {
  for (std::size_t first = 0; first < rows.out.size(); first += block_rows) {
    const std::size_t count = std::min(block_rows, rows.out.size() - first);
    const ExpertRows block{rows.values.subspan(first * hidden_, count * hidden_),
                           rows.scales.subspan(first, count), rows.out.subspan(first, count)};
    if (Status done = run_block(expert, block); !done) return done;
  }
  return {};
}

Status ExpertKernel::run_block(const ConstBundle& expert, const ExpertRows& rows) {
  const std::size_t count = rows.out.size();
  if (Status s = gemm_int8({count, 2 * intermediate_, hidden_}, rows.values, expert.w13, sums_); !s) return s;
  for (std::size_t row = 0; row < count; ++row) activate_row(expert, rows.scales[row], row);
  if (Status s = gemm_int8({count, hidden_, intermediate_}, inner_, expert.w2, sums_); !s) return s;
  for (std::size_t row = 0; row < count; ++row) {
    const std::int32_t* sums = &sums_[row * hidden_];
    const RowScale scale = inner_scales_[row];
    float* out = rows.out[row];
    for (std::size_t h = 0; h < hidden_; ++h) {
      out[h] = dequantise(sums[h], expert.w2_offset[h], scale, expert.w2_scale[h]);
    }
  }
  return {};
}

void ExpertKernel::activate_row(const ConstBundle& expert, RowScale scale, std::size_t row) noexcept {
  const std::int32_t* gate = &sums_[row * 2 * intermediate_];
  const std::int32_t* up = gate + intermediate_;
  for (std::size_t i = 0; i < intermediate_; ++i) {
    const std::size_t j = intermediate_ + i;
    const float g = dequantise(gate[i], expert.w13_offset[i], scale, expert.w13_scale[i]);
    const float u = dequantise(up[i], expert.w13_offset[j], scale, expert.w13_scale[j]);
    activated_[i] = g / (1.0f + std::exp(-g)) * u;
  }
  inner_scales_[row] =
      quantise_row(activated_, std::span(inner_).subspan(row * intermediate_, intermediate_));
}

void combine_token(std::span<const float> weights, std::span<const float* const> outputs,
                   std::span<float> state) noexcept {
  // In blocks, so that sums stay in registers while k is outside.
  constexpr std::size_t block = 16;
  for (std::size_t first = 0; first < state.size(); first += block) {
    const std::size_t count = std::min(block, state.size() - first);
    float sums[block] = {};
    for (std::size_t k = 0; k < weights.size(); ++k) {
      for (std::size_t i = 0; i < count; ++i) sums[i] += weights[k] * outputs[k][first + i];
    }
    for (std::size_t i = 0; i < count; ++i) state[first + i] += sums[i];
  }
}

}  // namespace trimtab::moe
