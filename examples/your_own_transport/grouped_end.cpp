// SPDX-License-Identifier: Apache-2.0
#include "grouped_end.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <thread>

namespace own {

using namespace trimtab;

GroupedEnd::GroupedEnd(std::shared_ptr<nccl_like::World> world, Rank rank)
    : world_(std::move(world)), rank_(rank), is_told_of_(static_cast<std::size_t>(world_->num_ranks())) {
  capabilities_.name = "grouped";
  capabilities_.is_fault_tolerant =
      true;  // A peer that goes breaks the communicator of its pair, and no other.
  capabilities_.max_tag = std::numeric_limits<std::int32_t>::max();  // Tags are ours: the library has none.
  capabilities_.buffer_bytes = nccl_like::Link::fifo_bytes * (is_told_of_.size() - 1);
  for (Rank peer : ids<Rank>(num_ranks())) {
    pairs_.push_back(peer == rank_ ? nullptr : std::make_unique<Pair>(*world_, rank_, peer));
  }
}

GroupedEnd::~GroupedEnd() { close(); }

bool GroupedEnd::can_reach(Rank peer) const noexcept {
  return peer != rank_ && ids<Rank>(num_ranks()).contains(peer);
}

/// Before any leg is started: half a ticket could not be taken back.
Status GroupedEnd::check(std::span<const Leg> legs) const {
  for (const Leg& leg : legs) {
    const auto said = [&](std::string text) { return failure(Errc::invalid_argument, std::move(text)); };
    if (!can_reach(leg.peer)) {
      return said("rank " + std::to_string(rank_.value()) + " cannot reach rank " +
                  std::to_string(leg.peer.value()));
    }
    if (leg.tag.value() > capabilities_.max_tag) {
      return said("tag " + std::to_string(leg.tag.value()) + " > " + std::to_string(capabilities_.max_tag));
    }
  }
  return {};
}

Result<Ticket> GroupedEnd::post(std::span<const Leg> legs) {
  if (is_closed_) return failure(Errc::closed, "post after close");
  if (Status checked = check(legs); !checked) return failure(std::move(checked));
  last_ticket_ = last_ticket_.next();
  Posted& posted = *tickets_.emplace(last_ticket_, std::make_unique<Posted>()).first->second;
  for (const Leg& leg : legs) {
    OpenLeg& open = posted.legs.emplace_back();
    open.leg = leg;
    open.posted = &posted;
  }
  posted.num_open = legs.size();
  for (OpenLeg& leg : posted.legs) pair_of(leg).start(leg);
  return last_ticket_;
}

/// The lane first: what it says can end legs, and a peer's bye is the last that it says.
bool GroupedEnd::look() {
  bool has_news = false;
  while (const auto packet = world_->lane().try_receive(rank_.value())) {
    pairs_[static_cast<std::size_t>(packet->from)]->handle(packet->bytes);
    has_news = true;
  }
  for (const auto& pair : pairs_) {
    if (pair && pair->progress()) has_news = true;
  }
  return has_news;
}

const OpenLeg* GroupedEnd::find_lost(const Posted& posted) {
  const auto lost =
      std::ranges::find_if(posted.legs, [&](const OpenLeg& leg) { return pair_of(leg).is_lost(leg); });
  return lost == posted.legs.end() ? nullptr : &*lost;
}

/// Nothing is to be waited for any more: the ticket is terminal, or lost.
bool GroupedEnd::is_over(Posted& posted) {
  if (posted.num_open == 0) return true;
  if (find_lost(posted) == nullptr) return false;
  if (!posted.is_giving_up) return true;
  for (OpenLeg& leg : posted.legs) {
    if (pair_of(leg).is_lost(leg)) pair_of(leg).cancel(leg);
  }
  return posted.num_open == 0;
}

/// Answers come within microseconds while a peer has a core of its own; else the core is left to it.
void GroupedEnd::look_until_over(Posted& posted, std::chrono::nanoseconds budget) {
  constexpr int num_spins = 100;
  constexpr int num_yields = 50;
  const auto begin = std::chrono::steady_clock::now();
  for (int num_idle = 0; !is_closed_; ++num_idle) {
    if (look()) num_idle = 0;
    if (is_over(posted) || std::chrono::steady_clock::now() - begin >= budget) return;
    if (num_idle > num_spins) std::this_thread::yield();
    if (num_idle > num_spins + num_yields) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

Result<Progress> GroupedEnd::poll(Ticket ticket, std::chrono::nanoseconds budget) {
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end()) {
    return failure(is_closed_ ? Errc::closed : Errc::not_found,
                   "ticket " + std::to_string(ticket.value()) + " is not posted here");
  }
  Posted& posted = *found->second;
  look_until_over(posted, budget);
  if (posted.num_open == 0) return take_outcome(found);
  const OpenLeg* const lost = posted.is_giving_up ? nullptr : find_lost(posted);
  if (lost == nullptr) return Progress::pending;
  return failure(Errc::peer_lost, "rank " + std::to_string(lost->leg.peer.value()) +
                                      " closed its end; a leg under tag " +
                                      std::to_string(lost->leg.tag.value()) + " waits for it");
}

Result<Progress> GroupedEnd::take_outcome(Tickets::iterator ticket) {
  const std::unique_ptr<Posted> posted = std::move(ticket->second);
  tickets_.erase(ticket);
  if (posted->error) return tl::unexpected(*posted->error);
  return posted->is_cancelled ? Progress::cancelled : Progress::done;
}

void GroupedEnd::cancel(Ticket ticket) noexcept {
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end()) return;
  found->second->is_giving_up = true;
  for (OpenLeg& leg : found->second->legs) pair_of(leg).cancel(leg);
}

Result<std::unique_ptr<Transport>> GroupedEnd::open_channel() {
  if (is_closed_) return failure(Errc::closed, "open_channel after close");
  return std::make_unique<GroupedEnd>(world_->join_child(num_children_++), rank_);
}

std::vector<Rank> GroupedEnd::take_peer_down_events() {
  if (!is_closed_) look();
  std::vector<Rank> down;
  for (Rank peer : ids<Rank>(num_ranks())) {
    if (peer == rank_ || is_told_of_[peer.index()] || !pairs_[peer.index()]->is_gone()) continue;
    is_told_of_[peer.index()] = true;
    down.push_back(peer);
  }
  return down;
}

/// Communicators first: memory is the caller's again only when no group can touch it.
void GroupedEnd::close() noexcept {
  if (is_closed_) return;
  is_closed_ = true;
  for (const auto& pair : pairs_) {
    if (pair) pair->close();
  }
  for (const auto& [ticket, posted] : tickets_) {
    for (OpenLeg& leg : posted->legs) pair_of(leg).cancel(leg);
  }
}

std::vector<std::unique_ptr<Transport>> make_grouped_transports(std::int32_t num_ranks) {
  const auto world = std::make_shared<nccl_like::World>(num_ranks);
  std::vector<std::unique_ptr<Transport>> ends;
  for (Rank rank : ids<Rank>(num_ranks)) ends.push_back(std::make_unique<GroupedEnd>(world, rank));
  return ends;
}

}  // namespace own
