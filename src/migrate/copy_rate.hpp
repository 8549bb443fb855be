// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>

#include <cstddef>
#include <optional>
#include <span>

namespace trimtab {

/// How fast this rank exchanges bundles with its slots, smoothed over commits: what a stall budget in time is
/// worth in bytes. Not thread-safe.
class CopyRate {
 public:
  /// Of an exchange of `bytes`. Nothing measured (no bytes, or a clock that stood still) tells nothing.
  void add(std::size_t bytes, Clock::duration took) noexcept;
  /// Exchanges the halves of `memory`, for a first estimate. Its bytes are lost.
  void measure(std::span<std::byte> memory, const Clock& clock) noexcept;

  /// Nothing as long as nothing was measured.
  [[nodiscard]] std::optional<double> bytes_per_s() const noexcept;

 private:
  double seconds_per_byte_ = 0.0;
};

}  // namespace trimtab
