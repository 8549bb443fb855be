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

/// Legs that wait for their other half at one destination; for one (source, tag) all are of the same side.
class Mailbox {
 public:
  /// Takes out the oldest leg that `leg` (of a message from `source`) meets, or else leaves `leg` to wait.
  /// @return the other half, or null.
  PostedLeg* meet_or_queue(Rank source, PostedLeg& leg);

  /// Takes a leg that still waits out. @return false when it was met before.
  bool withdraw(Rank source, PostedLeg& leg) noexcept;

  [[nodiscard]] bool holds(const PostedLeg& leg) const noexcept;

 private:
  struct Queue {
    PostedLeg* oldest = nullptr;
    PostedLeg* newest = nullptr;
  };
  using Queues = std::unordered_map<std::uint64_t, Queue>;

  static void append(Queue& queue, PostedLeg& leg) noexcept;
  void take_out(Queues::iterator queue, PostedLeg& leg) noexcept;

  mutable std::mutex mutex_;
  Queues queues_;  // never holds an empty queue: tags are used once, and must not pile up
};

/// What the ends of one channel share. Memory is O(ranks + live messages). All calls from any thread.
class Channel {
 public:
  explicit Channel(std::int32_t num_ranks);

  [[nodiscard]] std::int32_t num_ranks() const noexcept { return num_ranks_; }

  /// Starts every leg of a ticket. Copies, on this thread, what meets a waiting half. A ticket whose legs are
  /// queued in part cannot be undone here, so running out of memory ends the process.
  void start(PostedTicket& ticket) noexcept;

  /// Gives up the legs that were not met yet; the rest finish in the threads that copy them.
  void cancel(PostedTicket& ticket) noexcept;

  /// Waits until the ticket is terminal, another end closes, or `deadline`.
  void wait(const PostedTicket& ticket, Doorbell::time_point deadline, std::size_t seen_closed);

  /// For `ends_closed_since`, and to be told of by the doorbells.
  void mark_closed(Rank rank);
  [[nodiscard]] std::size_t num_closed() const noexcept { return num_closed_.load(); }
  [[nodiscard]] std::vector<Rank> ends_closed_since(std::size_t seen) const;

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
