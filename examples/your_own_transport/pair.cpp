// SPDX-License-Identifier: Apache-2.0
#include "pair.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace own {
namespace {

using trimtab::Errc;
using trimtab::Side;

/// Up to here a message goes by the lane: launching a group costs more. With memory on a device: none.
constexpr std::size_t inline_bytes = 512;

void settle(OpenLeg& leg) {
  leg.is_open = false;
  --leg.posted->num_open;
}

void give_up(OpenLeg& leg) {
  leg.posted->is_cancelled = true;
  settle(leg);
}

trimtab::Error too_large(const trimtab::Leg& receive, std::size_t message_bytes) {
  return {Errc::invalid_argument, "a message of " + std::to_string(message_bytes) + " bytes from rank " +
                                      std::to_string(receive.peer.value()) + " under tag " +
                                      std::to_string(receive.tag.value()) + " > its receive of " +
                                      std::to_string(receive.memory.size()) + " bytes"};
}

/// Takes the oldest out; queues of tags that are used once must not pile up.
template <class Queues>
auto pop(Queues& queues, typename Queues::iterator queue) {
  auto oldest = std::move(queue->second.front());
  queue->second.pop_front();
  if (queue->second.empty()) queues.erase(queue);
  return oldest;
}

template <class Queues, class Condition>
bool erase_from(Queues& queues, std::uint32_t tag, const Condition& condition) {
  const auto queue = queues.find(tag);
  if (queue == queues.end()) return false;
  const bool is_found = std::erase_if(queue->second, condition) > 0;
  if (queue->second.empty()) queues.erase(queue);
  return is_found;
}

}  // namespace

Pair::Pair(nccl_like::World& world, trimtab::Rank rank, trimtab::Rank peer)
    : world_(world),
      communicator_(world.communicator(rank.value(), peer.value())),
      rank_(rank),
      peer_(peer),
      is_lower_(rank < peer) {}

void Pair::say(const Header& header, std::span<const std::byte> more) {
  std::vector<std::byte> bytes(sizeof header + more.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  std::ranges::copy(more, bytes.begin() + sizeof header);
  world_.lane().send(peer_.value(), {rank_.value(), std::move(bytes)});
}

void Pair::handle(std::span<const std::byte> packet) {
  Header header;
  std::memcpy(&header, packet.data(), sizeof header);
  const std::span more = packet.subspan(sizeof header);
  switch (header.kind) {
    case Kind::offer:
      return take_offer(header, more);
    case Kind::grant:
      return agree(header.id, true);
    case Kind::settled:
      return end_send(header.id, false);
    case Kind::withdraw:
      return withdraw(header);
    case Kind::withdrawn:
      return end_send(header.id, true);
    case Kind::group: {
      std::vector<Member> members(more.size() / sizeof(Member));
      std::memcpy(members.data(), more.data(), more.size());
      return launch(members);
    }
    case Kind::bye:
      is_gone_ = true;
      num_promised_ = header.size;
  }
}

void Pair::start(OpenLeg& leg) {
  if (is_gone_) return;  // It is lost, and `poll` says so.
  const std::uint32_t tag = leg.leg.tag.value();
  if (leg.leg.side == Side::send) {
    leg.id = ++last_id_;
    sends_[leg.id] = &leg;
    const std::size_t size = leg.leg.memory.size();
    say({Kind::offer, tag, leg.id, size}, leg.leg.memory.first(size <= inline_bytes ? size : 0));
  } else if (const auto waiting = offers_.find(tag); waiting != offers_.end()) {
    match(leg, pop(offers_, waiting));
  } else {
    receives_[tag].push_back(&leg);
  }
}

void Pair::take_offer(const Header& header, std::span<const std::byte> more) {
  const Offer offer{header.id, header.size, {more.begin(), more.end()}};
  if (const auto waiting = receives_.find(header.tag); waiting != receives_.end()) {
    match(*pop(receives_, waiting), offer);
  } else {
    offers_[header.tag].push_back(offer);
  }
}

/// Sizes are compared here, because the communicator does not: both sides launch what the sender has.
void Pair::match(OpenLeg& leg, const Offer& offer) {
  leg.id = offer.id;
  leg.message_bytes = offer.size;
  if (offer.size > inline_bytes && offer.size <= leg.leg.memory.size()) {
    granted_[leg.id] = &leg;
    return is_lower_ ? agree(leg.id, false) : say({Kind::grant, 0, leg.id, 0});
  }
  if (offer.size > leg.leg.memory.size()) {
    if (!leg.posted->error) leg.posted->error = too_large(leg.leg, offer.size);
  } else {
    std::ranges::copy(offer.inline_bytes, leg.leg.memory.begin());
  }
  settle(leg);
  say({Kind::settled, 0, leg.id, 0});
}

void Pair::agree(std::uint64_t id, bool is_from_lower) { agreed_.push_back({id, is_from_lower ? 1U : 0U}); }

/// What has met its receive is not found, and is no longer to be withdrawn: its end is on the way to the
/// sender.
void Pair::withdraw(const Header& header) {
  if (erase_from(offers_, header.tag, [&](const Offer& offer) { return offer.id == header.id; })) {
    say({Kind::withdrawn, header.tag, header.id, 0});
  }
}

void Pair::end_send(std::uint64_t id, bool is_cancelled) {
  const auto send = sends_.extract(id);
  if (send.empty()) return;
  is_cancelled ? give_up(*send.mapped()) : settle(*send.mapped());
}

void Pair::launch_next() {
  std::vector<Member> members(std::min(agreed_.size(), nccl_like::Communicator::max_operations));
  std::copy_n(agreed_.begin(), members.size(), members.begin());
  agreed_.erase(agreed_.begin(), agreed_.begin() + static_cast<std::ptrdiff_t>(members.size()));
  say({Kind::group, 0, 0, 0}, std::as_bytes(std::span(members)));
  launch(members);
}

void Pair::launch(std::span<const Member> members) {
  Launched group;
  communicator_.group_start();
  for (const Member& member : members) {
    const bool is_mine = (member.is_from_lower != 0) == is_lower_;
    OpenLeg& leg = *(is_mine ? sends_ : granted_).extract(member.id).mapped();
    if (is_mine) {
      communicator_.send(leg.leg.memory);
    } else {
      communicator_.receive(leg.leg.memory.first(leg.message_bytes));
    }
    group.legs.push_back(&leg);
  }
  group.event = communicator_.group_end();
  launched_.push_back(std::move(group));
}

bool Pair::settle_launched() {
  const std::uint64_t before = num_settled_;
  for (; !launched_.empty() && launched_.front().event.query(); launched_.pop_front(), ++num_settled_) {
    for (OpenLeg* leg : launched_.front().legs) settle(*leg);
  }
  return num_settled_ != before;
}

bool Pair::progress() {
  if (is_cut_) return false;
  bool has_news = settle_launched();
  for (; !is_gone_ && !agreed_.empty(); has_news = true) launch_next();
  // What ran at the peer runs here too, if a little later; nothing else ever will.
  if (is_gone_ && num_settled_ >= num_promised_) cut();
  return has_news;
}

void Pair::cancel(OpenLeg& leg) {
  if (!leg.is_open) return;
  if (is_cut_) return give_up(leg);
  const std::uint32_t tag = leg.leg.tag.value();
  if (leg.leg.side == Side::send) {
    if (sends_.contains(leg.id)) say({Kind::withdraw, tag, leg.id, 0});
  } else if (erase_from(receives_, tag, [&](const OpenLeg* waiting) { return waiting == &leg; })) {
    give_up(leg);
  }
}

/// The only way to get back the memory of a group that will never meet its other half.
void Pair::cut() noexcept {
  communicator_.abort();
  settle_launched();
  is_cut_ = true;
  sends_.clear();
  receives_.clear();
  offers_.clear();
  granted_.clear();
  agreed_.clear();
  launched_.clear();
}

void Pair::close() noexcept {
  if (!is_cut_) cut();
  if (!is_gone_) say({Kind::bye, 0, 0, num_settled_});
}

}  // namespace own
