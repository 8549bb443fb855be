// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "migrate/message.hpp"
#include "transport/mailboxes.hpp"

#include <trimtab/transport/transport.hpp>

#include <deque>
#include <optional>
#include <vector>

namespace trimtab {

/// Control messages between a coordinator and its members over one tag of the migration channel: a star,
/// O(ranks) messages. A message to oneself is delivered without the transport. Not thread-safe. Borrows the
/// channel, which must be closed before this object goes: posted receives point into it.
class ControlChannel {
 public:
  static constexpr Tag tag{0};

  /// `members` are the live ranks, ascending; the coordinator is the first.
  ControlChannel(Transport& channel, std::vector<Rank> members);

  /// Posts the receives. Call once before anything else.
  Status start();
  /// Goes on in view `number` with `members`: what is said in older views is not heard any more, and what was
  /// said in this one already is heard from now on.
  Status enter_view(std::uint32_t number, std::vector<Rank> members);

  /// Sends to one member without blocking.
  Status send(Rank to, Message message);
  /// Sends to every member, oneself included.
  Status broadcast(Message message);

  /// The next message of this view that has arrived, or none. A damaged one counts as lost, and a rank that
  /// is gone as silent: deadlines answer both.
  Result<std::optional<Message>> receive();

  [[nodiscard]] Rank rank() const noexcept { return channel_.rank(); }
  [[nodiscard]] Rank coordinator() const noexcept { return members_.front(); }
  [[nodiscard]] bool is_coordinator() const noexcept { return rank() == coordinator(); }
  [[nodiscard]] const std::vector<Rank>& members() const noexcept { return members_; }
  [[nodiscard]] std::uint32_t view() const noexcept { return view_; }
  /// Messages to other ranks so far.
  [[nodiscard]] std::uint64_t num_sent() const noexcept { return num_sent_; }

 private:
  Status listen();

  Transport& channel_;
  std::vector<Rank> members_;
  std::uint32_t view_ = 0;
  std::uint64_t num_sent_ = 0;
  Mailboxes mailboxes_;
  std::deque<Message> here_;   ///< To oneself, or held until now.
  std::deque<Message> early_;  ///< Of views to come: their ranks may be there before this one.
};

}  // namespace trimtab
