// SPDX-License-Identifier: Apache-2.0
#include "migrate/control.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace trimtab {

ControlChannel::ControlChannel(Transport& channel, std::vector<Rank> members)
    : channel_(channel), members_(std::move(members)), mailboxes_(channel, tag, sizeof(Message)) {}

Status ControlChannel::start() { return listen(); }

Status ControlChannel::listen() {
  for (Rank peer : members_) {
    const bool hears = is_coordinator() || peer == coordinator();
    if (peer == rank() || !hears) continue;
    if (Status heard = mailboxes_.listen(peer); !heard) return heard;
  }
  return {};
}

Status ControlChannel::enter_view(std::uint32_t number, std::vector<Rank> members) {
  for (Rank peer : members_) mailboxes_.ignore(peer);
  view_ = number;
  members_ = std::move(members);
  here_.clear();
  const auto is_due = [&](const Message& message) { return message.view == view_; };
  std::ranges::copy_if(early_, std::back_inserter(here_), is_due);
  std::erase_if(early_, [&](const Message& message) { return message.view <= view_; });
  return listen();
}

Status ControlChannel::send(Rank to, Message message) {
  message.rank = rank().value();
  message.view = view_;
  seal(message);
  if (to == rank()) {
    here_.push_back(message);
    return {};
  }
  ++num_sent_;
  return mailboxes_.send(to, std::as_bytes(std::span(&message, 1)));
}

Status ControlChannel::broadcast(Message message) {
  for (Rank member : members_) {
    if (Status sent = send(member, message); !sent) return sent;
  }
  return {};
}

Result<std::optional<Message>> ControlChannel::receive() {
  if (!here_.empty()) {
    const Message message = here_.front();
    here_.pop_front();
    return message;
  }
  for (;;) {
    const Result<std::optional<Mailboxes::Received>> received = mailboxes_.receive();
    if (!received) return tl::unexpected(received.error());
    if (!*received) return std::nullopt;
    Message message;
    std::memcpy(&message, (*received)->bytes.data(), sizeof message);
    if (!is_intact(message) || message.rank != (*received)->from.value()) continue;  // As good as lost.
    if (message.view > view_) early_.push_back(message);
    if (message.view == view_) return message;
  }
}

}  // namespace trimtab
