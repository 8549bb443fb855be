// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/mpi.hpp>
#include <trimtab/transport/transport.hpp>

#include <mpi.h>

#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

namespace trimtab {

class MpiMeeting;

/// One rank's end of a channel; the channel is a communicator that it owns.
///
/// A receive is given to MPI only when its message has been probed: Open MPI 4.1 writes past the memory of a
/// receive that is smaller than its message when it moves it by a remote read (shared memory with CMA).
/// It also makes a receive that met nothing cancellable at once.
class MpiEnd final : public Transport {
 public:
  /// Collective over `parent`: the communicator is a copy of it.
  static Result<std::unique_ptr<Transport>> open(MPI_Comm parent, const MpiLimits& limits);
  ~MpiEnd() override;

  [[nodiscard]] const Capabilities& capabilities() const noexcept override { return capabilities_; }
  [[nodiscard]] Rank rank() const noexcept override { return rank_; }
  [[nodiscard]] std::int32_t num_ranks() const noexcept override { return num_ranks_; }
  [[nodiscard]] bool can_reach(Rank peer) const noexcept override;

  Result<Ticket> post(std::span<const Leg> legs) override;
  Result<Progress> poll(Ticket ticket, std::chrono::nanoseconds budget) override;
  void cancel(Ticket ticket) noexcept override;
  Result<std::unique_ptr<Transport>> open_channel() override;
  [[nodiscard]] std::vector<Rank> take_peer_down_events() override { return {}; }
  void close() noexcept override;
  void join() noexcept override;

 private:
  using Memory = std::vector<std::byte>;

  struct Posted {
    std::vector<MPI_Request> requests;  ///< By leg; MPI_REQUEST_NULL while awaited and once complete.
    std::vector<Leg> legs;
    std::unordered_map<std::size_t, Memory> too_large;  ///< By leg: messages that did not fit, to be dropped.
    std::size_t num_open = 0;
    bool is_cancelled = false;
    std::optional<Error> error;  ///< The first.
  };
  using Tickets = std::unordered_map<Ticket, Posted>;

  /// A receive for which no message has come yet.
  struct Awaiting {
    Posted* posted;
    std::size_t leg;
  };
  /// By source and tag, the oldest first; never an empty queue.
  using Awaited = std::unordered_map<std::uint64_t, std::deque<Awaiting>>;

  MpiEnd(MPI_Comm owned, MpiLimits limits);
  [[nodiscard]] Error unknown(Ticket ticket) const;
  void start(Posted& posted, std::size_t index);
  void match_arrivals();
  bool match_oldest(Awaited::iterator queue);
  void receive(Posted& posted, std::size_t index, MPI_Message message, std::size_t size_bytes);
  void advance(Posted& posted);
  void advance_until(Posted& posted, std::chrono::nanoseconds budget);
  static void complete(Posted& posted, std::size_t index, int code);
  static void fail(Posted& posted, Error error);
  void cancel(Posted& posted) noexcept;
  [[nodiscard]] bool advance_all();
  void discard_arrivals();
  void leave(MpiMeeting* meeting);

  MPI_Comm comm_;
  MpiLimits limits_;
  Capabilities capabilities_;
  Rank rank_;
  std::int32_t num_ranks_ = 0;
  Tickets tickets_;
  Ticket last_ticket_;
  Awaited awaited_;
  std::vector<int> indices_;          // scratch of advance
  std::vector<MPI_Status> statuses_;  // scratch of advance
  Memory discarded_;                  // what discard_ writes
  MPI_Request discard_ = MPI_REQUEST_NULL;
  bool is_closed_ = false;
};

}  // namespace trimtab
