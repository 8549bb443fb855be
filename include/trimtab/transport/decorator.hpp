// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/transport.hpp>

#include <memory>
#include <utility>

namespace trimtab {

/// A transport that is another one but for what a derived class overrides. Owns the inner one. Channels
/// opened from it are the inner transport's own, without the decoration.
class TransportDecorator : public Transport {
 public:
  explicit TransportDecorator(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] const Capabilities& capabilities() const noexcept override { return inner_->capabilities(); }
  [[nodiscard]] Rank rank() const noexcept override { return inner_->rank(); }
  [[nodiscard]] std::int32_t num_ranks() const noexcept override { return inner_->num_ranks(); }
  [[nodiscard]] bool can_reach(Rank peer) const noexcept override { return inner_->can_reach(peer); }
  Result<Ticket> post(std::span<const Leg> legs) override { return inner_->post(legs); }
  Result<Progress> poll(Ticket ticket, std::chrono::nanoseconds budget) override {
    return inner_->poll(ticket, budget);
  }
  void cancel(Ticket ticket) noexcept override { inner_->cancel(ticket); }
  Result<std::unique_ptr<Transport>> open_channel() override { return inner_->open_channel(); }
  [[nodiscard]] std::vector<Rank> take_peer_down_events() override { return inner_->take_peer_down_events(); }
  void drop_peer(Rank peer) noexcept override { inner_->drop_peer(peer); }
  void close() noexcept override { inner_->close(); }
  void join() noexcept override { inner_->join(); }

 protected:
  [[nodiscard]] Transport& inner() noexcept { return *inner_; }

 private:
  std::unique_ptr<Transport> inner_;
};

}  // namespace trimtab
