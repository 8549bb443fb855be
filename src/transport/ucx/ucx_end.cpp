// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/ucx_end.hpp"

#include "transport/check_legs.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <limits>

namespace trimtab::ucx {
namespace {

using std::chrono::steady_clock;

/// For what was said last to leave this process.
constexpr std::chrono::milliseconds close_time{100};
/// For the peers to say that they know. Those that do not look at the channel, or are stopped, do not.
constexpr std::chrono::milliseconds linger_time{500};

steady_clock::time_point deadline_after(std::chrono::nanoseconds budget) {
  constexpr std::chrono::nanoseconds longest = std::chrono::hours(24);  // keeps the sum representable
  return steady_clock::now() + std::min(budget, longest);
}

std::size_t buffer_bytes(std::int32_t num_ranks) {
  constexpr std::size_t per_peer = eager_window_bytes + 2 * segment_bytes;
  return static_cast<std::size_t>(num_ranks - 1) * per_peer;
}

}  // namespace

UcxEnd::UcxEnd(Rank rank, std::int32_t num_ranks, Clock::duration open_time)
    : rank_(rank), num_ranks_(num_ranks), open_time_(open_time), exchange_(rank, num_ranks) {
  // MPI tags are ints: what runs here must not be refused there.
  capabilities_ = {
      .name = "ucx",
      .is_fault_tolerant = true,
      .tells_watchers = false,  // Messages of one stream overlap: a large one waits for its grant.
      .max_tag = std::numeric_limits<std::int32_t>::max(),
      .buffer_bytes = buffer_bytes(num_ranks),
      .knows_deaths = false,  // UCX 1.13 tells of both as "Endpoint timeout".
      .cancels_sends = true,
      .drops_peers = true};
}

UcxEnd::~UcxEnd() { join(); }

Result<std::unique_ptr<UcxEnd>> UcxEnd::open(std::shared_ptr<Context> context, Rank rank,
                                             std::int32_t num_ranks, Clock::duration open_time) {
  std::unique_ptr<UcxEnd> end(new UcxEnd(rank, num_ranks, open_time));
  Result<std::unique_ptr<Worker>> worker = Worker::open(std::move(context), num_ranks, end->exchange_);
  if (!worker) return failure(std::move(worker));
  end->worker_ = std::move(*worker);
  end->exchange_.attach(*end->worker_);
  return end;
}

bool UcxEnd::can_reach(Rank peer) const noexcept {
  return peer != rank_ && ids<Rank>(num_ranks_).contains(peer);
}

bool UcxEnd::is_there(Rank peer) const noexcept { return peer != rank_ && !exchange_.peer(peer).is_gone; }

Status UcxEnd::connect(Rank peer, std::span<const std::byte> address) {
  if (Status connected = worker_->connect(peer, address); !connected) return connected;
  exchange_.say_hello(peer);
  return {};
}

Status UcxEnd::await_hellos(UcxEnd* parent, Clock::duration deadline) {
  Rank missing;
  const auto are_all_here = [&] {
    if (parent != nullptr) parent->look();
    for (Rank peer : ids<Rank>(num_ranks_)) {
      if (parent != nullptr && parent->exchange_.peer(peer).is_broken) exchange_.set_gone(peer);
      missing = peer;
      if (is_there(peer) && !exchange_.peer(peer).has_said_hello) return false;
    }
    return true;
  };
  const auto until = deadline_after(deadline);
  while (!are_all_here()) {
    if (steady_clock::now() >= until) {
      return failure(Errc::timeout,
                     fmt::format("ucx end of rank {}: rank {} has not connected after {} ms", rank_.value(),
                                 missing.value(), deadline / std::chrono::milliseconds(1)));
    }
    advance_until(std::chrono::milliseconds(1), are_all_here);
  }
  return {};
}

bool UcxEnd::look() {
  constexpr int most_looks = 16;
  int num_looks = 0;
  while (worker_ && num_looks < most_looks && exchange_.progress()) ++num_looks;
  return num_looks > 0;
}

// A peer on another core answers within microseconds; but ranks may share a core, so it is offered to them
// early, and then left to them.
template <class Condition>
bool UcxEnd::advance_until(std::chrono::nanoseconds budget, const Condition& is_through) {
  constexpr int num_spins = 50;
  constexpr int num_yields = 20;
  const auto deadline = deadline_after(budget);
  for (int num_idle = 0;; ++num_idle) {
    if (look()) num_idle = 0;
    if (is_through()) return true;
    const auto now = steady_clock::now();
    if (now >= deadline || !worker_) return false;
    if (num_idle < num_spins) continue;
    if (num_idle < num_spins + num_yields) {
      sched_yield();
    } else {
      worker_->sleep(deadline - now);
    }
  }
}

Result<Ticket> UcxEnd::post(std::span<const Leg> legs) {
  if (is_closed_)
    return failure(Errc::closed, fmt::format("ucx end of rank {}: post after close", rank_.value()));
  if (Status checked = check_legs(*this, legs); !checked) return failure(std::move(checked));
  last_ticket_ = last_ticket_.next();
  Posted& posted = *tickets_.emplace(last_ticket_, std::make_unique<Posted>()).first->second;
  posted.legs.resize(legs.size());
  posted.num_open = legs.size();
  for (std::size_t i = 0; i < legs.size(); ++i) {
    posted.legs[i].leg = legs[i];
    posted.legs[i].posted = &posted;
  }
  for (OpenLeg& leg : posted.legs) exchange_.start(leg);
  return last_ticket_;
}

Result<Progress> UcxEnd::poll(Ticket ticket, std::chrono::nanoseconds budget) {
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end()) return tl::unexpected(unknown(ticket));
  const Posted& posted = *found->second;
  const auto is_news = [&] {
    return posted.num_open == 0 || (!posted.is_cancelling && exchange_.find_lost(posted));
  };
  advance_until(budget, is_news);
  if (posted.num_open > 0) {
    const OpenLeg* const lost_leg = exchange_.find_lost(posted);
    if (lost_leg == nullptr || posted.is_cancelling) return Progress::pending;
    return tl::unexpected(lost(*lost_leg));
  }
  const std::unique_ptr<Posted> ended = std::move(found->second);
  tickets_.erase(found);
  if (ended->error) return tl::unexpected(*ended->error);
  return ended->is_cancelled ? Progress::cancelled : Progress::done;
}

Error UcxEnd::unknown(Ticket ticket) const {
  return {is_closed_ ? Errc::closed : Errc::not_found,
          fmt::format("ticket {} is not posted at the {} ucx end of rank {}", ticket.value(),
                      is_closed_ ? "closed" : "open", rank_.value())};
}

Error UcxEnd::lost(const OpenLeg& leg) const {
  return {Errc::peer_lost,
          fmt::format("rank {} is gone or closed its end; a leg of rank {} under tag {} waits for it",
                      leg.leg.peer.value(), rank_.value(), leg.leg.tag.value())};
}

void UcxEnd::cancel(Ticket ticket) noexcept {
  if (const auto found = tickets_.find(ticket); found != tickets_.end()) exchange_.cancel(*found->second);
}

Result<std::unique_ptr<Transport>> UcxEnd::open_channel() {
  if (is_closed_)
    return failure(Errc::closed, fmt::format("ucx end of rank {}: open_channel after close", rank_.value()));
  Result<std::unique_ptr<UcxEnd>> child = open(worker_->context(), rank_, num_ranks_, open_time_);
  if (!child) return failure(std::move(child));
  return connect_child(std::move(*child), num_children_++);
}

Result<std::unique_ptr<Transport>> UcxEnd::connect_child(std::unique_ptr<UcxEnd> child, std::uint64_t index) {
  const auto deadline = deadline_after(open_time_);
  for (Rank peer : ids<Rank>(num_ranks_)) {
    if (is_there(peer)) exchange_.send_address(peer, index, child->address());
  }
  Status connected = await_addresses(index, deadline);
  for (Rank peer : ids<Rank>(num_ranks_)) {
    const std::vector<std::byte>* const address = exchange_.find_address(index, peer);
    if (peer == rank_ || !connected) continue;
    if (address != nullptr && !exchange_.peer(peer).is_broken) {
      connected = child->connect(peer, *address);
    } else {
      child->exchange_.set_gone(peer);
    }
  }
  exchange_.forget_addresses(index);
  if (connected) connected = child->await_hellos(this, deadline - steady_clock::now());
  if (!connected) return failure(std::move(connected));
  return child;
}

Status UcxEnd::await_addresses(std::uint64_t channel, time_point deadline) {
  Rank missing;
  const auto have_come = [&] {
    for (Rank peer : ids<Rank>(num_ranks_)) {
      missing = peer;
      if (is_there(peer) && exchange_.find_address(channel, peer) == nullptr) return false;
    }
    return true;
  };
  if (advance_until(deadline - steady_clock::now(), have_come)) return {};
  return failure(
      Errc::timeout,
      fmt::format("ucx end of rank {}: rank {} has not opened channel {} after {} ms", rank_.value(),
                  missing.value(), channel, open_time_ / std::chrono::milliseconds(1)));
}

std::vector<Rank> UcxEnd::take_peer_down_events() {
  look();
  return exchange_.take_gone();
}

void UcxEnd::drop_peer(Rank peer) noexcept {
  if (worker_ && can_reach(peer)) exchange_.drop(peer);
}

void UcxEnd::close() noexcept {
  if (is_closed_) return;
  is_closed_ = true;
  std::vector<Posted*> tickets;
  for (auto& [ticket, posted] : tickets_) tickets.push_back(posted.get());
  if (!worker_) return;
  exchange_.close(tickets);
  advance_until(close_time, [&] { return worker_->num_sending() == 0; });
}

void UcxEnd::join() noexcept {
  close();
  if (!worker_) return;
  advance_until(linger_time, [&] { return exchange_.is_parted(); });
  worker_->shut();
  worker_.reset();
  // What UCX held of them it has given up.
  for (auto& [ticket, posted] : tickets_) {
    posted->is_cancelled = posted->is_cancelled || posted->num_open > 0;
    posted->num_open = 0;
  }
}

}  // namespace trimtab::ucx
