// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/transport.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

namespace trimtab::inproc {

struct PostedTicket;

/// One half of a message while its ticket is posted. Does not move: mailboxes link to it.
struct PostedLeg {
  Leg leg;
  PostedTicket* ticket = nullptr;
  std::size_t message_bytes = 0;  ///< Of a receive that was too small for its message.

  // Guarded by the mailbox that the leg waits in.
  PostedLeg* previous = nullptr;
  PostedLeg* next = nullptr;
  PostedLeg* other = nullptr;  ///< What it has met.
  bool is_queued = false;

  std::atomic<bool> is_offered{false};  ///< It has met its other half, and nobody has begun to copy.
};

/// Belongs to the end that posted it, which may free it once `num_open` is zero. Peers that copy for it touch
/// it last when they count `num_open` down.
struct PostedTicket {
  PostedTicket(Rank owner_rank, std::span<const Leg> posted)
      : owner(owner_rank), legs(posted.size()), num_open(posted.size()) {
    for (std::size_t i = 0; i < posted.size(); ++i) {
      legs[i].leg = posted[i];
      legs[i].ticket = this;
    }
  }
  PostedTicket(const PostedTicket&) = delete;
  PostedTicket& operator=(const PostedTicket&) = delete;

  [[nodiscard]] bool is_terminal() const noexcept { return num_open.load() == 0; }
  [[nodiscard]] bool has_work() const noexcept {
    return std::ranges::any_of(legs, [](const PostedLeg& leg) { return leg.is_offered.load(); });
  }

  const Rank owner;
  std::vector<PostedLeg> legs;
  std::atomic<std::size_t> num_open;
  std::atomic<bool> has_too_large_message{false};
  bool is_cancelled = false;  ///< Owner only.
};

}  // namespace trimtab::inproc
