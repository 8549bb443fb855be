// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/decorator.hpp>

#include <atomic>
#include <map>
#include <memory>
#include <optional>

namespace trimtab {

/// A rank's end that loses all it sends and is sent from one moment on, together with the channels opened
/// from it: as behind a link that was cut both ways. Sends are done, receives pending for ever, and nobody is
/// known to be gone.
class CutOffTransport final : public TransportDecorator {
 public:
  /// The moment is when `is_cut` becomes true, on any thread.
  CutOffTransport(std::unique_ptr<Transport> inner, std::shared_ptr<const std::atomic<bool>> is_cut)
      : TransportDecorator(std::move(inner)), is_cut_(std::move(is_cut)) {}

  Result<Ticket> post(std::span<const Leg> legs) override;
  Result<Progress> poll(Ticket ticket, std::chrono::nanoseconds budget) override;
  void cancel(Ticket ticket) noexcept override;
  Result<std::unique_ptr<Transport>> open_channel() override;
  [[nodiscard]] std::vector<Rank> take_peer_down_events() override;

 private:
  struct Posted {
    std::optional<Ticket> inner;  ///< None: posted after the cut.
    bool receives = false;
    bool is_cancelled = false;
  };
  Result<Progress> poll_cut(Posted& posted, std::chrono::nanoseconds budget);

  std::shared_ptr<const std::atomic<bool>> is_cut_;
  std::map<Ticket, Posted> tickets_;
  Ticket last_ticket_;
};

}  // namespace trimtab
