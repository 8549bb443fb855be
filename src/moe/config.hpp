// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/result.hpp>

#include <cstddef>
#include <cstdint>

namespace trimtab::moe {

/// Shape of the synthetic model. Everything the model computes is a function of this value, the token stream
/// and the gate's bias.
struct ModelConfig {
  std::int32_t num_layers = 4;
  std::int32_t num_experts = 32;    ///< Per layer.
  std::int32_t top_k = 4;           ///< Routed experts per token.
  std::int32_t hidden = 256;        ///< Width of a token's state.
  std::int32_t intermediate = 256;  ///< Width inside an expert.
  std::int32_t num_groups = 1;      ///< Expert groups for group-limited routing; divides num_experts.
  std::int32_t top_groups = 1;      ///< Groups a token may use; equal to num_groups means no limit.
  std::uint64_t seed = 1;           ///< Of all weights and tokens.

  [[nodiscard]] std::size_t experts() const noexcept { return static_cast<std::size_t>(num_experts); }
  [[nodiscard]] std::size_t layers() const noexcept { return static_cast<std::size_t>(num_layers); }
  [[nodiscard]] std::size_t choices() const noexcept { return static_cast<std::size_t>(top_k); }
  [[nodiscard]] std::size_t width() const noexcept { return static_cast<std::size_t>(hidden); }
  [[nodiscard]] std::size_t inner() const noexcept { return static_cast<std::size_t>(intermediate); }
};

/// Largest `hidden` and `intermediate`: up to here an int32 holds every dot product and its offset term.
inline constexpr std::int32_t max_width = 65536;

/// @return `invalid_argument` naming the field, its value and its limit.
[[nodiscard]] Status check_config(const ModelConfig& config);

}  // namespace trimtab::moe
