// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "moe/config.hpp"

namespace trimtab::moe {

/// The gate's bias over a run: it moves linearly from phase to phase, so that popularity drifts. A function
/// of the forward number alone, hence the same on every rank and in both arms. Immutable; safe from any
/// thread.
class GateSchedule {
 public:
  /// @param bias          [phases][layers][experts], as `calibrate` returns it
  /// @param num_forwards  the run's length: forward 0 has the first phase's bias, forward num_forwards - 1
  /// and
  ///                      all later ones the last phase's
  /// @return `invalid_argument` when the size is no positive multiple of layers x experts or num_forwards
  /// < 1.
  static Result<GateSchedule> make(const ModelConfig& config, std::vector<float> bias,
                                   std::uint64_t num_forwards);

  [[nodiscard]] std::size_t num_phases() const noexcept { return bias_.size() / phase_size_; }
  /// Where `forward` lies: phase 1.5 is half-way from phase 1 to phase 2.
  [[nodiscard]] double phase_at(Forward forward) const noexcept;
  /// Writes the bias of one forward, [layers][experts].
  void bias_at(Forward forward, std::span<float> out) const noexcept;

 private:
  GateSchedule(std::size_t phase_size, std::vector<float> bias, std::uint64_t num_forwards);

  std::size_t phase_size_;
  std::vector<float> bias_;
  std::uint64_t num_forwards_;
};

}  // namespace trimtab::moe
