// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/transport/decorator.hpp>

#include <functional>
#include <memory>
#include <string_view>

namespace trimtab {

/// A rank's end that tells what passes through it: one line for each posting, for each ticket that ends, and
/// for cancel, close and every peer found dead. Polls that change nothing are not told.
class LoggingTransport final : public TransportDecorator {
 public:
  /// `sink` is called on the thread of the call that is told, with a line without newline; it must not throw.
  using Sink = std::function<void(std::string_view line)>;

  LoggingTransport(std::unique_ptr<Transport> inner, Sink sink);
  ~LoggingTransport() override { join(); }

  Result<Ticket> post(std::span<const Leg> legs) override;
  Result<Progress> poll(Ticket ticket, std::chrono::nanoseconds budget) override;
  void cancel(Ticket ticket) noexcept override;
  [[nodiscard]] std::vector<Rank> take_peer_down_events() override;
  void close() noexcept override;

 private:
  void tell(std::string_view what);

  Sink sink_;
};

}  // namespace trimtab
