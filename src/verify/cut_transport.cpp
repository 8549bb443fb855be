// SPDX-License-Identifier: Apache-2.0
#include "verify/cut_transport.hpp"

#include <fmt/format.h>

#include <vector>

namespace trimtab::verify {

Result<Ticket> CutTransport::post(std::span<const Leg> legs) {
  std::vector<Leg> left;
  for (const Leg& leg : legs) {
    if (leg.side == Side::receive || !is_cut_(leg.peer)) left.push_back(leg);
  }
  std::optional<Ticket> posted;
  if (!left.empty() || legs.empty()) {
    Result<Ticket> ticket = inner().post(left);
    if (!ticket) return ticket;
    posted = *ticket;
  }
  const Ticket ticket{++last_ticket_};
  tickets_.emplace(ticket, posted);
  return ticket;
}

Result<Progress> CutTransport::poll(Ticket ticket, std::chrono::nanoseconds budget) {
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end())
    return failure(Errc::not_found, fmt::format("ticket {} is not known", ticket.value()));
  Result<Progress> progress = found->second ? inner().poll(*found->second, budget) : Progress::done;
  if (progress && *progress != Progress::pending) tickets_.erase(found);
  return progress;
}

void CutTransport::cancel(Ticket ticket) noexcept {
  const auto found = tickets_.find(ticket);
  if (found != tickets_.end() && found->second) inner().cancel(*found->second);
}

}  // namespace trimtab::verify
