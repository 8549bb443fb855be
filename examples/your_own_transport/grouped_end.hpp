// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pair.hpp"

#include <trimtab/transport/transport.hpp>

#include <memory>
#include <unordered_map>
#include <vector>

namespace own {

/// A transport over a library of grouped, stream-ordered sends and receives without tags. One rank's end: its
/// tickets, and a Pair for each peer, so that what is exchanged with one waits for no other.
///
/// Messages move only inside calls. A send or receive that has met its other half cannot be cancelled any
/// more: it ends as `done` as soon as both ranks have looked at the channel.
///
/// A peer is gone once it has said bye, as threads always do. Between processes a lane that breaks would be
/// taken like a bye that promises nothing.
class GroupedEnd final : public trimtab::Transport {
 public:
  GroupedEnd(std::shared_ptr<nccl_like::World> world, trimtab::Rank rank);
  ~GroupedEnd() override;

  [[nodiscard]] const trimtab::Capabilities& capabilities() const noexcept override { return capabilities_; }
  [[nodiscard]] trimtab::Rank rank() const noexcept override { return rank_; }
  [[nodiscard]] std::int32_t num_ranks() const noexcept override { return world_->num_ranks(); }
  [[nodiscard]] bool can_reach(trimtab::Rank peer) const noexcept override;

  trimtab::Result<trimtab::Ticket> post(std::span<const trimtab::Leg> legs) override;
  trimtab::Result<trimtab::Progress> poll(trimtab::Ticket ticket, std::chrono::nanoseconds budget) override;
  void cancel(trimtab::Ticket ticket) noexcept override;
  trimtab::Result<std::unique_ptr<trimtab::Transport>> open_channel() override;
  [[nodiscard]] std::vector<trimtab::Rank> take_peer_down_events() override;
  void close() noexcept override;
  void join() noexcept override { close(); }

 private:
  using Tickets = std::unordered_map<trimtab::Ticket, std::unique_ptr<Posted>>;

  [[nodiscard]] trimtab::Status check(std::span<const trimtab::Leg> legs) const;
  [[nodiscard]] Pair& pair_of(const OpenLeg& leg) { return *pairs_[leg.leg.peer.index()]; }
  [[nodiscard]] const OpenLeg* find_lost(const Posted& posted);
  bool look();
  void look_until_over(Posted& posted, std::chrono::nanoseconds budget);
  bool is_over(Posted& posted);
  trimtab::Result<trimtab::Progress> take_outcome(Tickets::iterator ticket);

  std::shared_ptr<nccl_like::World> world_;
  trimtab::Rank rank_;
  trimtab::Capabilities capabilities_;
  std::vector<std::unique_ptr<Pair>> pairs_;  ///< By rank; null for this one.
  std::vector<bool> is_told_of_;              ///< By rank: that it has closed.
  Tickets tickets_;
  trimtab::Ticket last_ticket_;
  std::uint64_t num_children_ = 0;
  bool is_closed_ = false;
};

/// All ends of a new channel, in rank order.
[[nodiscard]] std::vector<std::unique_ptr<trimtab::Transport>> make_grouped_transports(
    std::int32_t num_ranks);

}  // namespace own
