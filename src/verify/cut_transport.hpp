// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/decorator.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>

namespace trimtab::verify {

/// A rank's end whose sends to some peers are lost from one moment on, as behind a cut link: done for the
/// sender, and nothing arrives. When both ends of a link are such, it is cut both ways.
class CutTransport final : public TransportDecorator {
 public:
  /// Whether messages to `peer` are lost now.
  using IsCut = std::function<bool(Rank peer)>;

  CutTransport(std::unique_ptr<Transport> inner, IsCut is_cut)
      : TransportDecorator(std::move(inner)), is_cut_(std::move(is_cut)) {}

  Result<Ticket> post(std::span<const Leg> legs) override;
  Result<Progress> poll(Ticket ticket, std::chrono::nanoseconds budget) override;
  void cancel(Ticket ticket) noexcept override;

 private:
  IsCut is_cut_;
  std::map<Ticket, std::optional<Ticket>> tickets_;  ///< The inner one, if a leg was left.
  std::uint64_t last_ticket_ = 0;
};

}  // namespace trimtab::verify
