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
  void close() noexcept override;
  void join() noexcept override;

 private:
  using Tickets = std::unordered_map<Ticket, std::unique_ptr<PostedTicket>>;

  [[nodiscard]] Error unknown(Ticket ticket) const;
  void wait(PostedTicket& posted, std::chrono::nanoseconds budget);
  Result<Progress> progress_of_open(const PostedTicket& posted) const;
  Result<Progress> take_outcome(Tickets::iterator found);

  std::shared_ptr<Channel> channel_;
  Rank rank_;
  Tickets tickets_;
  Ticket last_ticket_;
  std::uint64_t num_children_ = 0;
  std::size_t num_down_taken_ = 0;
  bool is_closed_ = false;
};

}  // namespace trimtab::inproc
