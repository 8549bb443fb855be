// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/placement.hpp>
#include <trimtab/core/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace trimtab {

/// A copy that some rank has to keep.
struct HostCopy {
  LayerExpert what;
  std::vector<Rank> serving;  ///< Live ranks with a slot of it, each once.
};

/// Gives copies to ranks one after the other, at the least cost for all given so far: a new one may push
/// others on from rank to rank, along the cheapest such chain (successive shortest paths).
class CopyAssignment {
 public:
  /// `room` is by rank. Borrows the copies and the topology.
  CopyAssignment(std::span<const HostCopy> copies, const Topology& topology, std::vector<std::int32_t> room);

  /// Precondition: a rank has room left.
  void assign(std::size_t copy);
  [[nodiscard]] const std::vector<std::size_t>& kept_by(Rank rank) const noexcept {
    return kept_[rank.index()];
  }

 private:
  using Cost = std::int64_t;
  /// The cheapest known way to have the new copy fit: `cost` so far, and what was moved here from where.
  struct Arrival {
    Cost cost = 0;
    std::optional<std::pair<Rank, std::size_t>> from;
  };

  /// 0 on a node of its own, 1 beside a rank that serves it, more than all else together on such a rank.
  [[nodiscard]] Cost cost_of(std::size_t copy, Rank rank) const noexcept;
  [[nodiscard]] bool is_full(Rank rank) const noexcept { return room_[rank.index()] == 0; }
  /// The cheapest rank with room; of equal ones that with the most.
  [[nodiscard]] Rank cheapest_with_room(std::span<const Arrival> arrivals) const noexcept;
  [[nodiscard]] std::vector<Arrival> direct(std::size_t copy) const;
  /// Whether any rank could take it for less than `cost`, if it were empty.
  [[nodiscard]] bool is_cheaper_somewhere(std::span<const Arrival> arrivals, Cost cost) const noexcept;
  void find_chains(std::vector<Arrival>& arrivals) const;
  /// Lets copies move on from `full`. Appends the ranks that are reached for less.
  void push_on(Rank full, std::vector<Arrival>& arrivals, std::vector<Rank>& reached) const;
  void follow(std::size_t copy, Rank last, std::span<const Arrival> arrivals);

  std::span<const HostCopy> copies_;
  const Topology& topology_;
  std::vector<std::int32_t> room_;
  std::vector<Rank> keepers_;  ///< Ranks that had room at the beginning.
  std::vector<std::vector<std::size_t>> kept_;
};

}  // namespace trimtab
