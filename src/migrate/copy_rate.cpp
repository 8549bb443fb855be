// SPDX-License-Identifier: Apache-2.0
#include "migrate/copy_rate.hpp"

#include <algorithm>
#include <chrono>

namespace trimtab {

/// Smoothed in time per byte, not in rate, so that a slow exchange weighs as long as it took.
void CopyRate::add(std::size_t bytes, Clock::duration took) noexcept {
  if (bytes == 0 || took <= Clock::duration::zero()) return;
  constexpr double weight = 0.25;
  const double seconds = std::chrono::duration<double>(took).count() / static_cast<double>(bytes);
  seconds_per_byte_ =
      seconds_per_byte_ > 0.0 ? seconds_per_byte_ + weight * (seconds - seconds_per_byte_) : seconds;
}

/// Twice, since the first pass also maps the pages.
void CopyRate::measure(std::span<std::byte> memory, const Clock& clock) noexcept {
  const std::size_t half = memory.size() / 2;
  const auto exchange = [&] {
    const Clock::time_point begun = clock.now();
    std::swap_ranges(memory.begin(), memory.begin() + static_cast<std::ptrdiff_t>(half),
                     memory.begin() + static_cast<std::ptrdiff_t>(half));
    return clock.now() - begun;
  };
  exchange();
  add(half, exchange());
}

std::optional<double> CopyRate::bytes_per_s() const noexcept {
  if (seconds_per_byte_ <= 0.0) return std::nullopt;
  return 1.0 / seconds_per_byte_;
}

}  // namespace trimtab
