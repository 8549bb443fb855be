// SPDX-License-Identifier: Apache-2.0
#include "moe/text/quantised_product.hpp"

#include <algorithm>

#include "moe/dequantise.hpp"
#include "moe/gemm.hpp"

namespace trimtab::moe {
namespace {

constexpr std::size_t block_rows = 128;

}  // namespace

Status QuantisedProduct::run(const QuantisedMatrix& matrix, std::span<const float> rows, std::size_t inputs,
                             std::span<float> out) {
  const std::size_t channels = matrix.channels();
  for (std::size_t first = 0; first * inputs < rows.size(); first += block_rows) {
    const std::size_t count = std::min(block_rows, rows.size() / inputs - first);
    if (Status done = run_block(matrix, rows.subspan(first * inputs, count * inputs), inputs,
                                out.subspan(first * channels, count * channels));
        !done)
      return done;
  }
  return {};
}

Status QuantisedProduct::run_block(const QuantisedMatrix& matrix, std::span<const float> rows,
                                   std::size_t inputs, std::span<float> out) {
  const std::size_t channels = matrix.channels();
  const std::size_t count = rows.size() / inputs;
  values_.resize(count * inputs);
  scales_.resize(count);
  sums_.resize(count * channels);
  for (std::size_t r = 0; r < count; ++r) {
    scales_[r] =
        quantise_row(rows.subspan(r * inputs, inputs), std::span(values_).subspan(r * inputs, inputs));
  }
  if (Status done = gemm_int8({count, channels, inputs}, values_, matrix.q, sums_); !done) return done;
  for (std::size_t r = 0; r < count; ++r) {
    for (std::size_t c = 0; c < channels; ++c) {
      out[r * channels + c] =
          dequantise(sums_[r * channels + c], matrix.offset[c], scales_[r], matrix.scale[c]);
    }
  }
  return {};
}

}  // namespace trimtab::moe
