// SPDX-License-Identifier: Apache-2.0
#include "support/faulty_transport.hpp"

#include <trimtab/core/assert.hpp>

#include <fmt/format.h>

namespace trimtab::test {
namespace {

std::vector<std::byte> copy_of(const Leg& leg) { return {leg.memory.begin(), leg.memory.end()}; }

}  // namespace

bool LegMatcher::matches(const Leg& leg) const noexcept {
  return leg.side == side && (!peer || *peer == leg.peer) && (!tag || *tag == leg.tag) &&
         (!size_bytes || *size_bytes == leg.memory.size());
}

FaultScript::FaultScript(std::vector<Fault> faults)
    : faults_(std::move(faults)), num_matched_(faults_.size(), 0) {
  for (const Fault& fault : faults_) {
    const bool is_for_any_side = fault.action == FaultAction::delay || fault.action == FaultAction::fail;
    TRIMTAB_ASSERT(is_for_any_side || fault.match.side == Side::send);
  }
}

const Fault* FaultScript::next(const Leg& leg) noexcept {
  const Fault* striking = nullptr;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    if (!faults_[i].match.matches(leg)) continue;
    if (num_matched_[i]++ == faults_[i].occurrence && striking == nullptr) striking = &faults_[i];
  }
  if (striking != nullptr) num_struck_.fetch_add(1);
  return striking;
}

Result<Ticket> FaultyTransport::post(std::span<const Leg> legs) {
  Posted posted;
  Result<Plan> planned = plan(legs, posted);
  if (!planned) return failure(std::move(planned));
  Result<Ticket> started = inner_->post(planned->now);
  if (!started) return started;
  posted.inner.push_back(*started);
  for (const Leg& leg : planned->again) repeat(leg);
  last_ticket_ = last_ticket_.next();
  tickets_.emplace(last_ticket_, std::move(posted));
  return last_ticket_;
}

Result<FaultyTransport::Plan> FaultyTransport::plan(std::span<const Leg> legs, Posted& posted) {
  Plan plan;
  for (Leg leg : legs) {
    const Fault* const fault = script_->next(leg);
    if (fault == nullptr) {
      plan.now.push_back(leg);
      continue;
    }
    switch (fault->action) {
      case FaultAction::drop:
        break;
      case FaultAction::corrupt:
        posted.damaged.push_back(copy_of(leg));
        leg.memory = posted.damaged.back();
        if (!leg.memory.empty()) leg.memory[leg.memory.size() / 2] ^= std::byte{0xff};
        plan.now.push_back(leg);
        break;
      case FaultAction::duplicate:
        plan.now.push_back(leg);
        plan.again.push_back(leg);
        break;
      case FaultAction::delay:
        posted.delayed.push_back(leg);
        break;
      case FaultAction::fail:
        return failure(fault->code, fmt::format("scripted fault: leg to rank {} under tag {}",
                                                leg.peer.value(), leg.tag.value()));
    }
  }
  return plan;
}

// Nobody polls for it: it ends when the peer receives it, or with this end.
void FaultyTransport::repeat(const Leg& leg) {
  repeated_.push_back(std::make_unique<std::vector<std::byte>>(copy_of(leg)));
  const Leg copy = send_leg(leg.peer, leg.tag, *repeated_.back());
  static_cast<void>(inner_->post({&copy, 1}));
}

void FaultyTransport::release(Posted& posted) {
  if (posted.delayed.empty() || posted.is_cancelled || !script_->is_released()) return;
  Result<Ticket> started = inner_->post(posted.delayed);
  posted.delayed.clear();
  if (started) {
    posted.inner.push_back(*started);
  } else if (!posted.error) {
    posted.error = started.error();
  }
}

Result<Progress> FaultyTransport::poll(Ticket ticket, std::chrono::nanoseconds budget) {
  for (auto& [any, posted] : tickets_) release(posted);
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end()) return inner_->poll(Ticket{0}, budget);  // says how it is unknown
  Posted& posted = found->second;
  Result<Progress> progress = poll_inner(posted, budget);
  if (!progress || *progress == Progress::pending) return progress;
  const Posted ended = std::move(posted);
  tickets_.erase(found);
  if (ended.error) return tl::unexpected(*ended.error);
  return ended.is_cancelled ? Progress::cancelled : Progress::done;
}

Result<Progress> FaultyTransport::poll_inner(Posted& posted, std::chrono::nanoseconds budget) {
  while (!posted.inner.empty()) {
    Result<Progress> progress = inner_->poll(posted.inner.back(), budget);
    if (progress && *progress == Progress::pending) return progress;
    if (!progress && progress.error().code == Errc::peer_lost) return progress;  // still posted
    if (!progress && !posted.error) posted.error = progress.error();
    posted.is_cancelled = posted.is_cancelled || (progress && *progress == Progress::cancelled);
    posted.inner.pop_back();
  }
  return posted.delayed.empty() ? Progress::done : Progress::pending;
}

void FaultyTransport::cancel(Ticket ticket) noexcept {
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end()) return;
  for (Ticket inner : found->second.inner) inner_->cancel(inner);
  found->second.is_cancelled = found->second.is_cancelled || !found->second.delayed.empty();
  found->second.delayed.clear();
}

void FaultyTransport::close() noexcept {
  for (auto& [ticket, posted] : tickets_) cancel(ticket);
  inner_->close();
}

}  // namespace trimtab::test
