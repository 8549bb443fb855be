// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace trimtab {

/// Time as a seam, so that deadlines can be played in tests without waiting.
class Clock {
 public:
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<std::chrono::steady_clock, duration>;

  virtual ~Clock() = default;
  /// Never goes backwards. Safe from any thread.
  [[nodiscard]] virtual time_point now() const noexcept = 0;
};

/// The machine's monotonic clock.
class SteadyClock final : public Clock {
 public:
  [[nodiscard]] time_point now() const noexcept override { return std::chrono::steady_clock::now(); }
};

}  // namespace trimtab
