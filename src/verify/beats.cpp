// SPDX-License-Identifier: Apache-2.0
#include "verify/beats.hpp"

#include <fmt/format.h>

namespace trimtab::verify {

Result<std::vector<Beat>> Beats::exchange(const Beat& mine, const std::function<void()>& meanwhile,
                                          const Clock& clock, Clock::duration deadline) {
  std::vector<Beat> beats(static_cast<std::size_t>(channel_.num_ranks()), mine);
  std::vector<Leg> legs;
  for (Rank peer : ids<Rank>(channel_.num_ranks())) {
    if (peer == channel_.rank()) continue;
    legs.push_back(receive_leg(peer, tag_, std::as_writable_bytes(std::span(&beats[peer.index()], 1))));
    legs.push_back(send_leg(peer, tag_, std::as_bytes(std::span(&mine, 1))));
  }
  if (legs.empty()) return beats;
  const Result<Ticket> ticket = channel_.post(legs);
  if (!ticket) return tl::unexpected<Error>(ticket.error());
  const Clock::time_point until = clock.now() + deadline;
  for (;;) {
    Result<Progress> progress = channel_.poll(*ticket, std::chrono::microseconds(20));
    if (!progress) return failure(std::move(progress));
    if (*progress == Progress::done) return beats;
    // The legs point into this frame: who stops waiting must end the process.
    if (clock.now() > until) {
      return failure(Errc::timeout, fmt::format("rank {}: forward {} has not begun everywhere in time",
                                                channel_.rank().value(), mine.forward));
    }
    meanwhile();
  }
}

}  // namespace trimtab::verify
