// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/result.hpp>

#include <cstdint>
#include <span>
#include <vector>

#include "moe/around_experts.hpp"
#include "moe/expert_kernel.hpp"
#include "moe/text/attention.hpp"
#include "moe/text/kv_cache.hpp"
#include "moe/text/model.hpp"

namespace trimtab::moe {

/// What a rank computes for its own rows beside the routed experts: embedding, attention, dense layers,
/// shared experts, head. One arm's; one thread, which must have called `use_one_gemm_thread`.
class TextLayers final : public AroundExperts {
 public:
  /// Borrows the model. Keys and values are kept of `num_sequences` sequences of up to `num_positions`.
  TextLayers(const TextModel& model, std::size_t num_sequences, std::size_t num_positions);

  /// The next batch: `bytes` at `rows` become states, [rows][width]. Both must stay until `finish`.
  void begin(std::span<const TextRow> rows, std::span<const std::uint8_t> bytes, std::span<float> states);
  Status before(LayerId layer, std::span<float> states) override;
  Status beside(LayerId layer, const GateStage& gate, std::span<float> states) override;
  /// The logits of each row's next byte, [rows][vocabulary]; valid until the next call.
  [[nodiscard]] std::span<const float> finish(std::span<const float> states);

  [[nodiscard]] std::size_t cache_bytes() const noexcept { return cache_.size_bytes(); }

 private:
  Status run_dense(std::size_t layer, std::span<float> states);
  Status add_feed_forward(ExpertKernel& kernel, const FeedForward& weights,
                          std::span<const std::int8_t> values, std::span<const RowScale> scales,
                          std::span<float> states);

  const TextModel& model_;
  KvCache cache_;
  Attention attention_;
  ExpertKernel dense_;
  ExpertKernel shared_;
  std::vector<float> head_;  ///< As `blocked_product` takes it.
  std::span<const TextRow> rows_;
  std::vector<float> normal_;        ///< [rows][width]
  std::vector<std::int8_t> values_;  ///< [rows][width]
  std::vector<RowScale> scales_;     ///< [rows]
  std::vector<float> said_;          ///< [rows][width]
  std::vector<float*> said_rows_;    ///< [rows]
  std::vector<float> logits_;        ///< [rows][vocabulary]
};

}  // namespace trimtab::moe
