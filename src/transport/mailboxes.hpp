// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/transport.hpp>

#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace trimtab {

/// Small messages of one size between ranks, under one tag of a channel. Keeps one receive posted for each
/// rank it listens to. A rank that is gone is as good as silent: what its silence means, deadlines decide.
///
/// Not thread-safe. Borrows the channel, which must be closed before this object goes: what is posted points
/// into it.
class Mailboxes {
 public:
  struct Received {
    Rank from;
    std::span<const std::byte> bytes;  ///< Until the next call.
  };

  /// @param polls_per_call  ranks that one `receive` looks at, in rotation
  Mailboxes(Transport& channel, Tag tag, std::size_t message_bytes,
            std::size_t polls_per_call = std::numeric_limits<std::size_t>::max());

  /// Receives what `peer` sends from now on. No effect when it does already.
  Status listen(Rank peer);
  /// Looks at nothing more that `peer` sends, until `listen`.
  void ignore(Rank peer) noexcept;

  /// Sends without blocking. `bytes` are copied.
  Status send(Rank to, std::span<const std::byte> bytes);
  /// Whether something sent to `to` is still under way.
  [[nodiscard]] bool is_sending(Rank to) const noexcept;

  /// The next message that has come, or none.
  Result<std::optional<Received>> receive();

 private:
  struct Box {
    Rank peer;
    std::vector<std::byte> memory;
    Ticket ticket{};
    bool is_heard = true;
  };
  struct Outgoing {
    Rank peer;
    std::vector<std::byte> memory;
    Ticket ticket{};
    bool is_given_up = false;
  };

  Status post_receive(Box& box);
  /// Whether a message has come into `box`.
  Result<bool> look(Box& box);
  Status reap_sent();

  Transport& channel_;
  Tag tag_;
  std::size_t polls_per_call_;
  std::vector<std::unique_ptr<Box>> boxes_;
  std::size_t next_box_ = 0;
  std::vector<std::byte> received_;
  std::vector<std::unique_ptr<Outgoing>> outgoing_;
};

}  // namespace trimtab
