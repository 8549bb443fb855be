// SPDX-License-Identifier: Apache-2.0
#include "migrate/late_messages.hpp"

namespace trimtab {

using std::chrono::nanoseconds;

void LateMessages::expect(std::span<const Rank> peers, Tag tag, Clock::time_point until) {
  if (channel_.capabilities().cancels_sends) return;
  for (const Rank peer : peers) {
    Stream stream{.peer = peer, .tag = tag, .until = until};
    if (post(stream)) streams_.push_back(stream);
  }
}

void LateMessages::take(Clock::time_point now) {
  std::erase_if(streams_, [&](Stream& stream) { return is_over(stream, now); });
}

bool LateMessages::post(Stream& stream) {
  const Leg leg = receive_leg(stream.peer, stream.tag, {});
  const Result<Ticket> ticket = channel_.post({&leg, 1});
  if (ticket) stream.ticket = *ticket;
  return ticket.has_value();
}

bool LateMessages::is_over(Stream& stream, Clock::time_point now) {
  if (now >= stream.until) channel_.cancel(stream.ticket);
  for (;;) {
    const Result<Progress> progress = channel_.poll(stream.ticket, nanoseconds(0));
    const bool has_come = progress ? *progress == Progress::done
                                   : progress.error().code == Errc::invalid_argument;  // It was too large.
    if (!has_come) return !progress || *progress == Progress::cancelled;
    if (now >= stream.until || !post(stream)) return true;
  }
}

}  // namespace trimtab
