// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/route/routing_table.hpp>

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

  /// One replica of an expert that has several. Credit is n times its weight minus what it took times the
  /// weight of all: above 0 it is behind its share. A lap changes it by `change`.
  struct Place {
    SlotId slot;
    std::int64_t weight = 0;
    std::int64_t credit = 0;   ///< Before the first lap of the present ring.
    std::int64_t current = 0;  ///< While a ring is laid out.
    std::int64_t least = 0;    ///< Of a lap, ends of assignments only.
    std::int64_t most = 0;
    std::int64_t change = 0;
  };
  /// The ring of an expert that has several replicas.
  struct Lap {
    std::uint32_t first_turn = 0;
    std::uint32_t first_place = 0;
    std::uint32_t num_places = 0;
    std::uint32_t capacity = 0;
    std::uint32_t length = 0;
    std::int64_t total = 0;      ///< Weight of all places.
    std::int64_t num_laps = 0;   ///< To be played before the ring is laid out anew.
    std::int64_t laps_left = 0;  ///< Of those, after the present one.
    bool is_endless = false;     ///< A lap leaves every credit as it was.
  };

  void clear(const RoutingTable& table, LayerId layer);
  void add_expert(const RoutingTable& table, LayerId layer, ExpertId expert, Rank rank,
                  std::span<const std::int64_t> assignments);
  void add_single(std::size_t begin);
  void add_places(Lap lap, std::size_t begin);
  [[nodiscard]] std::span<Place> places_of(const Lap& lap) noexcept;
  void lay_out(Lap& lap, bool is_first);
  template <class Choose>
  bool play(Lap& lap, bool may_fail, Choose choose);
  void end_lap_at(Lap& lap, std::uint32_t length) noexcept;
  void plan_run(Lap& lap) noexcept;
  void end_run(Lap& lap);

  static std::size_t index_of_most_behind(std::span<const Place> places) noexcept;
  static std::size_t index_of_first_due(std::span<const Place> places, std::int64_t total) noexcept;
  static bool note_extremes(std::span<Place> places, std::int64_t total) noexcept;
  static std::int64_t largest_change(std::span<const Place> places) noexcept;

  std::vector<std::uint32_t> turns_;  ///< [1 + experts]: padding, then by expert.
  std::vector<std::uint64_t> ring_;
  std::vector<std::uint32_t> lap_of_;  ///< [experts]; no_lap for one replica.
  std::vector<Lap> laps_;
  std::vector<Place> places_;
  std::uint32_t lap_capacity_ = 0;
};

}  // namespace trimtab
