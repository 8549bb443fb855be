// SPDX-License-Identifier: Apache-2.0
#include "migrate/stage_pieces.hpp"

#include <algorithm>

namespace trimtab {

using std::chrono::nanoseconds;

std::vector<TensorPart> piece_at(std::span<const TensorSpec> tensors, std::size_t offset) {
  std::vector<TensorPart> parts;
  std::size_t room = piece_bytes;
  for (std::size_t t = 0; t < tensors.size() && room > 0; ++t) {
    if (offset >= tensors[t].slot_bytes) {
      offset -= tensors[t].slot_bytes;
      continue;
    }
    const std::size_t size = std::min(tensors[t].slot_bytes - offset, room);
    parts.push_back({t, offset, size});
    room -= size;
    offset = 0;
  }
  return parts;
}

Result<bool> PostedPieces::take_done(Transport& channel) {
  if (tickets_.empty()) return false;
  Result<Progress> progress = channel.poll(tickets_.front(), nanoseconds(0));
  if (!progress) return failure(std::move(progress));
  if (*progress == Progress::pending) return false;
  if (*progress == Progress::cancelled) return failure(Errc::closed, "the migration channel was closed");
  tickets_.pop_front();
  return true;
}

void PostedPieces::cancel(Transport& channel) noexcept {
  for (const Ticket ticket : tickets_) channel.cancel(ticket);
}

bool PostedPieces::settle(Transport& channel) {
  std::erase_if(tickets_, [&](Ticket ticket) {
    Result<Progress> progress = channel.poll(ticket, nanoseconds(0));
    // A failed poll has ended its ticket; but a leg with a lost peer stays posted until it is cancelled.
    return progress ? *progress != Progress::pending : progress.error().code != Errc::peer_lost;
  });
  return tickets_.empty();
}

}  // namespace trimtab
