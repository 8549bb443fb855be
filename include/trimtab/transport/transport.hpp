// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>
#include <trimtab/core/result.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace trimtab {

/// Names a stream of messages between two ranks, 0..Capabilities::max_tag. What a tag means is decided by the
/// caller; the transport only matches equal tags.
using Tag = StrongId<struct TagTag, std::uint32_t>;

enum class Side : std::uint8_t {
  send,     ///< local memory -> peer
  receive,  ///< peer -> local memory
};

/// Told how far a message has come, so that its bytes can be worked on while they are in a cache.
///
/// Only an opportunity: a back-end that does not copy messages itself (Capabilities::tells_watchers) says
/// nothing, and one that does may say too little. What it says about one leg comes in order and before the
/// leg's ticket is terminal, on the thread of whichever end copies; legs of one stream do not overlap.
class LegWatcher {
 public:
  virtual ~LegWatcher() = default;
  /// The next `size` bytes of the leg's memory are about to be read (send), or were written (receive).
  virtual void pass(std::size_t size) noexcept = 0;
};

/// This rank's half of one message. The peer posts the mirrored half with the same tag.
///
/// The i-th `send` to a peer under a tag meets that peer's i-th `receive` from here under that tag, whatever
/// tickets they belong to. A receive may be larger than its message, never smaller.
struct Leg {
  Side side = Side::send;
  Rank peer;
  Tag tag;
  std::span<std::byte> memory;    ///< Borrowed until the ticket is terminal. A send only reads it.
  LegWatcher* watcher = nullptr;  ///< Optional; borrowed as long.
};

/// Makes a leg that reads `memory`.
[[nodiscard]] Leg send_leg(Rank peer, Tag tag, std::span<const std::byte> memory,
                           LegWatcher* watcher = nullptr) noexcept;
/// Makes a leg that writes `memory`.
[[nodiscard]] Leg receive_leg(Rank peer, Tag tag, std::span<std::byte> memory,
                              LegWatcher* watcher = nullptr) noexcept;

/// Names a posted group of legs on one Transport. Never reused.
using Ticket = StrongId<struct TicketTag, std::uint64_t>;

enum class Progress : std::uint8_t {
  pending,
  done,  ///< Every leg is complete; received bytes are visible to this thread, sent memory may be changed.
  cancelled,  ///< Given up by `cancel` or `close`; no leg of the ticket touches memory any more.
};

/// What a back-end can do. Fixed for the object's lifetime; callers branch on this, never on a back-end's
/// name.
struct Capabilities {
  std::string_view name;           ///< "inproc", "mpi", …: for people.
  bool is_fault_tolerant = false;  ///< Survivors can go on after a peer's death.
  bool tells_watchers = false;     ///< Legs' watchers hear of (nearly) all bytes.
  std::uint32_t max_tag = 0;       ///< Largest usable tag.
  std::size_t buffer_bytes =
      0;  ///< Memory the back-end itself holds for this channel, to be reported beside staging.
  bool knows_deaths = false;  ///< A peer-down event is an end for good, and never a link that was cut.
  bool cancels_sends = true;  ///< A cancelled send ends by itself; else only once it is received.
  bool drops_peers = false;   ///< `drop_peer` has an effect.
};

/// Moves bytes between ranks in two-sided, tagged messages. Knows nothing of experts, plans or epochs.
///
/// One object is one rank's end of one channel: messages of different channels never meet, block or reorder
/// each other. Lifecycle: post -> poll until terminal -> close -> join. The destructor closes and joins.
/// Threads: calls on one Transport are serialised by the caller; objects are independent.
/// Errors: returned, never thrown and never logged here.
class Transport {
 public:
  virtual ~Transport() = default;

  [[nodiscard]] virtual const Capabilities& capabilities() const noexcept = 0;

  /// This end, and how many ends the channel has.
  [[nodiscard]] virtual Rank rank() const noexcept = 0;
  [[nodiscard]] virtual std::int32_t num_ranks() const noexcept = 0;

  /// Symmetric: both ranks compute the same answer without exchanging a message. A rank cannot reach itself.
  [[nodiscard]] virtual bool can_reach(Rank peer) const noexcept = 0;

  /// Starts every leg; does not block; `legs` (not the memory) may be freed on return.
  /// @return `invalid_argument` for a peer that cannot be reached or a tag > max_tag, before any leg is
  /// started;
  ///         `closed` after close. After a later failure the bytes of receiving legs are unspecified.
  virtual Result<Ticket> post(std::span<const Leg> legs) = 0;

  /// Progresses the channel for at most about `budget` (zero: look once) or until the ticket is terminal,
  /// then forgets a terminal ticket: asking again is `not_found`.
  /// @return `invalid_argument` when a message was larger than its receive (the ticket is then terminal);
  ///         `peer_lost` when a peer is known to be gone.
  virtual Result<Progress> poll(Ticket ticket, std::chrono::nanoseconds budget) = 0;

  /// Asks to give a ticket up. It stays posted until `poll` says `cancelled` or `done`: memory of a receive
  /// must not be reused before (a late message may still land in it). Unknown tickets are ignored.
  virtual void cancel(Ticket ticket) noexcept = 0;

  /// Opens a further channel over the same ranks, with the same capabilities. Collective: every rank calls it
  /// in the same order. May wait for the other ranks.
  virtual Result<std::unique_ptr<Transport>> open_channel() = 0;

  /// Ranks found gone since the last call, each once: dead, or cut off, unless Capabilities::knows_deaths.
  /// Always empty for back-ends that are not fault tolerant.
  [[nodiscard]] virtual std::vector<Rank> take_peer_down_events() = 0;

  /// Has no more to do with a peer on this channel, whatever it does: from now on it is gone here, as if its
  /// end had closed, and a cancelled ticket that waits for it alone ends soon, though the peer be stopped.
  /// For a rank that others have given up for good; it may find this end gone, or nothing. Unknown ranks and
  /// this one's own are ignored.
  virtual void drop_peer(Rank /*peer*/) noexcept {}

  /// Enters the terminal state: later calls return `closed`, pending tickets become `cancelled`. Idempotent.
  virtual void close() noexcept = 0;

  /// Waits until no background work remains. Idempotent.
  virtual void join() noexcept = 0;
};

}  // namespace trimtab
