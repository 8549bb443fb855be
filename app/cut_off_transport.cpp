// SPDX-License-Identifier: Apache-2.0
#include "app/cut_off_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

namespace trimtab {

Result<Ticket> CutOffTransport::post(std::span<const Leg> legs) {
  Posted posted;
  posted.receives = std::ranges::any_of(legs, [](const Leg& leg) { return leg.side == Side::receive; });
  if (!*is_cut_) {
    Result<Ticket> inner_ticket = inner().post(legs);
    if (!inner_ticket) return inner_ticket;
    posted.inner = *inner_ticket;
  }
  last_ticket_ = last_ticket_.next();
  tickets_.emplace(last_ticket_, posted);
  return last_ticket_;
}

Result<Progress> CutOffTransport::poll(Ticket ticket, std::chrono::nanoseconds budget) {
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end())
    return failure(Errc::not_found, fmt::format("ticket {} is not posted", ticket.value()));
  Posted& posted = found->second;
  Result<Progress> progress = *is_cut_ ? poll_cut(posted, budget) : inner().poll(*posted.inner, budget);
  const bool waits_for_lost = !progress && progress.error().code == Errc::peer_lost;
  if (!waits_for_lost && !(progress && *progress == Progress::pending)) tickets_.erase(found);
  return progress;
}

/// A message that has come, or comes yet, is lost.
Result<Progress> CutOffTransport::poll_cut(Posted& posted, std::chrono::nanoseconds budget) {
  if (posted.inner) {
    if (posted.receives || posted.is_cancelled) inner().cancel(*posted.inner);
    const Result<Progress> progress = inner().poll(*posted.inner, std::chrono::nanoseconds(0));
    if (progress && *progress == Progress::pending) return Progress::pending;
    if (progress || progress.error().code != Errc::peer_lost) posted.inner.reset();
  }
  if (posted.is_cancelled) return Progress::cancelled;
  if (!posted.receives) return Progress::done;
  std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(budget, std::chrono::milliseconds(1)));
  return Progress::pending;
}

void CutOffTransport::cancel(Ticket ticket) noexcept {
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end()) return;
  found->second.is_cancelled = true;
  if (found->second.inner) inner().cancel(*found->second.inner);
}

Result<std::unique_ptr<Transport>> CutOffTransport::open_channel() {
  Result<std::unique_ptr<Transport>> opened = inner().open_channel();
  if (!opened) return opened;
  return std::unique_ptr<Transport>(std::make_unique<CutOffTransport>(std::move(*opened), is_cut_));
}

std::vector<Rank> CutOffTransport::take_peer_down_events() {
  std::vector<Rank> down = inner().take_peer_down_events();
  if (*is_cut_) down.clear();
  return down;
}

}  // namespace trimtab
