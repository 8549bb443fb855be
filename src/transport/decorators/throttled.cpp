// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/assert.hpp>
#include <trimtab/transport/throttled.hpp>

#include "transport/decorators/parted_tickets.hpp"

#include <algorithm>

namespace trimtab {

ThrottledTransport::ThrottledTransport(std::unique_ptr<Transport> inner, double bytes_per_second,
                                       const Clock& clock)
    : TransportDecorator(std::move(inner)),
      bytes_per_second_(bytes_per_second),
      clock_(clock),
      tickets_(std::make_unique<PartedTickets>(this->inner())) {
  TRIMTAB_ASSERT(bytes_per_second > 0.0);
}

ThrottledTransport::~ThrottledTransport() { join(); }

Result<Ticket> ThrottledTransport::post(std::span<const Leg> legs) {
  release();
  std::vector<Leg> now;
  std::vector<HeldLeg> held;
  const Clock::time_point before = free_at_;
  for (const Leg& leg : legs) {
    if (leg.side == Side::receive) {
      now.push_back(leg);
      continue;
    }
    const auto seconds =
        std::chrono::duration<double>(static_cast<double>(leg.memory.size()) / bytes_per_second_);
    free_at_ = std::max(free_at_, clock_.now()) + std::chrono::duration_cast<Clock::duration>(seconds);
    held.push_back({.leg = leg, .due = free_at_});
  }
  // What is wrong with a leg is to be said at once, not when its time has come.
  for (const HeldLeg& send : held) {
    if (send.leg.tag.value() <= capabilities().max_tag && can_reach(send.leg.peer)) continue;
    free_at_ = before;
    return inner().post(legs);
  }
  Result<Ticket> posted = tickets_->post(now, std::move(held));
  if (!posted) free_at_ = before;
  return posted;
}

void ThrottledTransport::release() {
  const Clock::time_point now = clock_.now();
  tickets_->release([now](const HeldLeg& held) { return held.due <= now; });
}

Result<Progress> ThrottledTransport::poll(Ticket ticket, std::chrono::nanoseconds budget) {
  release();
  return tickets_->poll(ticket, tickets_->until_due(clock_.now(), budget));
}

void ThrottledTransport::cancel(Ticket ticket) noexcept { tickets_->cancel(ticket); }

void ThrottledTransport::close() noexcept {
  tickets_->cancel_all();
  inner().close();
}

}  // namespace trimtab
