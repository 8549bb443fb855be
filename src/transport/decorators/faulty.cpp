// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/assert.hpp>
#include <trimtab/transport/faulty.hpp>

#include "transport/decorators/parted_tickets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trimtab {
namespace {

std::vector<std::byte> copy_of(const Leg& leg) { return {leg.memory.begin(), leg.memory.end()}; }

bool are_of_one_stream(const Leg& a, const Leg& b) {
  return a.side == b.side && a.peer == b.peer && a.tag == b.tag;
}

}  // namespace

std::string_view to_string(FaultAction action) noexcept {
  switch (action) {
    case FaultAction::drop:
      return "drop";
    case FaultAction::corrupt:
      return "corrupt";
    case FaultAction::duplicate:
      return "duplicate";
    case FaultAction::delay:
      return "delay";
    case FaultAction::reorder:
      return "reorder";
    case FaultAction::fail:
      return "fail";
  }
  return "unknown";
}

bool LegMatcher::matches(const Leg& leg) const noexcept {
  return leg.side == side && (!peer || *peer == leg.peer) && (!tag || *tag == leg.tag) &&
         (!other_than || *other_than != leg.tag) && (!size_bytes || *size_bytes == leg.memory.size());
}

FaultScript::FaultScript(const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) add(fault);
}

void FaultScript::add(const Fault& fault) {
  const bool is_for_sends = fault.action == FaultAction::drop || fault.action == FaultAction::corrupt ||
                            fault.action == FaultAction::duplicate;
  TRIMTAB_ASSERT(!is_for_sends || fault.match.side == Side::send);
  faults_.push_back(fault);
  num_matched_.push_back(0);
  has_struck_.emplace_back(false);
}

const Fault* FaultScript::next(const Leg& leg) noexcept {
  const Fault* striking = nullptr;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    if (!faults_[i].match.matches(leg)) continue;
    if (num_matched_[i]++ == faults_[i].occurrence && striking == nullptr) striking = &faults_[i];
  }
  if (striking == nullptr) return nullptr;
  has_struck_[static_cast<std::size_t>(striking - faults_.data())].store(true);
  num_struck_.fetch_add(1);
  return striking;
}

/// Legs that go out at once, those that go out behind them although nobody waits for them, and the rest.
struct FaultyTransport::Plan {
  std::vector<Leg> now;
  std::vector<Leg> again;
  std::vector<HeldLeg> held;
  std::vector<std::vector<std::byte>> damaged;  ///< What is sent instead of the caller's memory.
};

FaultyTransport::FaultyTransport(std::unique_ptr<Transport> inner, std::shared_ptr<FaultScript> script,
                                 const Clock* clock)
    : TransportDecorator(std::move(inner)),
      script_(std::move(script)),
      clock_(clock),
      tickets_(std::make_unique<PartedTickets>(this->inner())) {}

FaultyTransport::~FaultyTransport() { join(); }

Result<Ticket> FaultyTransport::post(std::span<const Leg> legs) {
  Result<Plan> planned = plan(legs);
  if (!planned) return failure(std::move(planned));
  Result<Ticket> posted = tickets_->post(planned->now, std::move(planned->held), std::move(planned->damaged));
  if (!posted) return posted;
  for (const Leg& leg : planned->again) repeat(leg);
  tickets_->release([&](const HeldLeg& held) {
    return held.waits_for_another && std::ranges::any_of(planned->now, [&](const Leg& leg) {
             return are_of_one_stream(leg, held.leg);
           });
  });
  return posted;
}

Result<FaultyTransport::Plan> FaultyTransport::plan(std::span<const Leg> legs) {
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
        plan.damaged.push_back(copy_of(leg));
        leg.memory = plan.damaged.back();
        if (!leg.memory.empty()) leg.memory[leg.memory.size() / 2] ^= std::byte{0xff};
        plan.now.push_back(leg);
        break;
      case FaultAction::duplicate:
        plan.now.push_back(leg);
        plan.again.push_back(leg);
        break;
      case FaultAction::delay:
        plan.held.push_back({.leg = leg, .due = end_of(*fault)});
        break;
      case FaultAction::reorder:
        plan.held.push_back({.leg = leg, .due = Clock::time_point::max(), .waits_for_another = true});
        break;
      case FaultAction::fail:
        return failure(fault->code, fmt::format("scripted fault: leg to rank {} under tag {}",
                                                leg.peer.value(), leg.tag.value()));
    }
  }
  return plan;
}

Clock::time_point FaultyTransport::end_of(const Fault& delay) const {
  TRIMTAB_ASSERT(clock_ != nullptr || !(delay.hold || delay.until));
  if (delay.until) return *delay.until;
  return delay.hold ? clock_->now() + *delay.hold : Clock::time_point::max();
}

// Nobody polls for it: it ends when the peer receives it, or with this end.
void FaultyTransport::repeat(const Leg& leg) {
  repeated_.push_back(std::make_unique<std::vector<std::byte>>(copy_of(leg)));
  const Leg copy = send_leg(leg.peer, leg.tag, *repeated_.back());
  static_cast<void>(inner().post({&copy, 1}));
}

void FaultyTransport::release() {
  const bool is_released = script_->is_released();
  const Clock::time_point now = clock_ != nullptr ? clock_->now() : Clock::time_point::min();
  tickets_->release([&](const HeldLeg& held) { return is_released || held.due <= now; });
}

Result<Progress> FaultyTransport::poll(Ticket ticket, std::chrono::nanoseconds budget) {
  release();
  return tickets_->poll(ticket, clock_ == nullptr ? budget : tickets_->until_due(clock_->now(), budget));
}

void FaultyTransport::cancel(Ticket ticket) noexcept { tickets_->cancel(ticket); }

void FaultyTransport::close() noexcept {
  tickets_->cancel_all();
  inner().close();
}

}  // namespace trimtab
