// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/transport.hpp>

#include <mpi.h>

#include <optional>
#include <unordered_map>
#include <vector>

namespace trimtab {

/// One rank's end of a channel; the channel is a communicator that it owns.
class MpiEnd final : public Transport {
 public:
  /// Collective over `parent`: the communicator is a copy of it.
  static Result<std::unique_ptr<Transport>> open(MPI_Comm parent);
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
  struct Posted {
    std::vector<MPI_Request> requests;  ///< MPI_REQUEST_NULL once complete.
    std::vector<Leg> legs;              ///< By request.
    std::size_t num_open = 0;
    bool is_cancelled = false;
    std::optional<Error> error;  ///< The first.
  };
  using Tickets = std::unordered_map<Ticket, Posted>;

  explicit MpiEnd(MPI_Comm owned);
  [[nodiscard]] Error unknown(Ticket ticket) const;
  static int start(const Leg& leg, MPI_Comm comm, MPI_Request& request);
  void advance(Posted& posted);
  void complete(Posted& posted, std::size_t index, const MPI_Status& status, int code);
  void advance_until(Posted& posted, std::chrono::nanoseconds budget);
  static void cancel_receives(Posted& posted) noexcept;
  bool advance_all();
  void discard_arrivals();

  MPI_Comm comm_;
  Capabilities capabilities_;
  Rank rank_;
  std::int32_t num_ranks_ = 0;
  Tickets tickets_;
  Ticket last_ticket_;
  std::vector<int> indices_;          // scratch of advance
  std::vector<MPI_Status> statuses_;  // scratch of advance
  std::vector<MPI_Request> discards_;
  bool is_closed_ = false;
};

}  // namespace trimtab
