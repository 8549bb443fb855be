// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/result.hpp>

#include <cstddef>
#include <span>
#include <vector>

#include "moe/text/config.hpp"
#include "moe/text/kv_cache.hpp"
#include "moe/text/model.hpp"
#include "moe/text/quantised_product.hpp"

namespace trimtab::moe {

/// Where a row of a batch belongs. Rows of a sequence come in order of their positions, none left out.
struct TextRow {
  std::size_t sequence = 0;  ///< Of the cache.
  std::size_t position = 0;
};

/// Turns pairs of numbers by an angle that grows with the position (RoPE, arXiv:2104.09864): number i of a
/// head with number i + half. Immutable.
class Rotary {
 public:
  explicit Rotary(const TextConfig& config);
  /// In place: one head, [head width].
  void turn(std::size_t position, std::span<float> head) const noexcept;

 private:
  std::size_t half_;
  std::vector<float> cos_;  ///< [positions][half]
  std::vector<float> sin_;
};

/// The attention block of every layer: state += out * attention(norm(state)). A row's result depends on its
/// sequence up to its position alone, however that was cut into batches. Reuses its memory; one thread, which
/// must have called `use_one_gemm_thread`.
class Attention {
 public:
  /// Borrows both.
  Attention(const TextModel& model, KvCache& cache);

  /// `layer` of the model, `states` [rows][width], in place. Writes the rows' keys and values.
  /// @return the error of a GEMM.
  Status run(std::size_t layer, std::span<const TextRow> rows, std::span<float> states);

 private:
  void store(std::size_t layer, const TextRow& row, std::span<float> qkv) noexcept;
  void attend(std::size_t layer, const TextRow& row, std::span<const float> queries, std::span<float> out);

  const TextModel& model_;
  KvCache& cache_;
  Rotary rotary_;
  QuantisedProduct product_;
  std::vector<float> normal_;   ///< [rows][width]
  std::vector<float> qkv_;      ///< [rows][3 * width]
  std::vector<float> context_;  ///< [rows][width]
  std::vector<float> out_;      ///< [rows][width]
  std::vector<float> shares_;   ///< [positions]
};

}  // namespace trimtab::moe
