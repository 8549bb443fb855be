// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/transport/transport.hpp>

#include <span>
#include <vector>

namespace trimtab {

/// Takes in, and drops, what is still sent here for a step that was given up, on transports where a send ends
/// only once it is received: else its sender's staging and workspaces would be quarantined for good.
///
/// Keeps no bytes: every message is larger than its receive, and ends so. Elsewhere it does nothing.
/// Not thread-safe. Borrows the channel.
class LateMessages {
 public:
  explicit LateMessages(Transport& channel) : channel_(channel) {}

  /// From each of `peers` under `tag`, until `until`.
  void expect(std::span<const Rank> peers, Tag tag, Clock::time_point until);
  /// Takes what has come.
  void take(Clock::time_point now);

 private:
  struct Stream {
    Rank peer;
    Tag tag;
    Clock::time_point until;
    Ticket ticket{};
  };

  [[nodiscard]] bool post(Stream& stream);
  [[nodiscard]] bool is_over(Stream& stream, Clock::time_point now);

  Transport& channel_;
  std::vector<Stream> streams_;
};

}  // namespace trimtab
