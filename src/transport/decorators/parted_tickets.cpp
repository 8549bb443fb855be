// SPDX-License-Identifier: Apache-2.0
#include "transport/decorators/parted_tickets.hpp"

#include <algorithm>
#include <utility>

namespace trimtab {

Result<Ticket> PartedTickets::post(std::span<const Leg> now, std::vector<HeldLeg> held,
                                   std::vector<std::vector<std::byte>> memory) {
  Result<Ticket> started = inner_.post(now);
  if (!started) return started;
  last_ = last_.next();
  if (!held.empty()) holding_.insert(last_);
  tickets_.emplace(last_, Posted{.inner = {*started},
                                 .held = std::move(held),
                                 .memory = std::move(memory),
                                 .is_cancelled = false,
                                 .error = {}});
  return last_;
}

void PartedTickets::hand_on(Posted& posted, std::span<const Leg> legs) {
  if (legs.empty()) return;
  Result<Ticket> started = inner_.post(legs);
  if (started) {
    posted.inner.push_back(*started);
  } else if (!posted.error) {
    posted.error = started.error();
  }
}

Result<Progress> PartedTickets::poll(Ticket ticket, std::chrono::nanoseconds budget) {
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end()) return inner_.poll(Ticket{0}, budget);  // Says how it is unknown.
  Result<Progress> progress = poll(found->second, budget);
  if (!progress || *progress == Progress::pending) return progress;
  const Posted ended = std::move(found->second);
  tickets_.erase(found);
  if (ended.error) return tl::unexpected(*ended.error);
  return ended.is_cancelled ? Progress::cancelled : Progress::done;
}

Result<Progress> PartedTickets::poll(Posted& posted, std::chrono::nanoseconds budget) {
  while (!posted.inner.empty()) {
    Result<Progress> progress = inner_.poll(posted.inner.back(), budget);
    if (progress && *progress == Progress::pending) return progress;
    if (!progress && progress.error().code == Errc::peer_lost) return progress;  // Still posted.
    if (!progress && !posted.error) posted.error = progress.error();
    posted.is_cancelled = posted.is_cancelled || (progress && *progress == Progress::cancelled);
    posted.inner.pop_back();
  }
  return posted.held.empty() ? Progress::done : Progress::pending;
}

std::chrono::nanoseconds PartedTickets::until_due(Clock::time_point now,
                                                  std::chrono::nanoseconds budget) const noexcept {
  for (Ticket ticket : holding_) {
    const auto found = tickets_.find(ticket);
    if (found == tickets_.end()) continue;
    for (const HeldLeg& held : found->second.held) {
      if (held.due <= now) return std::chrono::nanoseconds(0);
      if (held.due != Clock::time_point::max()) budget = std::min(budget, held.due - now);
    }
  }
  return budget;
}

void PartedTickets::cancel(Ticket ticket) noexcept {
  if (const auto found = tickets_.find(ticket); found != tickets_.end()) cancel(found->second);
}

void PartedTickets::cancel_all() noexcept {
  for (auto& [ticket, posted] : tickets_) cancel(posted);
}

void PartedTickets::cancel(Posted& posted) noexcept {
  for (Ticket inner : posted.inner) inner_.cancel(inner);
  posted.is_cancelled = posted.is_cancelled || !posted.held.empty();
  posted.held.clear();
}

}  // namespace trimtab
