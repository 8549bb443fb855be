// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

// A stand-in for what an engine has: a library like NCCL for payloads, and some lane between hosts for small
// messages (gloo, ZeroMQ, sockets). Ranks are threads of this process, a "device" is a thread that copies. It
// is as strict as the real ones are silent: where they would hang or corrupt, it ends the process and says
// why.

namespace nccl_like {

/// Is over once all that was enqueued before it is: cudaEvent_t.
class Event {
 public:
  [[nodiscard]] bool query() const noexcept { return is_over_->load(std::memory_order_acquire); }

 private:
  friend class Link;
  std::shared_ptr<std::atomic<bool>> is_over_ = std::make_shared<std::atomic<bool>>(false);
};

/// What one call of send or receive asks for. A group runs as one: its operations wait for each other.
struct Operation {
  bool is_send = false;
  std::span<std::byte> memory;
};
struct Group {
  std::vector<Operation> operations;
  Event event;
};

/// Two ranks' streams of groups, and the device that runs them.
class Link {
 public:
  static constexpr std::size_t fifo_bytes = std::size_t{64} << 10;

  Link();
  ~Link();
  Event launch(std::size_t side, std::vector<Operation> operations);
  void abort(std::size_t side) noexcept;

 private:
  void run_groups();
  void end_front(std::size_t side);
  void run(const Group& first, const Group& second);
  void copy(std::span<const Operation> from, std::span<const Operation> to);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<std::deque<Group>, 2> streams_;
  std::array<bool, 2> is_aborted_{};
  bool is_running_ = false;  ///< Memory is touched.
  bool is_over_ = false;
  std::vector<std::byte> fifo_;
  std::thread device_;
};

/// ncclComm_t of two ranks, with a stream of its own. There are no tags: the i-th send meets the peer's i-th
/// receive, of exactly its size. What was launched cannot be cancelled, and a group that meets no such group
/// of the peer stands in the way of all that follow.
class Communicator {
 public:
  /// More than these in one group are refused here; real libraries have hung.
  static constexpr std::size_t max_operations = 64;

  Communicator(std::shared_ptr<Link> link, std::size_t side) noexcept : link_(std::move(link)), side_(side) {}

  void group_start() noexcept { group_.clear(); }
  void send(std::span<const std::byte> memory);
  void receive(std::span<std::byte> memory) { group_.push_back({false, memory}); }
  /// Enqueues the group, and an event behind it.
  Event group_end() { return link_->launch(side_, std::move(group_)); }

  /// Drops what has not run. Nothing touches memory of this rank any more when it returns.
  void abort() noexcept { link_->abort(side_); }

 private:
  std::shared_ptr<Link> link_;
  std::size_t side_;
  std::vector<Operation> group_;
};

/// Messages between hosts, in the order of sending for each pair of ranks.
class HostLane {
 public:
  struct Packet {
    int from = 0;
    std::vector<std::byte> bytes;
  };
  explicit HostLane(int num_ranks) : inboxes_(static_cast<std::size_t>(num_ranks)) {}
  void send(int to, Packet packet);
  [[nodiscard]] std::optional<Packet> try_receive(int rank);

 private:
  struct Inbox {
    std::mutex mutex;
    std::deque<Packet> packets;
  };
  std::vector<Inbox> inboxes_;
};

/// Where ranks find each other: what a launcher and ncclGetUniqueId do.
class World {
 public:
  explicit World(int num_ranks);
  [[nodiscard]] int num_ranks() const noexcept { return num_ranks_; }
  [[nodiscard]] HostLane& lane() noexcept { return lane_; }
  /// The communicator of `rank` and `peer`, for `rank`.
  [[nodiscard]] Communicator communicator(int rank, int peer) const;
  /// A further world of the same ranks; all of them ask for the same `index`.
  [[nodiscard]] std::shared_ptr<World> join_child(std::uint64_t index);

 private:
  int num_ranks_;
  HostLane lane_;
  std::vector<std::shared_ptr<Link>> links_;  ///< [lower rank][higher rank]
  std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<World>> children_;
};

}  // namespace nccl_like
