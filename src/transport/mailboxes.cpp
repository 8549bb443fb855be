// SPDX-License-Identifier: Apache-2.0
#include "transport/mailboxes.hpp"

#include <algorithm>

namespace trimtab {
namespace {

using std::chrono::nanoseconds;

template <class T>
bool is_lost_peer(const Result<T>& result) {
  return !result && result.error().code == Errc::peer_lost;
}

}  // namespace

Mailboxes::Mailboxes(Transport& channel, Tag tag, std::size_t message_bytes, std::size_t polls_per_call)
    : channel_(channel), tag_(tag), polls_per_call_(polls_per_call), received_(message_bytes) {}

Status Mailboxes::listen(Rank peer) {
  const auto found = std::ranges::find(boxes_, peer, [](const auto& box) { return box->peer; });
  if (found != boxes_.end()) {
    (*found)->is_heard = true;
    return {};
  }
  boxes_.push_back(std::make_unique<Box>(Box{peer, std::vector<std::byte>(received_.size())}));
  return post_receive(*boxes_.back());
}

void Mailboxes::ignore(Rank peer) noexcept {
  for (const auto& box : boxes_) {
    if (box->peer == peer) box->is_heard = false;
  }
}

Status Mailboxes::send(Rank to, std::span<const std::byte> bytes) {
  auto outgoing = std::make_unique<Outgoing>(Outgoing{to, {bytes.begin(), bytes.end()}});
  const Leg leg = send_leg(to, tag_, outgoing->memory);
  Result<Ticket> ticket = channel_.post(std::span(&leg, 1));
  if (is_lost_peer(ticket)) return {};
  if (!ticket) return failure(std::move(ticket));
  outgoing->ticket = *ticket;
  outgoing_.push_back(std::move(outgoing));
  return {};
}

bool Mailboxes::is_sending(Rank to) const noexcept {
  return std::ranges::any_of(outgoing_, [&](const auto& outgoing) { return outgoing->peer == to; });
}

Result<std::optional<Mailboxes::Received>> Mailboxes::receive() {
  if (Status reaped = reap_sent(); !reaped) return failure(std::move(reaped));
  const std::size_t polls = std::min(polls_per_call_, boxes_.size());
  for (std::size_t i = 0; i < polls; ++i) {
    next_box_ = next_box_ + 1 < boxes_.size() ? next_box_ + 1 : 0;
    Box& box = *boxes_[next_box_];
    const Result<bool> has_come = look(box);
    if (!has_come) return tl::unexpected(has_come.error());
    if (*has_come && box.is_heard) return Received{box.peer, received_};
  }
  return std::nullopt;
}

Result<bool> Mailboxes::look(Box& box) {
  const Result<Progress> progress = channel_.poll(box.ticket, nanoseconds(0));
  if (is_lost_peer(progress)) return false;
  if (!progress) return tl::unexpected(progress.error());
  if (*progress == Progress::pending) return false;
  if (*progress == Progress::cancelled) return failure(Errc::closed, "the channel was closed");
  std::ranges::copy(box.memory, received_.begin());
  if (Status posted = post_receive(box); !posted) return failure(std::move(posted));
  return true;
}

Status Mailboxes::post_receive(Box& box) {
  const Leg leg = receive_leg(box.peer, tag_, box.memory);
  Result<Ticket> ticket = channel_.post(std::span(&leg, 1));
  if (!ticket) return failure(std::move(ticket));
  box.ticket = *ticket;
  return {};
}

/// What waits for a rank that is gone is given up; its memory stays until the channel says that it is over.
Status Mailboxes::reap_sent() {
  for (std::size_t i = 0; i < outgoing_.size();) {
    Outgoing& outgoing = *outgoing_[i];
    const Result<Progress> progress = channel_.poll(outgoing.ticket, nanoseconds(0));
    const bool is_lost = is_lost_peer(progress);
    if (!progress && !is_lost) return tl::unexpected(progress.error());
    if (is_lost && !std::exchange(outgoing.is_given_up, true)) channel_.cancel(outgoing.ticket);
    if (is_lost || *progress == Progress::pending) {
      ++i;
    } else {
      outgoing_.erase(outgoing_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return {};
}

}  // namespace trimtab
