// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>

namespace trimtab::verify {

/// Time that passes only when a test says so: deadlines are played, not waited for. One thread.
class VirtualClock final : public Clock {
 public:
  [[nodiscard]] time_point now() const noexcept override { return now_; }
  void advance(duration by) noexcept { now_ += by; }

 private:
  time_point now_{};
};

}  // namespace trimtab::verify
