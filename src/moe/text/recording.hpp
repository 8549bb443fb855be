// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "moe/text/session.hpp"

namespace trimtab::moe {

/// Rows that were served, in order, and the experts that were chosen for them.
struct RecordedRows {
  std::vector<RowOrigin> origins;
  std::vector<ExpertId> choices;  ///< [rows][expert layers][top_k], best first.

  /// Adds the forward that a session has just served.
  void add(const TextSession& session);
  /// Experts of one row; 0 when there is none.
  [[nodiscard]] std::size_t choice_size() const noexcept;

  /// As numbers that ranks can exchange, `size` of them at least: what is not used is 0.
  [[nodiscard]] std::vector<std::int64_t> pack(std::size_t size) const;
  [[nodiscard]] std::size_t packed_size() const noexcept;
  /// Adds what another has packed. `choice_size` is that of all ranks.
  void unpack(std::span<const std::int64_t> packed, std::size_t choice_size);
};

}  // namespace trimtab::moe
