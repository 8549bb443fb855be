// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/transport/decorator.hpp>

#include <memory>

namespace trimtab {

class PartedTickets;

/// A rank's end whose sends leave no faster than a link of given bandwidth carries them, one after another in
/// the order of posting. Receives are not held up: the peer's end throttles them.
///
/// A withheld send is handed to the inner transport by the first `post` or `poll` after its time has come;
/// nothing happens in the background.
class ThrottledTransport final : public TransportDecorator {
 public:
  /// Borrows the clock. Precondition: the bandwidth is above 0.
  ThrottledTransport(std::unique_ptr<Transport> inner, double bytes_per_second, const Clock& clock);
  ~ThrottledTransport() override;

  Result<Ticket> post(std::span<const Leg> legs) override;
  Result<Progress> poll(Ticket ticket, std::chrono::nanoseconds budget) override;
  void cancel(Ticket ticket) noexcept override;
  void close() noexcept override;

 private:
  void release();

  double bytes_per_second_;
  const Clock& clock_;
  Clock::time_point free_at_{};  ///< When the link has carried all that was posted.
  std::unique_ptr<PartedTickets> tickets_;
};

}  // namespace trimtab
