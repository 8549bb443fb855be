// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// Load per layer and logical expert, in routed assignments (tokens times top-k). Row-major
/// [layers][experts].
///
/// Immutable value; safe to read from any thread. Entries are finite and not negative.
class LoadMatrix {
 public:
  /// Takes `loads` in row-major order.
  /// @return `invalid_argument` naming layer, expert and value for a NaN, infinite or negative entry or a row
  /// whose
  ///         sum is not finite, or the sizes when `loads.size() != num_layers * num_experts` or either is
  ///         < 1.
  static Result<LoadMatrix> make(std::int32_t num_layers, std::int32_t num_experts,
                                 std::vector<double> loads);

  [[nodiscard]] std::int32_t num_layers() const noexcept { return num_layers_; }
  [[nodiscard]] std::int32_t num_experts() const noexcept { return num_experts_; }

  /// Load of each expert of one layer.
  [[nodiscard]] std::span<const double> layer(LayerId layer) const noexcept;
  /// Sum over the experts of one layer.
  [[nodiscard]] double total(LayerId layer) const noexcept { return totals_[layer.index()]; }
  /// A row that is zero throughout: a layer without routed experts.
  [[nodiscard]] bool is_dense(LayerId layer) const noexcept { return total(layer) == 0.0; }

 private:
  LoadMatrix(std::int32_t num_layers, std::int32_t num_experts, std::vector<double> loads,
             std::vector<double> totals);

  std::int32_t num_layers_;
  std::int32_t num_experts_;
  std::vector<double> loads_;
  std::vector<double> totals_;
};

}  // namespace trimtab
