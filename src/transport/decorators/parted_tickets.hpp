// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/clock.hpp>
#include <trimtab/transport/transport.hpp>

#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace trimtab {

/// A leg that is not handed on yet.
struct HeldLeg {
  Leg leg;
  Clock::time_point due{};         ///< When it may go, as the owner reads it.
  bool waits_for_another = false;  ///< Goes once a later leg of its side, peer and tag has gone.
};

/// The tickets of a decorator that hands a posting on in parts: some legs at once, others later. A ticket is
/// pending until all of its parts are terminal.
class PartedTickets {
 public:
  /// Borrows the transport.
  explicit PartedTickets(Transport& inner) : inner_(inner) {}

  /// @param memory  what legs of `now` read instead of the caller's, kept until the ticket is terminal
  Result<Ticket> post(std::span<const Leg> now, std::vector<HeldLeg> held,
                      std::vector<std::vector<std::byte>> memory = {});

  /// Hands on every held leg that `may_go`, in the order of posting.
  template <class MayGo>
  void release(MayGo may_go) {
    for (auto at = holding_.begin(); at != holding_.end();) {
      const auto found = tickets_.find(*at);
      if (found != tickets_.end()) release(found->second, may_go);
      const bool is_over = found == tickets_.end() || found->second.held.empty();
      at = is_over ? holding_.erase(at) : std::next(at);
    }
  }

  Result<Progress> poll(Ticket ticket, std::chrono::nanoseconds budget);
  /// `budget`, but no longer than until the first held leg is due: nobody hands it on while `poll` waits.
  [[nodiscard]] std::chrono::nanoseconds until_due(Clock::time_point now,
                                                   std::chrono::nanoseconds budget) const noexcept;
  void cancel(Ticket ticket) noexcept;
  void cancel_all() noexcept;

 private:
  struct Posted {
    std::vector<Ticket> inner;  ///< Not known to be terminal yet.
    std::vector<HeldLeg> held;
    std::vector<std::vector<std::byte>> memory;
    bool is_cancelled = false;
    std::optional<Error> error;
  };

  template <class MayGo>
  void release(Posted& posted, const MayGo& may_go) {
    std::vector<Leg> going;
    std::erase_if(posted.held, [&](const HeldLeg& held) {
      if (posted.is_cancelled || !may_go(held)) return false;
      going.push_back(held.leg);
      return true;
    });
    hand_on(posted, going);
  }

  void hand_on(Posted& posted, std::span<const Leg> legs);
  void cancel(Posted& posted) noexcept;
  Result<Progress> poll(Posted& posted, std::chrono::nanoseconds budget);

  Transport& inner_;
  std::map<Ticket, Posted> tickets_;
  std::set<Ticket> holding_;  ///< Tickets that may have held legs, in the order of posting: few of many.
  Ticket last_;
};

}  // namespace trimtab
