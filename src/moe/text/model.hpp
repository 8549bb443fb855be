// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "moe/text/config.hpp"
#include "moe/weight_source.hpp"
#include "moe/weights.hpp"

namespace trimtab::moe {

/// A matrix in W8A8: weights are scale * (q - offset), scale and offset by output channel.
struct QuantisedMatrix {
  std::vector<std::int8_t> q;        ///< [channels][inputs]
  std::vector<float> scale;          ///< [channels]
  std::vector<std::int32_t> offset;  ///< [channels]

  [[nodiscard]] std::size_t channels() const noexcept { return scale.size(); }
};

/// SwiGLU: `w13` has the gate's rows, then the others.
struct FeedForward {
  QuantisedMatrix w13;  ///< [2 * inner][width]
  QuantisedMatrix w2;   ///< [width][inner]

  [[nodiscard]] ConstBundle bundle() const noexcept {
    return {w13.q, w13.scale, w13.offset, w2.q, w2.scale, w2.offset};
  }
};

/// One layer's weights, routed experts excepted.
struct TextLayer {
  std::vector<float> attention_norm;  ///< [width]
  QuantisedMatrix qkv;                ///< [3 * width][width]: all heads of q, then of k, then of v.
  QuantisedMatrix out;                ///< [width][width]
  std::vector<float> norm;            ///< [width]
  FeedForward feed_forward;           ///< Of a dense layer, else the shared expert.
  std::vector<float> gate;            ///< [experts][width]; empty in a dense layer.
  std::vector<float> bias;            ///< [experts]: of the choice.
};

/// A whole model in memory, as it lies in its file. Immutable once read; share it between threads.
struct TextModel final : WeightSource {
  TextConfig config;
  std::vector<float> embedding;      ///< [vocabulary][width]
  std::vector<TextLayer> layers;     ///< [layers of the model]
  std::vector<FeedForward> experts;  ///< [expert layers][experts]
  std::vector<float> norm;           ///< [width]
  std::vector<float> head;           ///< [vocabulary][width]

  [[nodiscard]] const TextLayer& expert_layer(LayerId layer) const noexcept {
    return layers[layer.index() + static_cast<std::size_t>(config.dense_layers)];
  }
  [[nodiscard]] const FeedForward& expert(LayerId layer, ExpertId expert) const noexcept {
    return experts[layer.index() * config.experts.experts() + expert.index()];
  }
  /// Of all expert layers, [layers][experts].
  [[nodiscard]] std::vector<float> gate_bias() const;
  [[nodiscard]] std::size_t size_bytes() const noexcept;

  void fill_expert(LayerId layer, ExpertId expert, const Bundle& out) const noexcept override;
  void fill_gate(LayerId layer, std::span<float> out) const noexcept override;
  void fill_norm(LayerId layer, std::span<float> out) const noexcept override;
};

/// Reads `folder`/model.safetensors (docs/formats/model.md).
/// @return `not_found`, `io`; `invalid_argument` naming file, tensor or key, value and limit for a file that
/// is
///         no such model: a tensor that is missing or of another type or shape, a weight beyond -63..63, an
///         offset or scale that could overflow, a number that is not finite.
[[nodiscard]] Result<TextModel> read_text_model(const std::string& folder);

}  // namespace trimtab::moe
