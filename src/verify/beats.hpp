// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>
#include <trimtab/transport/transport.hpp>

#include <cstdint>
#include <functional>
#include <vector>

namespace trimtab::verify {

/// What a process says to all others in each forward.
struct Beat {
  std::uint64_t forward = 0;
  std::uint64_t epoch = 0;  ///< It serves the forward under.
  std::uint32_t is_idle = 0;
  std::uint32_t is_in_doubt = 0;

  friend bool operator==(const Beat&, const Beat&) = default;
};

/// Forwards of processes: each is over when every process has said its beat. Not thread-safe. Borrows the
/// channel, of which nothing else may use `tag`.
class Beats {
 public:
  Beats(Transport& channel, Tag tag) : channel_(channel), tag_(tag) {}

  /// Says `mine` and hears all, by rank. Calls `meanwhile` as long as it waits.
  /// @return `timeout` naming the forward when not all are heard within `deadline`.
  [[nodiscard]] Result<std::vector<Beat>> exchange(const Beat& mine, const std::function<void()>& meanwhile,
                                                   const Clock& clock, Clock::duration deadline);

 private:
  Transport& channel_;
  Tag tag_;
};

}  // namespace trimtab::verify
