// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transport/inproc/channel.hpp"

#include <trimtab/transport/transport.hpp>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace trimtab::inproc {

/// One rank's end of a channel.
class End final : public Transport {
 public:
  End(std::shared_ptr<Channel> channel, Rank rank) : channel_(std::move(channel)), rank_(rank) {}
  ~End() override;

  [[nodiscard]] const Capabilities& capabilities() const noexcept override;
  [[nodiscard]] Rank rank() const noexcept override { return rank_; }
  [[nodiscard]] std::int32_t num_ranks() const noexcept override { return channel_->num_ranks(); }
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
  using Tickets = std::unordered_map<Ticket, std::unique_ptr<PostedTicket>>;

  [[nodiscard]] bool is_dropped(Rank peer) const noexcept;
  /// A leg that waits for a peer that is gone, or null.
  [[nodiscard]] const PostedLeg* find_lost(const PostedTicket& posted) const;
  [[nodiscard]] Error unknown(Ticket ticket) const;
  void wait(PostedTicket& posted, std::chrono::nanoseconds budget);
  Result<Progress> progress_of_open(const PostedTicket& posted) const;
  Result<Progress> take_outcome(Tickets::iterator found);

  std::shared_ptr<Channel> channel_;
  Rank rank_;
  Tickets tickets_;
  Ticket last_ticket_;
  std::uint64_t num_children_ = 0;
  std::size_t num_closed_seen_ = 0;
  std::vector<Rank> dropped_;
  std::vector<Rank> down_taken_;
  bool is_closed_ = false;
};

}  // namespace trimtab::inproc
