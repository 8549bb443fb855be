// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/route/routing_table.hpp>

#include "route/lap.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// The order in which the replicas of one layer's experts take assignments. Copyable; two copies that take
/// the same assignments stay equal.
///
/// After n assignments to an expert, each replica has taken more than n times its share minus one, and fewer
/// than that plus one, whatever n is. Counts are whole numbers, so nothing drifts.
///
/// The order is laid out in laps: a ring of slots for each expert, from which dispatch only reads. The ring
/// is laid out anew when playing it once more would leave the bounds.
class QuotaLayer {
 public:
  /// Begins at the shares of `table`. Ranks begin at different replicas, in numbers that follow the shares.
  void build(const RoutingTable& table, LayerId layer, Rank rank);
  /// Begins at the ratios of `assignments`, [slots]. After as many assignments to an expert as its slots have
  /// in sum, each has taken exactly its number. An expert whose slots have none takes the table's shares.
  void build(const RoutingTable& table, LayerId layer, Rank rank, std::span<const std::int64_t> assignments);

  /// Room for any table of as many slots, so that later ones and copies of their layers allocate nothing.
  void reserve(const RoutingTable& table);

  /// As if `num_assignments` had been dispatched to the expert.
  void advance(ExpertId expert, std::int64_t num_assignments);

  /// For a dispatch loop. `turns[expert]` is a place of `ring`, that of the next assignment; `turns[-1]` is
  /// that of padding.
  struct View {
    std::uint32_t* turns;
    const std::uint64_t* ring;
  };
  [[nodiscard]] View view() noexcept { return {turns_.data() + 1, ring_.data()}; }
  /// An entry of the ring: its slot, and the turn that follows, or the lap that ends with it.
  [[nodiscard]] static std::int32_t slot_of(std::uint64_t entry) noexcept {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(entry));
  }
  [[nodiscard]] static std::uint32_t next_of(std::uint64_t entry) noexcept {
    return static_cast<std::uint32_t>(entry >> 32);
  }
  [[nodiscard]] static bool ends_lap(std::uint32_t next) noexcept { return (next & end_mark) != 0; }
  /// @return the turn that follows the end of a lap, given what `next_of` gave.
  std::uint32_t finish_lap(std::uint32_t next);

 private:
  static constexpr std::uint32_t end_mark = std::uint32_t{1} << 31;

  /// The ring of an expert that has several replicas.
  struct Lap {
    std::uint32_t first_turn = 0;
    std::uint32_t first_share = 0;
    std::uint32_t num_shares = 0;
    std::uint32_t capacity = 0;
    bool is_first = false;  ///< And short, as most experts need no second.
    LapEnds ends = {};
    LapRun run = {};
    std::int64_t laps_left = 0;  ///< Of the run, after the present one.
  };

  void clear(const RoutingTable& table, LayerId layer);
  void add_expert(const RoutingTable& table, LayerId layer, ExpertId expert, Rank rank,
                  std::span<const std::int64_t> assignments);
  void add_single(std::size_t begin);
  void add_lap(std::size_t begin);
  void lay_out(Lap& lap, bool is_first);
  void begin_run(Lap& lap);
  void mark_end(Lap& lap, std::uint32_t end) noexcept;
  [[nodiscard]] std::span<Share> shares_of(const Lap& lap) noexcept {
    return std::span(shares_).subspan(lap.first_share, lap.num_shares);
  }

  std::vector<std::uint32_t> turns_;  ///< [1 + experts]: padding, then by expert.
  std::vector<std::uint64_t> ring_;
  std::vector<std::uint32_t> lap_of_;  ///< [experts]; no_lap for one replica.
  std::vector<Lap> laps_;
  std::vector<SlotId> slots_;  ///< Of experts that have several replicas, and beside them:
  std::vector<Share> shares_;
  std::vector<std::uint32_t> order_;  ///< While a lap is laid out.
  LapPlanner planner_;
  std::uint32_t lap_capacity_ = 0;
};

}  // namespace trimtab
