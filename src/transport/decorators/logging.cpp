// SPDX-License-Identifier: Apache-2.0
#include <trimtab/transport/logging.hpp>

#include <fmt/format.h>

#include <string>
#include <utility>

namespace trimtab {
namespace {

/// "send 192 bytes to rank 1, tag 3".
std::string describe(const Leg& leg) {
  const bool sends = leg.side == Side::send;
  return fmt::format("{} {} bytes {} rank {}, tag {}", sends ? "send" : "receive", leg.memory.size(),
                     sends ? "to" : "from", leg.peer.value(), leg.tag.value());
}

}  // namespace

LoggingTransport::LoggingTransport(std::unique_ptr<Transport> inner, Sink sink)
    : TransportDecorator(std::move(inner)), sink_(std::move(sink)) {}

void LoggingTransport::tell(std::string_view what) {
  sink_(fmt::format("rank {}: {}", rank().value(), what));
}

Result<Ticket> LoggingTransport::post(std::span<const Leg> legs) {
  Result<Ticket> ticket = inner().post(legs);
  for (const Leg& leg : legs) {
    tell(ticket ? fmt::format("ticket {}: {}", ticket->value(), describe(leg))
                : fmt::format("refused: {}: {}", describe(leg), ticket.error().message));
  }
  return ticket;
}

Result<Progress> LoggingTransport::poll(Ticket ticket, std::chrono::nanoseconds budget) {
  Result<Progress> progress = inner().poll(ticket, budget);
  if (!progress) {
    tell(fmt::format("ticket {}: {}", ticket.value(), progress.error().message));
  } else if (*progress != Progress::pending) {
    tell(fmt::format("ticket {}: {}", ticket.value(), *progress == Progress::done ? "done" : "cancelled"));
  }
  return progress;
}

void LoggingTransport::cancel(Ticket ticket) noexcept {
  tell(fmt::format("ticket {}: cancel", ticket.value()));
  inner().cancel(ticket);
}

std::vector<Rank> LoggingTransport::take_peer_down_events() {
  std::vector<Rank> down = inner().take_peer_down_events();
  for (Rank peer : down) tell(fmt::format("rank {} is down", peer.value()));
  return down;
}

void LoggingTransport::close() noexcept {
  tell("close");
  inner().close();
}

}  // namespace trimtab
