// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// How many routed assignments each physical slot takes, for every layer: the shares of an expert's replicas.
/// Routing uses only the ratio between the replicas of one expert; an expert whose slots all have 0 is shared
/// evenly.
///
/// Immutable value; safe to read from any thread.
class Split {
 public:
  /// Takes the assignments in row-major order [layers][slots].
  /// @return `invalid_argument` naming layer, slot and value for a negative entry, or the sizes when they do
  ///         not agree or are below 1.
  static Result<Split> make(std::int32_t num_layers, std::int32_t num_slots,
                            std::vector<std::int64_t> assignments);

  [[nodiscard]] std::int32_t num_layers() const noexcept { return num_layers_; }
  [[nodiscard]] std::int32_t num_slots() const noexcept { return num_slots_; }
  /// Assignments of each slot of one layer.
  [[nodiscard]] std::span<const std::int64_t> layer(LayerId layer) const noexcept;

  friend bool operator==(const Split&, const Split&) = default;

 private:
  Split(std::int32_t num_layers, std::int32_t num_slots, std::vector<std::int64_t> assignments);

  std::int32_t num_layers_;
  std::int32_t num_slots_;
  std::vector<std::int64_t> assignments_;  ///< [layers][slots]
};

}  // namespace trimtab
