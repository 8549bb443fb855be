// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/executor.hpp>
#include <trimtab/core/ids.hpp>
#include <trimtab/core/load_matrix.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "moe/config.hpp"

namespace trimtab::moe {

struct CalibrationOptions {
  std::size_t sample_tokens = 0;  ///< 0: 256 assignments per expert, but 1024 to 4096 tokens.
  std::int32_t max_iterations = 80;
  double tolerance = 0.03;  ///< Of the rank imbalance, relative to the target's.
  LayerId first_layer{};    ///< What row 0 is called in messages.
};

/// How well one layer of one phase follows its target on the sample.
struct LayerFit {
  std::int32_t phase = 0;
  LayerId layer;  ///< As in messages.
  double target_imbalance = 1.0;
  double achieved_imbalance = 1.0;
  double misplaced_share = 0.0;  ///< Share of the assignments that are at another expert than they should be.
  std::int32_t iterations = 0;

  /// Relative error of the rank imbalance.
  [[nodiscard]] double error() const noexcept;
};

struct Calibration {
  std::vector<float> bias;     ///< [phases][layers][experts]
  std::vector<LayerFit> fits;  ///< [phases][layers]
};

/// Finds the gate bias under which the model's own routing of sample tokens follows the given loads, layer by
/// layer: a layer's inputs come from running those before it under their found bias.
///
/// `phases` are load matrices of the model's layers and experts. Rank imbalance is that of the identity
/// placement on `topology`. Group-limited routing cannot meet every target exactly: what is missed is
/// reported in `misplaced_share`, and only a rank imbalance out of tolerance is an error. Deterministic for
/// any executor. Memory: sample_tokens * (experts + top_k * hidden) floats.
/// @return `invalid_argument` for shapes that do not fit or a layer without load; `infeasible` naming phase,
///         layer, expert, share and limit when an expert is to take more than one choice of every token, or
///         phase, layer and both imbalances when the tolerance was not met.
[[nodiscard]] Result<Calibration> calibrate(const ModelConfig& config, std::span<const LoadMatrix> phases,
                                            const Topology& topology, const CalibrationOptions& options,
                                            Executor& executor);

}  // namespace trimtab::moe
