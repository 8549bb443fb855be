// SPDX-License-Identifier: Apache-2.0
#include "verify/cut_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace trimtab::verify {

Result<Ticket> CutTransport::post(std::span<const Leg> legs) {
  Posted posted;
  std::vector<Leg> left;
  for (const Leg& leg : legs) {
    if (leg.side == Side::receive) posted.sources.push_back(leg.peer);
    if (!is_cut_(leg.peer)) left.push_back(leg);
  }
  if (!left.empty() || legs.empty()) {
    Result<Ticket> inner_ticket = inner().post(left);
    if (!inner_ticket) return inner_ticket;
    posted.inner = *inner_ticket;
  }
  last_ticket_ = last_ticket_.next();
  tickets_.emplace(last_ticket_, std::move(posted));
  return last_ticket_;
}

Result<Progress> CutTransport::poll(Ticket ticket, std::chrono::nanoseconds budget) {
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end())
    return failure(Errc::not_found, fmt::format("ticket {} is not posted", ticket.value()));
  Posted& posted = found->second;
  Result<Progress> progress = Progress::done;
  if (std::ranges::any_of(posted.sources, is_cut_)) {
    progress = poll_lost(posted, budget);
  } else if (posted.inner) {
    progress = inner().poll(*posted.inner, budget);
  }
  const bool waits_for_gone = !progress && progress.error().code == Errc::peer_lost;
  if (!waits_for_gone && !(progress && *progress == Progress::pending)) tickets_.erase(found);
  return progress;
}

/// What has come, or comes yet, is lost; but its memory is free only once the inner end has let go of it.
Result<Progress> CutTransport::poll_lost(Posted& posted, std::chrono::nanoseconds budget) {
  if (posted.inner) {
    inner().cancel(*posted.inner);
    const Result<Progress> progress = inner().poll(*posted.inner, std::chrono::nanoseconds(0));
    const bool is_held = progress ? *progress == Progress::pending : progress.error().code == Errc::peer_lost;
    if (is_held) return Progress::pending;
    posted.inner.reset();
  }
  if (posted.is_cancelled) return Progress::cancelled;
  std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(budget, std::chrono::milliseconds(1)));
  return Progress::pending;
}

void CutTransport::cancel(Ticket ticket) noexcept {
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end()) return;
  found->second.is_cancelled = true;
  if (found->second.inner) inner().cancel(*found->second.inner);
}

Result<std::unique_ptr<Transport>> CutTransport::open_channel() {
  Result<std::unique_ptr<Transport>> opened = inner().open_channel();
  if (!opened) return opened;
  return std::unique_ptr<Transport>(std::make_unique<CutTransport>(std::move(*opened), is_cut_));
}

std::vector<Rank> CutTransport::take_peer_down_events() {
  std::vector<Rank> down = inner().take_peer_down_events();
  std::erase_if(down, is_cut_);
  return down;
}

}  // namespace trimtab::verify
