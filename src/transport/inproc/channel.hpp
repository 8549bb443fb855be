// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transport/inproc/doorbell.hpp"
#include "transport/inproc/posted.hpp"

#include <trimtab/transport/transport.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace trimtab::inproc {

/// Legs that wait at one destination, by stream (source, tag): for their other half, all of the same side;
/// or, since they met it, to be copied. In a stream one message is copied at a time, in the order of the
/// stream: watchers rely on it.
class Mailbox {
 public:
  enum class Meeting : std::uint8_t {
    none,     ///< `leg` waits.
    now,      ///< `leg.other` is there: the caller copies, and calls `finish`.
    offered,  ///< `leg.other` is there: either owner may `claim` the copying.
  };
  /// Lets `leg` (of a message from `source`) meet the oldest leg that waits for such a one.
  Meeting meet(Rank source, PostedLeg& leg);

  /// Takes over the copying of the oldest message that was offered, unless one is being copied: then `finish`
  /// when it is. @return the sending half, or null.
  PostedLeg* claim(Rank source, Tag tag) noexcept;
  void finish(Rank source, Tag tag) noexcept;

  /// Takes a leg that still waits out. @return false when it was met before.
  bool withdraw(Rank source, PostedLeg& leg) noexcept;

  [[nodiscard]] bool holds(const PostedLeg& leg) const noexcept;

 private:
  struct Queue {
    PostedLeg* oldest = nullptr;
    PostedLeg* newest = nullptr;

    void append(PostedLeg& leg) noexcept;
    void take_out(PostedLeg& leg) noexcept;
  };
  struct Stream {
    Queue waiting;
    Queue offered;  ///< Sending halves.
    bool is_copying = false;
  };
  using Streams = std::unordered_map<std::uint64_t, Stream>;

  void forget_if_empty(Streams::iterator stream) noexcept;

  mutable std::mutex mutex_;
  Streams streams_;  // never holds an empty stream: tags are used once, and must not pile up
};

/// What the ends of one channel share. Memory is O(ranks + live messages). All calls from any thread.
class Channel {
 public:
  explicit Channel(std::int32_t num_ranks);

  [[nodiscard]] std::int32_t num_ranks() const noexcept { return num_ranks_; }

  /// Starts every leg of a ticket. Copies, on this thread, small messages that meet a waiting half; what is
  /// large, or behind such a one, is left to `work`. A ticket whose legs are queued in part cannot be undone
  /// here, so running out of memory ends the process.
  void start(PostedTicket& ticket) noexcept;

  /// Copies what messages of a ticket have met, and what is before it in its stream, unless the peer does.
  void work(PostedTicket& ticket) noexcept;

  /// Gives up the legs that were not met yet; the rest finish in the threads that copy them.
  void cancel(PostedTicket& ticket) noexcept;

  /// Waits until the ticket is terminal or has work, another end closes, or `deadline`.
  void wait(const PostedTicket& ticket, Doorbell::time_point deadline, std::size_t seen_closed);

  /// For `ends_closed_since`, and to be told of by the doorbells.
  void mark_closed(Rank rank);
  [[nodiscard]] std::size_t num_closed() const noexcept { return num_closed_.load(); }
  [[nodiscard]] std::vector<Rank> ends_closed_since(std::size_t seen) const;

  /// It has met nothing yet.
  [[nodiscard]] bool is_waiting(const PostedLeg& leg) const noexcept { return mailbox_of(leg).holds(leg); }

  /// A leg that waits for an end that closed, or null.
  [[nodiscard]] const PostedLeg* find_lost(const PostedTicket& ticket) const;

  /// The channel that the `index`-th `open_channel` of each end leads to.
  [[nodiscard]] std::shared_ptr<Channel> join_child(std::uint64_t index);

 private:
  struct alignas(64) Member {
    Mailbox mailbox;
    Doorbell doorbell;
    std::atomic<bool> is_closed{false};
  };
  struct Child {
    std::shared_ptr<Channel> channel;
    std::int32_t num_joined = 0;
  };

  [[nodiscard]] Mailbox& mailbox_of(const PostedLeg& leg) const noexcept;
  void copy(PostedLeg& send) noexcept;
  void exchange(PostedLeg& send, PostedLeg& receive) noexcept;
  void settle(PostedLeg& leg) noexcept;

  const std::int32_t num_ranks_;
  const std::unique_ptr<Member[]> members_;
  std::atomic<std::size_t> num_closed_{0};

  mutable std::mutex mutex_;  // guards what follows
  std::vector<Rank> closed_;  // in the order in which they closed
  std::map<std::uint64_t, Child> children_;
};

}  // namespace trimtab::inproc
