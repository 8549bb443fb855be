// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/weights/safetensors.hpp>

#include <cstddef>
#include <cstdint>

#include "moe/config.hpp"

namespace trimtab::moe {

/// Shape of a byte-level language model in DeepSeek-V3's manner: some dense layers, then layers of experts
/// (docs/formats/model.md). Layers of experts are counted from 0 where a LayerId is meant, as everywhere in
/// this runtime; layers of the model from 0, dense ones included.
struct TextConfig {
  std::int32_t vocabulary = 256;  ///< Tokens are bytes.
  std::int32_t dense_layers = 1;  ///< The first ones have no experts.
  std::int32_t heads = 4;
  std::int32_t context = 256;  ///< Longest sequence, the first byte 0 included.
  std::int32_t dense_inner = 512;
  std::int32_t shared_inner = 128;  ///< Of each expert layer's shared expert.
  double rope_base = 10000.0;
  ModelConfig experts;  ///< Of the expert layers alone.

  [[nodiscard]] std::int32_t num_layers() const noexcept { return dense_layers + experts.num_layers; }
  [[nodiscard]] std::size_t width() const noexcept { return experts.width(); }
  [[nodiscard]] std::size_t positions() const noexcept { return static_cast<std::size_t>(context); }
  [[nodiscard]] std::size_t num_heads() const noexcept { return static_cast<std::size_t>(heads); }
  [[nodiscard]] std::size_t head_width() const noexcept { return width() / num_heads(); }
  [[nodiscard]] std::size_t tokens() const noexcept { return static_cast<std::size_t>(vocabulary); }
};

/// The byte that begins every text and is in none.
inline constexpr std::uint8_t begin_byte = 0;

/// Reads the shape from a model file's metadata.
/// @return `invalid_argument` naming the key, its value and the limit.
[[nodiscard]] Result<TextConfig> read_text_config(const SafetensorsMetadata& metadata);

}  // namespace trimtab::moe
