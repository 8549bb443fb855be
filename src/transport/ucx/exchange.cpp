// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/exchange.hpp"

#include "transport/check_legs.hpp"

#include <algorithm>
#include <cstring>

namespace trimtab::ucx {
namespace {

using State = OpenLeg::State;

/// Pieces that UCX holds for one peer: enough to keep a connection busy, few enough that a send that is given
/// up soon ends.
constexpr std::uint32_t most_data_in_flight = 4;
/// Pieces handed over before the end looks again at what has arrived.
constexpr int pieces_at_once = 8;

}  // namespace

Exchange::Exchange(Rank rank, std::int32_t num_ranks)
    : rank_(rank), peers_(static_cast<std::size_t>(num_ranks)) {
  for (Rank other : ids<Rank>(num_ranks)) peers_[other.index()].rank = other;
}

Header Exchange::header_to(Peer& to, Kind kind) {
  Header header;
  header.kind = kind;
  header.source = rank_.value();
  if (is_ordered(kind)) header.order = to.next_order++;
  return header;
}

void Exchange::tell(Peer& to, Kind kind, std::uint64_t id, std::size_t size_bytes) {
  Header header = header_to(to, kind);
  header.id = id;
  header.size = size_bytes;
  worker_->send(to.rank, header, {}, nullptr);
}

void Exchange::say_hello(Rank to) { tell(peers_[to.index()], Kind::hello, 0); }

void Exchange::send_address(Rank to, std::uint64_t channel, std::span<const std::byte> address) {
  Header header = header_to(peers_[to.index()], Kind::address);
  header.id = channel;
  worker_->send_copy(to, header, address);
}

const std::vector<std::byte>* Exchange::find_address(std::uint64_t channel, Rank from) const {
  const auto of_channel = addresses_.find(channel);
  if (of_channel == addresses_.end()) return nullptr;
  const auto found = of_channel->second.find(from.value());
  return found == of_channel->second.end() ? nullptr : &found->second;
}

// ---- sending

void Exchange::start(OpenLeg& leg) {
  Peer& peer = peer_of(leg);
  leg.number = num_legs_++;
  if (leg.leg.side == Side::receive) {
    peer.streams[leg.leg.tag.value()].receives.push_back(&leg);
    return match(peer, leg.leg.tag.value());
  }
  leg.size_bytes = leg.leg.memory.size();
  if (peer.is_gone) return;
  const bool is_small = leg.size_bytes <= eager_bytes &&
                        peer.eager_used_bytes + eager_cost(leg.size_bytes) <= eager_window_bytes;
  if (is_small) {
    send_whole(peer, leg);
  } else {
    offer(peer, leg);
  }
}

void Exchange::send_whole(Peer& to, OpenLeg& leg) {
  Header header = header_to(to, Kind::message);
  header.tag = leg.leg.tag.value();
  to.eager_used_bytes += eager_cost(leg.size_bytes);
  leg.state = State::whole;
  leg.num_in_flight = 1;
  worker_->send(to.rank, header, leg.leg.memory, &leg);
}

void Exchange::offer(Peer& to, OpenLeg& leg) {
  Header header = header_to(to, Kind::offer);
  header.tag = leg.leg.tag.value();
  header.id = header.order;
  header.size = leg.size_bytes;
  leg.state = State::offered;
  leg.id = header.id;
  to.offered.emplace(leg.id, &leg);
  worker_->send(to.rank, header, {}, nullptr);
}

bool Exchange::pump(Peer& to) {
  int num_sent = 0;
  while (num_sent < pieces_at_once && !to.sending.empty() && to.num_data_in_flight < most_data_in_flight) {
    send_piece(to, *to.sending.front());
    ++num_sent;
  }
  return num_sent > 0;
}

void Exchange::send_piece(Peer& to, OpenLeg& leg) {
  Header header = header_to(to, Kind::data);
  header.id = leg.id;
  header.offset = leg.moved_bytes;
  const std::span<std::byte> rest = leg.leg.memory.subspan(leg.moved_bytes);
  const std::span<std::byte> piece = rest.first(std::min(rest.size(), chunk_bytes));
  leg.moved_bytes += piece.size();
  ++leg.num_in_flight;
  ++to.num_data_in_flight;
  ++to.num_data_sent;
  if (leg.moved_bytes == leg.size_bytes) {
    to.sending.pop_front();
    to.untaken.emplace(leg.id, &leg);
  }
  worker_->send(to.rank, header, piece, &leg);
}

void Exchange::sent(Rank to, void* what, bool is_sent) {
  OpenLeg& leg = *static_cast<OpenLeg*>(what);
  --leg.num_in_flight;
  const bool was_offered = leg.id != 0;  // The first order is that of the hello.
  if (was_offered) --peers_[to.index()].num_data_in_flight;
  if (!is_sent) leg.state = State::waiting;
  if (leg.num_in_flight > 0) return;
  if (leg.state == State::waiting) {
    if (leg.posted->is_cancelling) give_up(leg);
  } else if (leg.is_taken || leg.state == State::whole) {
    finish(leg);
  }
}

// ---- receiving

void Exchange::arrived(const Header& header, std::span<const std::byte> payload) {
  Peer& from = peers_[static_cast<std::size_t>(header.source)];
  if (is_ordered(header.kind)) {
    handle_in_order(from, header, payload);
  } else {
    handle(from, header, payload);
  }
}

void Exchange::handle_in_order(Peer& from, const Header& header, std::span<const std::byte> payload) {
  if (header.order != from.awaited_order) {
    from.parked[header.order] = {header, {payload.begin(), payload.end()}};
    return;
  }
  handle(from, header, payload);
  ++from.awaited_order;
  for (auto next = from.parked.begin(); next != from.parked.end() && next->first == from.awaited_order;
       next = from.parked.erase(next)) {
    handle(from, next->second.header, next->second.payload);
    ++from.awaited_order;
  }
}

void Exchange::handle(Peer& from, const Header& header, std::span<const std::byte> payload) {
  switch (header.kind) {
    case Kind::hello:
      from.has_said_hello = true;
      break;
    case Kind::message:
      take_message(from, header, payload);
      break;
    case Kind::offer:
      take_offer(from, header);
      break;
    case Kind::withdraw:
      take_withdraw(from, header);
      break;
    case Kind::grant:
      take_grant(from, header.id);
      break;
    case Kind::taken:
      take_taken(from, header.id);
      break;
    case Kind::drop:
      take_drop(from, header.id);
      break;
    case Kind::data:
      take_data(from, header, payload);
      break;
    case Kind::credit:
      from.eager_used_bytes -= std::min<std::size_t>(header.size, from.eager_used_bytes);
      break;
    case Kind::address:
      addresses_[header.id][header.source].assign(payload.begin(), payload.end());
      break;
    case Kind::bye:
      from.num_data_at_bye = header.size;
      check_bye(from);
      break;
    case Kind::bye_ack:
      from.has_acked_bye = true;
      break;
  }
}

void Exchange::take_message(Peer& from, const Header& header, std::span<const std::byte> payload) {
  if (is_closed_) return;
  Stream& stream = from.streams[header.tag];
  if (stream.receives.empty()) {
    stream.arrivals.push_back({header.order, payload.size(), false, {payload.begin(), payload.end()}});
    return;
  }
  OpenLeg& leg = *stream.receives.front();
  stream.receives.pop_front();
  if (stream.receives.empty()) from.streams.erase(header.tag);
  deliver(leg, payload);
  give_credit(from, eager_cost(payload.size()));
}

void Exchange::take_offer(Peer& from, const Header& header) {
  if (is_closed_) return;
  from.streams[header.tag].arrivals.push_back({header.id, header.size, true, {}});
  match(from, header.tag);
}

void Exchange::take_withdraw(Peer& from, const Header& header) {
  if (const auto met = from.receiving.find(header.id); met != from.receiving.end()) {
    OpenLeg& leg = *met->second;
    from.receiving.erase(met);
    return wait_again(from, leg);
  }
  const auto found = from.streams.find(header.tag);
  if (found == from.streams.end()) return;
  Stream& stream = found->second;
  std::erase_if(stream.arrivals,
                [&](const Arrival& arrival) { return arrival.is_offer && arrival.id == header.id; });
  if (stream.arrivals.empty() && stream.receives.empty()) from.streams.erase(found);
}

/// The grant crossed the withdrawal, and nothing of the message has come: as if there had been no offer.
void Exchange::wait_again(Peer& from, OpenLeg& leg) {
  leg.state = State::waiting;
  leg.id = 0;
  std::deque<OpenLeg*>& receives = from.streams[leg.leg.tag.value()].receives;
  const auto is_later = [&](const OpenLeg* other) { return other->number > leg.number; };
  receives.insert(std::ranges::find_if(receives, is_later), &leg);
  match(from, leg.leg.tag.value());
}

void Exchange::take_grant(Peer& from, std::uint64_t id) {
  const auto found = from.offered.find(id);
  if (found == from.offered.end()) return;  // Withdrawn, of which the peer will hear.
  OpenLeg& leg = *found->second;
  from.offered.erase(found);
  leg.state = State::streaming;
  if (leg.size_bytes == 0) return finish(leg);
  from.sending.push_back(&leg);
}

// Only now is the send done: its sender may turn to other work, and what UCX still holds would wait for it.
// (UCX's own flush trips over an assertion of its tcp lane, 1.13: PUT_TX_WAITING_ACK.)
void Exchange::take_taken(Peer& from, std::uint64_t id) {
  const auto found = from.untaken.find(id);
  if (found == from.untaken.end()) return;
  OpenLeg& leg = *found->second;
  from.untaken.erase(found);
  leg.is_taken = true;
  if (leg.num_in_flight == 0) finish(leg);
}

// The message has met its receive, which did not want it: for the sender it is done.
void Exchange::take_drop(Peer& from, std::uint64_t id) {
  const auto queued = std::ranges::find_if(from.sending, [&](const OpenLeg* leg) { return leg->id == id; });
  OpenLeg* leg = nullptr;
  if (const auto found = from.offered.find(id); found != from.offered.end()) {
    leg = found->second;
    from.offered.erase(found);
  } else if (queued != from.sending.end()) {
    leg = *queued;
    from.sending.erase(queued);
  } else {
    return take_taken(from, id);
  }
  leg->is_taken = true;
  leg->moved_bytes = leg->size_bytes;
  if (leg->num_in_flight == 0) finish(*leg);
}

void Exchange::take_data(Peer& from, const Header& header, std::span<const std::byte> payload) {
  ++from.num_data_received;
  const auto found = from.receiving.find(header.id);
  if (found != from.receiving.end()) {
    OpenLeg& leg = *found->second;
    const bool is_inside =
        header.offset <= leg.size_bytes && payload.size() <= leg.size_bytes - header.offset;
    if (is_inside) std::memcpy(leg.leg.memory.data() + header.offset, payload.data(), payload.size());
    leg.moved_bytes += payload.size();
    if (leg.moved_bytes >= leg.size_bytes) {
      from.receiving.erase(found);
      if (!from.is_gone) tell(from, Kind::taken, header.id);
      finish(leg);
    }
  }
  check_bye(from);
}

void Exchange::match(Peer& from, std::uint32_t tag) {
  const auto found = from.streams.find(tag);
  Stream& stream = found->second;
  if (!stream.arrivals.empty() && !stream.receives.empty()) {
    OpenLeg& leg = *stream.receives.front();
    const Arrival arrival = std::move(stream.arrivals.front());
    stream.receives.pop_front();
    stream.arrivals.pop_front();
    if (arrival.is_offer) {
      accept(from, leg, arrival);
    } else {
      deliver(leg, arrival.payload);
      give_credit(from, eager_cost(arrival.size_bytes));
    }
  }
  if (stream.arrivals.empty() && stream.receives.empty()) from.streams.erase(found);
}

void Exchange::deliver(OpenLeg& leg, std::span<const std::byte> payload) {
  if (payload.size() > leg.leg.memory.size()) return fail(leg, payload.size());
  if (!payload.empty()) std::memcpy(leg.leg.memory.data(), payload.data(), payload.size());
  finish(leg);
}

// The bytes of an offer whose sender is gone will not come: its receive waits for a lost peer.
void Exchange::accept(Peer& from, OpenLeg& leg, const Arrival& offer) {
  leg.id = offer.id;
  leg.size_bytes = offer.size_bytes;
  leg.state = State::streaming;
  from.receiving.emplace(leg.id, &leg);
  if (from.is_gone) return;
  if (leg.size_bytes > leg.leg.memory.size()) {
    from.receiving.erase(leg.id);
    tell(from, Kind::drop, leg.id);
    return fail(leg, leg.size_bytes);
  }
  tell(from, Kind::grant, leg.id);
  if (leg.size_bytes > 0) return;
  from.receiving.erase(leg.id);
  finish(leg);
}

void Exchange::give_credit(Peer& from, std::size_t size_bytes) {
  from.credit_bytes += size_bytes;
  if (from.credit_bytes < eager_window_bytes / 2 || from.is_gone) return;
  tell(from, Kind::credit, 0, from.credit_bytes);
  from.credit_bytes = 0;
}

// ---- ending

void Exchange::finish(OpenLeg& leg) {
  leg.state = State::ended;
  --leg.posted->num_open;
}

void Exchange::fail(OpenLeg& leg, std::size_t message_bytes) {
  if (!leg.posted->error) leg.posted->error = message_too_large(leg.leg, message_bytes);
  finish(leg);
}

void Exchange::give_up(OpenLeg& leg) {
  leg.posted->is_cancelled = true;
  finish(leg);
}

void Exchange::cancel(Posted& posted) {
  posted.is_cancelling = true;
  for (OpenLeg& leg : posted.legs) {
    if (leg.state != State::ended) cancel(leg);
  }
}

void Exchange::cancel(OpenLeg& leg) {
  Peer& peer = peer_of(leg);
  leg.leg.side == Side::send ? cancel_send(peer, leg) : cancel_receive(peer, leg);
}

void Exchange::cancel_send(Peer& to, OpenLeg& leg) {
  if (is_closed_) {  // The peers are told that nothing more comes.
    to.offered.erase(leg.id);
    std::erase(to.sending, &leg);
    to.untaken.erase(leg.id);
    leg.state = State::waiting;
  }
  if (leg.state == State::waiting && leg.num_in_flight == 0) return give_up(leg);
  if (leg.state == State::offered) withdraw(to, leg);
}

// Nothing was handed to UCX yet, so nobody needs to be asked.
void Exchange::withdraw(Peer& to, OpenLeg& leg) {
  Header header = header_to(to, Kind::withdraw);
  header.tag = leg.leg.tag.value();
  header.id = leg.id;
  to.offered.erase(leg.id);
  give_up(leg);
  worker_->send(to.rank, header, {}, nullptr);
}

void Exchange::cancel_receive(Peer& from, OpenLeg& leg) {
  if (leg.state == State::streaming) {
    from.receiving.erase(leg.id);
    if (!from.is_gone) tell(from, Kind::drop, leg.id);
    return give_up(leg);
  }
  const auto found = from.streams.find(leg.leg.tag.value());
  std::erase(found->second.receives, &leg);
  if (found->second.receives.empty() && found->second.arrivals.empty()) from.streams.erase(found);
  give_up(leg);
}

void Exchange::leave(Peer& from) {
  if (from.is_gone) return;
  from.is_gone = true;
  for (OpenLeg* leg : from.sending) strand(*leg);
  for (const auto& [id, leg] : from.offered) strand(*leg);
  for (const auto& [id, leg] : from.untaken) strand(*leg);
  from.sending.clear();
  from.offered.clear();
  from.untaken.clear();
}

void Exchange::broke(Rank rank) {
  Peer& peer = peers_[rank.index()];
  peer.is_broken = peer.is_broken || !peer.is_gone;
  leave(peer);
}

void Exchange::drop(Rank rank) {
  broke(rank);
  worker_->drop(rank);
}

void Exchange::strand(OpenLeg& leg) {
  leg.state = State::waiting;
  if (leg.posted->is_cancelling && leg.num_in_flight == 0) give_up(leg);
}

void Exchange::check_bye(Peer& from) {
  if (!from.num_data_at_bye || from.num_data_received < *from.num_data_at_bye || from.is_gone) return;
  tell(from, Kind::bye_ack, 0);
  leave(from);
}

void Exchange::close(std::span<Posted* const> tickets) {
  is_closed_ = true;
  for (Posted* posted : tickets) cancel(*posted);
  for (Peer& peer : peers_) {
    if (peer.rank == rank_) continue;
    if (!peer.is_gone) tell(peer, Kind::bye, 0, peer.num_data_sent);
    peer.streams.clear();
  }
}

bool Exchange::progress() {
  bool has_moved = worker_->progress();
  for (Peer& peer : peers_) has_moved = pump(peer) || has_moved;
  return has_moved;
}

const OpenLeg* Exchange::find_lost(const Posted& posted) const {
  const auto is_lost = [&](const OpenLeg& leg) {
    // What UCX still holds of a send may have arrived before its peer left.
    return leg.state != State::ended && leg.num_in_flight == 0 && peer(leg.leg.peer).is_gone;
  };
  const auto found = std::ranges::find_if(posted.legs, is_lost);
  return found == posted.legs.end() ? nullptr : &*found;
}

std::vector<Rank> Exchange::take_gone() {
  std::vector<Rank> gone;
  for (Peer& peer : peers_) {
    if (!peer.is_gone || peer.is_gone_told) continue;
    peer.is_gone_told = true;
    gone.push_back(peer.rank);
  }
  return gone;
}

bool Exchange::is_parted() const {
  const auto knows = [&](const Peer& peer) {
    return peer.rank == rank_ || peer.is_gone || peer.has_acked_bye;
  };
  return worker_->num_sending() == 0 && std::ranges::all_of(peers_, knows);
}

}  // namespace trimtab::ucx
