// SPDX-License-Identifier: Apache-2.0
#include "transport/inproc/end.hpp"

#include "transport/check_legs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace trimtab::inproc {
namespace {

// MPI tags are ints: what runs here must not be refused there.
constexpr Capabilities inproc_capabilities{.name = "inproc",
                                           .is_fault_tolerant = true,
                                           .tells_watchers = true,
                                           .max_tag = std::numeric_limits<std::int32_t>::max(),
                                           .buffer_bytes = 0,
                                           .knows_deaths = true,
                                           .drops_peers = true};

Doorbell::time_point deadline_after(std::chrono::nanoseconds budget) {
  constexpr std::chrono::nanoseconds longest = std::chrono::hours(24);  // keeps the sum representable
  return std::chrono::steady_clock::now() + std::min(budget, longest);
}

}  // namespace

End::~End() { join(); }

const Capabilities& End::capabilities() const noexcept { return inproc_capabilities; }

bool End::can_reach(Rank peer) const noexcept {
  return peer != rank_ && ids<Rank>(num_ranks()).contains(peer);
}

Result<Ticket> End::post(std::span<const Leg> legs) {
  if (is_closed_)
    return failure(Errc::closed, fmt::format("inproc end of rank {}: post after close", rank_.value()));
  if (Status checked = check_legs(*this, legs); !checked) return failure(std::move(checked));
  const Ticket ticket = last_ticket_.next();
  PostedTicket& posted = *tickets_.emplace(ticket, std::make_unique<PostedTicket>(rank_, legs)).first->second;
  last_ticket_ = ticket;
  channel_->start(posted);
  return ticket;
}

Result<Progress> End::poll(Ticket ticket, std::chrono::nanoseconds budget) {
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end()) return tl::unexpected(unknown(ticket));
  channel_->work(*found->second);
  if (budget.count() > 0) wait(*found->second, budget);
  return found->second->is_terminal() ? take_outcome(found) : progress_of_open(*found->second);
}

void End::wait(PostedTicket& posted, std::chrono::nanoseconds budget) {
  if (posted.is_terminal()) return;
  const Doorbell::time_point deadline = deadline_after(budget);
  do {
    const std::size_t seen_closed = channel_->num_closed();
    if (find_lost(posted) != nullptr) return;
    channel_->wait(posted, deadline, seen_closed);
    channel_->work(posted);
  } while (!posted.is_terminal() && std::chrono::steady_clock::now() < deadline);
}

Result<Progress> End::progress_of_open(const PostedTicket& posted) const {
  const PostedLeg* const lost = find_lost(posted);
  if (lost == nullptr) return Progress::pending;
  return failure(
      Errc::peer_lost,
      fmt::format("rank {} closed its end or was dropped; a leg of rank {} under tag {} waits for it",
                  lost->leg.peer.value(), rank_.value(), lost->leg.tag.value()));
}

Result<Progress> End::take_outcome(Tickets::iterator found) {
  const std::unique_ptr<PostedTicket> posted = std::move(found->second);
  tickets_.erase(found);
  if (posted->has_too_large_message.load()) {
    const auto is_too_small = [](const PostedLeg& leg) { return leg.message_bytes > leg.leg.memory.size(); };
    const PostedLeg& small = *std::find_if(posted->legs.begin(), posted->legs.end(), is_too_small);
    return tl::unexpected(message_too_large(small.leg, small.message_bytes));
  }
  return posted->is_cancelled ? Progress::cancelled : Progress::done;
}

Error End::unknown(Ticket ticket) const {
  return {is_closed_ ? Errc::closed : Errc::not_found,
          fmt::format("ticket {} is not posted at the {} inproc end of rank {}", ticket.value(),
                      is_closed_ ? "closed" : "open", rank_.value())};
}

void End::cancel(Ticket ticket) noexcept {
  if (const auto found = tickets_.find(ticket); found != tickets_.end()) channel_->cancel(*found->second);
}

Result<std::unique_ptr<Transport>> End::open_channel() {
  if (is_closed_) {
    return failure(Errc::closed,
                   fmt::format("inproc end of rank {}: open_channel after close", rank_.value()));
  }
  return std::make_unique<End>(channel_->join_child(num_children_++), rank_);
}

std::vector<Rank> End::take_peer_down_events() {
  std::vector<Rank> down = channel_->ends_closed_since(num_closed_seen_);
  num_closed_seen_ += down.size();
  down.insert(down.end(), dropped_.begin(), dropped_.end());
  const auto was_taken = [&](Rank rank) {
    if (rank == rank_ || std::ranges::find(down_taken_, rank) != down_taken_.end()) return true;
    down_taken_.push_back(rank);
    return false;
  };
  std::erase_if(down, was_taken);
  return down;
}

bool End::is_dropped(Rank peer) const noexcept { return std::ranges::find(dropped_, peer) != dropped_.end(); }

void End::drop_peer(Rank peer) noexcept {
  if (can_reach(peer) && !is_dropped(peer)) dropped_.push_back(peer);
}

const PostedLeg* End::find_lost(const PostedTicket& posted) const {
  const auto is_lost = [&](const PostedLeg& leg) {
    return is_dropped(leg.leg.peer) && channel_->is_waiting(leg);
  };
  if (const PostedLeg* const lost = channel_->find_lost(posted); lost != nullptr) return lost;
  const auto found = std::ranges::find_if(posted.legs, is_lost);
  return found == posted.legs.end() ? nullptr : &*found;
}

void End::close() noexcept {
  if (is_closed_) return;
  is_closed_ = true;
  for (auto& [ticket, posted] : tickets_) channel_->cancel(*posted);
  channel_->mark_closed(rank_);
}

void End::join() noexcept {
  close();
  // What is left is being copied by peers at this moment, or may be copied here.
  for (const auto& [ticket, posted] : tickets_) {
    for (channel_->work(*posted); !posted->is_terminal(); channel_->work(*posted)) {
      channel_->wait(*posted, deadline_after(std::chrono::nanoseconds::max()), channel_->num_closed());
    }
  }
}

}  // namespace trimtab::inproc
