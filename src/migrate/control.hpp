// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "migrate/message.hpp"

#include <trimtab/transport/transport.hpp>

#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace trimtab {

/// Control messages between a coordinator and its members over one tag of the migration channel: a star,
/// O(ranks) messages. Keeps one receive posted for each rank it hears from. A message to oneself is delivered
/// without the transport. Not thread-safe. Borrows the channel, which must be closed before this object goes:
/// posted receives point into it.
class ControlChannel {
 public:
  static constexpr Tag tag{0};

  /// `members` are the live ranks, ascending; the coordinator is the first.
  ControlChannel(Transport& channel, std::vector<Rank> members);

  /// Posts the receives. Call once before anything else.
  Status start();

  /// Sends to one member without blocking.
  Status send(Rank to, Message message);
  /// Sends to every member, oneself included.
  Status broadcast(Message message);

  /// The next message that has arrived, or none. A damaged one counts as lost, and a rank
  /// that is gone as silent: deadlines answer both.
  Result<std::optional<Message>> receive();

  [[nodiscard]] Rank rank() const noexcept { return channel_.rank(); }
  [[nodiscard]] Rank coordinator() const noexcept { return members_.front(); }
  [[nodiscard]] bool is_coordinator() const noexcept { return rank() == coordinator(); }
  [[nodiscard]] const std::vector<Rank>& members() const noexcept { return members_; }

 private:
  struct Mailbox {
    Rank peer;
    Ticket ticket;
    Message message;
  };
  struct Outgoing {
    Ticket ticket;
    Message message;
  };

  Status post_receive(Mailbox& mailbox);
  Status reap_sent();

  Transport& channel_;
  std::vector<Rank> members_;
  std::deque<Message> to_self_;
  std::vector<std::unique_ptr<Mailbox>> mailboxes_;
  std::vector<std::unique_ptr<Outgoing>> outgoing_;
};

}  // namespace trimtab
