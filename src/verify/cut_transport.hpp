// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/decorator.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace trimtab::verify {

/// A rank's end, with the channels opened from it, that loses all it sends to some peers and is sent by them
/// from one moment on: as behind a link that was cut both ways. Sends are done, receives pending for ever,
/// and none of these peers is known to be gone.
class CutTransport final : public TransportDecorator {
 public:
  /// Whether the link to `peer` is cut by now. Called from any thread that uses an end.
  using IsCut = std::function<bool(Rank peer)>;

  CutTransport(std::unique_ptr<Transport> inner, IsCut is_cut)
      : TransportDecorator(std::move(inner)), is_cut_(std::move(is_cut)) {}

  Result<Ticket> post(std::span<const Leg> legs) override;
  Result<Progress> poll(Ticket ticket, std::chrono::nanoseconds budget) override;
  void cancel(Ticket ticket) noexcept override;
  Result<std::unique_ptr<Transport>> open_channel() override;
  [[nodiscard]] std::vector<Rank> take_peer_down_events() override;

 private:
  struct Posted {
    std::optional<Ticket> inner;  ///< Of the legs that were not lost at once, if any were left.
    std::vector<Rank> sources;    ///< Of its receives.
    bool is_cancelled = false;
  };
  Result<Progress> poll_lost(Posted& posted, std::chrono::nanoseconds budget);

  IsCut is_cut_;
  std::map<Ticket, Posted> tickets_;
  Ticket last_ticket_;
};

}  // namespace trimtab::verify
