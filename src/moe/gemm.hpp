// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace trimtab::moe {

struct GemmShape {
  std::size_t rows = 0;      ///< M, of activations and output.
  std::size_t channels = 0;  ///< N, output channels: rows of the weights.
  std::size_t inputs = 0;    ///< K, the length of each dot product.
};

/// out[M][N] = activations[M][K] * weights[N][K] transposed, exact in int32.
///
/// Exact only for weights in -63..63 (docs/gotchas.md): wider ones saturate on CPUs without VNNI. Runs on the
/// calling thread alone when that thread has called `use_one_gemm_thread`. Threads: independent.
/// @return `internal` when oneDNN refuses, `invalid_argument` when a span is too short.
[[nodiscard]] Status gemm_int8(const GemmShape& shape, std::span<const std::int8_t> activations,
                               std::span<const std::int8_t> weights, std::span<std::int32_t> out);

/// Tells oneDNN (through OpenMP) to use no further threads for calls from this thread. Call it once on every
/// rank thread: ranks already fill the cores.
void use_one_gemm_thread() noexcept;

}  // namespace trimtab::moe
