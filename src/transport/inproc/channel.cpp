// SPDX-License-Identifier: Apache-2.0
#include "transport/inproc/channel.hpp"

#include "core/bulk_copy.hpp"

#include <algorithm>
#include <cstring>

namespace trimtab::inproc {
namespace {

Rank source_of(const PostedLeg& leg) noexcept {
  return leg.leg.side == Side::send ? leg.ticket->owner : leg.leg.peer;
}

Rank destination_of(const PostedLeg& leg) noexcept {
  return leg.leg.side == Side::send ? leg.leg.peer : leg.ticket->owner;
}

std::uint64_t key_of(Rank source, Tag tag) noexcept {
  return (static_cast<std::uint64_t>(source.value()) << 32) | tag.value();
}

/// Measured: with blocks this small the processor fetches the next ones while watchers work on this one; with
/// 8 KiB and more, copying and working take turns at waiting for memory.
constexpr std::size_t watched_bytes = 2048;

void copy_message(const Leg& send, const Leg& receive) noexcept {
  if (send.watcher == nullptr && receive.watcher == nullptr)
    return bulk_copy(receive.memory.first(send.memory.size()), send.memory);
  for (std::size_t at = 0; at < send.memory.size(); at += watched_bytes) {
    const std::size_t size = std::min(watched_bytes, send.memory.size() - at);
    if (send.watcher != nullptr) send.watcher->pass(size);
    std::memcpy(receive.memory.data() + at, send.memory.data() + at, size);
    if (receive.watcher != nullptr) receive.watcher->pass(size);
  }
}

}  // namespace

PostedLeg* Mailbox::meet_or_queue(Rank source, PostedLeg& leg) {
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = queues_.try_emplace(key_of(source, leg.leg.tag));
  if (is_new || found->second.oldest->leg.side == leg.leg.side) {
    append(found->second, leg);
    return nullptr;
  }
  PostedLeg* const other = found->second.oldest;
  take_out(found, *other);
  return other;
}

bool Mailbox::withdraw(Rank source, PostedLeg& leg) noexcept {
  const std::lock_guard lock(mutex_);
  if (!leg.is_queued) return false;
  take_out(queues_.find(key_of(source, leg.leg.tag)), leg);
  return true;
}

bool Mailbox::holds(const PostedLeg& leg) const noexcept {
  const std::lock_guard lock(mutex_);
  return leg.is_queued;
}

void Mailbox::append(Queue& queue, PostedLeg& leg) noexcept {
  leg.is_queued = true;
  leg.previous = queue.newest;
  (queue.newest != nullptr ? queue.newest->next : queue.oldest) = &leg;
  queue.newest = &leg;
}

void Mailbox::take_out(Queues::iterator queue, PostedLeg& leg) noexcept {
  Queue& ends = queue->second;
  (leg.previous != nullptr ? leg.previous->next : ends.oldest) = leg.next;
  (leg.next != nullptr ? leg.next->previous : ends.newest) = leg.previous;
  leg.previous = leg.next = nullptr;
  leg.is_queued = false;
  if (ends.oldest == nullptr) queues_.erase(queue);
}

Channel::Channel(std::int32_t num_ranks)
    : num_ranks_(num_ranks), members_(std::make_unique<Member[]>(static_cast<std::size_t>(num_ranks))) {}

Mailbox& Channel::mailbox_of(const PostedLeg& leg) const noexcept {
  return members_[destination_of(leg).index()].mailbox;
}

void Channel::start(PostedTicket& ticket) noexcept {
  // Once the last leg has started, a peer may finish the ticket, but only its owner, who is here, frees it.
  for (PostedLeg& leg : ticket.legs) {
    PostedLeg* const other = mailbox_of(leg).meet_or_queue(source_of(leg), leg);
    if (other == nullptr) continue;
    leg.leg.side == Side::send ? exchange(leg, *other) : exchange(*other, leg);
  }
}

void Channel::exchange(PostedLeg& send, PostedLeg& receive) noexcept {
  const std::span<std::byte> message = send.leg.memory;
  if (message.size() > receive.leg.memory.size()) {
    receive.message_bytes = message.size();
    receive.ticket->has_too_large_message.store(true);
  } else if (!message.empty()) {
    copy_message(send.leg, receive.leg);
  }
  settle(send);
  settle(receive);
}

void Channel::settle(PostedLeg& leg) noexcept {
  PostedTicket& ticket = *leg.ticket;
  Doorbell& doorbell = members_[ticket.owner.index()].doorbell;
  if (ticket.num_open.fetch_sub(1) == 1) doorbell.ring();
}

void Channel::cancel(PostedTicket& ticket) noexcept {
  for (PostedLeg& leg : ticket.legs) {
    if (!mailbox_of(leg).withdraw(source_of(leg), leg)) continue;
    ticket.is_cancelled = true;
    ticket.num_open.fetch_sub(1);
  }
}

void Channel::wait(const PostedTicket& ticket, Doorbell::time_point deadline, std::size_t seen_closed) {
  const auto is_news = [&] { return ticket.is_terminal() || num_closed() != seen_closed; };
  members_[ticket.owner.index()].doorbell.wait(is_news, deadline);
}

void Channel::mark_closed(Rank rank) {
  {
    const std::lock_guard lock(mutex_);
    closed_.push_back(rank);
  }
  members_[rank.index()].is_closed.store(true);
  num_closed_.fetch_add(1);
  for (Rank other : ids<Rank>(num_ranks_)) members_[other.index()].doorbell.ring();
}

std::vector<Rank> Channel::ends_closed_since(std::size_t seen) const {
  const std::lock_guard lock(mutex_);
  return {closed_.begin() + static_cast<std::ptrdiff_t>(seen), closed_.end()};
}

const PostedLeg* Channel::find_lost(const PostedTicket& ticket) const {
  if (num_closed() == 0) return nullptr;
  for (const PostedLeg& leg : ticket.legs) {
    if (members_[leg.leg.peer.index()].is_closed.load() && mailbox_of(leg).holds(leg)) return &leg;
  }
  return nullptr;
}

std::shared_ptr<Channel> Channel::join_child(std::uint64_t index) {
  const std::lock_guard lock(mutex_);
  Child& child = children_[index];
  if (!child.channel) child.channel = std::make_shared<Channel>(num_ranks_);
  std::shared_ptr<Channel> joined = child.channel;
  if (++child.num_joined == num_ranks_) children_.erase(index);
  return joined;
}

}  // namespace trimtab::inproc
