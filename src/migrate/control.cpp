// SPDX-License-Identifier: Apache-2.0
#include "migrate/control.hpp"

#include <algorithm>

namespace trimtab {

using std::chrono::nanoseconds;

namespace {

/// A peer that is gone is silent. What its silence means, deadlines decide.
template <class T>
bool is_lost_peer(const Result<T>& result) {
  return !result && result.error().code == Errc::peer_lost;
}

}  // namespace

ControlChannel::ControlChannel(Transport& channel, std::vector<Rank> members)
    : channel_(channel), members_(std::move(members)) {}

Status ControlChannel::start() {
  for (Rank peer : members_) {
    const bool hears = is_coordinator() || peer == coordinator();
    if (peer == rank() || !hears) continue;
    mailboxes_.push_back(std::make_unique<Mailbox>(Mailbox{peer, {}, {}}));
    if (Status posted = post_receive(*mailboxes_.back()); !posted) return posted;
  }
  return {};
}

Status ControlChannel::send(Rank to, Message message) {
  message.rank = rank().value();
  seal(message);
  if (to == rank()) {
    to_self_.push_back(message);
    return {};
  }
  auto outgoing = std::make_unique<Outgoing>(Outgoing{{}, message});
  const Leg leg = send_leg(to, tag, std::as_bytes(std::span(&outgoing->message, 1)));
  Result<Ticket> ticket = channel_.post(std::span(&leg, 1));
  if (is_lost_peer(ticket)) return {};
  if (!ticket) return failure(std::move(ticket));
  outgoing->ticket = *ticket;
  outgoing_.push_back(std::move(outgoing));
  return {};
}

Status ControlChannel::broadcast(Message message) {
  for (Rank member : members_) {
    if (Status sent = send(member, message); !sent) return sent;
  }
  return {};
}

Result<std::optional<Message>> ControlChannel::receive() {
  if (Status reaped = reap_sent(); !reaped) return failure(std::move(reaped));
  if (!to_self_.empty()) {
    const Message message = to_self_.front();
    to_self_.pop_front();
    return message;
  }
  for (const auto& mailbox : mailboxes_) {
    Result<Progress> progress = channel_.poll(mailbox->ticket, nanoseconds(0));
    if (is_lost_peer(progress)) continue;
    if (!progress) return failure(std::move(progress));
    if (*progress == Progress::pending) continue;
    if (*progress == Progress::cancelled) return failure(Errc::closed, "the migration channel was closed");
    const Message message = mailbox->message;
    if (Status posted = post_receive(*mailbox); !posted) return failure(std::move(posted));
    if (!is_intact(message) || message.rank != mailbox->peer.value()) continue;  // As good as lost.
    return message;
  }
  return std::nullopt;
}

Status ControlChannel::post_receive(Mailbox& mailbox) {
  const Leg leg = receive_leg(mailbox.peer, tag, std::as_writable_bytes(std::span(&mailbox.message, 1)));
  Result<Ticket> ticket = channel_.post(std::span(&leg, 1));
  if (!ticket) return failure(std::move(ticket));
  mailbox.ticket = *ticket;
  return {};
}

Status ControlChannel::reap_sent() {
  for (std::size_t i = 0; i < outgoing_.size();) {
    Result<Progress> progress = channel_.poll(outgoing_[i]->ticket, nanoseconds(0));
    if (!progress && !is_lost_peer(progress)) return failure(std::move(progress));
    if (!progress || *progress == Progress::pending) {
      ++i;
    } else {
      outgoing_.erase(outgoing_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return {};
}

}  // namespace trimtab
