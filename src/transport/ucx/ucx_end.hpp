// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transport/ucx/exchange.hpp"
#include "transport/ucx/worker.hpp"

#include <trimtab/core/clock.hpp>

#include <memory>
#include <unordered_map>

namespace trimtab::ucx {

/// One rank's end of a channel; the channel is a worker of each rank.
class UcxEnd final : public Transport {
 public:
  /// Not connected yet. `open_time`: for all ranks to open a channel from this one. @return `unavailable`.
  static Result<std::unique_ptr<UcxEnd>> open(std::shared_ptr<Context> context, Rank rank,
                                              std::int32_t num_ranks, Clock::duration open_time);
  ~UcxEnd() override;

  [[nodiscard]] const std::vector<std::byte>& address() const noexcept { return worker_->address(); }
  [[nodiscard]] Worker& worker() noexcept { return *worker_; }
  Status connect(Rank peer, std::span<const std::byte> address);
  /// Waits until every peer that is there has connected. `parent`, which may be null, is progressed
  /// meanwhile; a rank that goes there is gone here too. @return `timeout` naming the first rank waited for.
  Status await_hellos(UcxEnd* parent, Clock::duration deadline);

  [[nodiscard]] const Capabilities& capabilities() const noexcept override { return capabilities_; }
  [[nodiscard]] Rank rank() const noexcept override { return rank_; }
  [[nodiscard]] std::int32_t num_ranks() const noexcept override { return num_ranks_; }
  [[nodiscard]] bool can_reach(Rank peer) const noexcept override;

  Result<Ticket> post(std::span<const Leg> legs) override;
  Result<Progress> poll(Ticket ticket, std::chrono::nanoseconds budget) override;
  void cancel(Ticket ticket) noexcept override;
  Result<std::unique_ptr<Transport>> open_channel() override;
  [[nodiscard]] std::vector<Rank> take_peer_down_events() override;
  void drop_peer(Rank peer) noexcept override;
  void close() noexcept override;
  void join() noexcept override;

 private:
  using time_point = std::chrono::steady_clock::time_point;
  using Tickets = std::unordered_map<Ticket, std::unique_ptr<Posted>>;

  UcxEnd(Rank rank, std::int32_t num_ranks, Clock::duration open_time);
  [[nodiscard]] bool is_there(Rank peer) const noexcept;
  [[nodiscard]] Error unknown(Ticket ticket) const;
  [[nodiscard]] Error lost(const OpenLeg& leg) const;
  bool look();
  Result<std::unique_ptr<Transport>> connect_child(std::unique_ptr<UcxEnd> child, std::uint64_t index);
  Status await_addresses(std::uint64_t channel, time_point deadline);

  /// Progresses until `is_through()`, for at most about `budget`. Returns whether it is through.
  template <class Condition>
  bool advance_until(std::chrono::nanoseconds budget, const Condition& is_through);

  Rank rank_;
  std::int32_t num_ranks_;
  Clock::duration open_time_;
  Capabilities capabilities_;
  Exchange exchange_;
  std::unique_ptr<Worker> worker_;  ///< Tells the exchange, so it goes first. Null after `join`.
  Tickets tickets_;
  Ticket last_ticket_;
  std::uint64_t num_children_ = 0;
  bool is_closed_ = false;
};

}  // namespace trimtab::ucx
