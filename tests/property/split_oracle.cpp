// SPDX-License-Identifier: Apache-2.0
#include "split_oracle.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace trimtab::test {
namespace {

template <class Number>
Number draw(Number least, Number most, std::mt19937_64& random) {
  return std::uniform_int_distribution<Number>(least, most)(random);
}

Topology draw_topology(const SplitLimits& limits, std::mt19937_64& random) {
  const bool has_speeds = limits.has_speeds && draw(0, 1, random) == 0;
  const auto count = draw<std::int32_t>(1, limits.ranks, random);
  std::vector<RankInfo> ranks;
  for (std::int32_t r = 0; r < count; ++r) {
    const double speed = has_speeds ? 0.25 * draw(1, 9, random) : 1.0;
    ranks.push_back({NodeId{r / 2}, draw<std::int32_t>(0, limits.slots_per_rank, random), speed,
                     draw(0, 7, random) != 0});
  }
  ranks.front().is_alive = true;
  ranks.front().num_slots = std::max(ranks.front().num_slots, 1);
  return Topology::make(ranks).value();
}

std::int64_t draw_load(std::int64_t most, std::mt19937_64& random) {
  switch (draw(0, 5, random)) {
    case 0:
      return 0;
    case 1:
      return most / 2;
    case 2:
      return draw<std::int64_t>(0, 4 * most, random);
    default:
      return draw<std::int64_t>(0, most, random);
  }
}

/// Bits of the live ranks that hold it.
std::uint32_t holders(const SplitCase& drawn, ExpertId expert) {
  std::uint32_t ranks = 0;
  for (SlotId slot : ids<SlotId>(drawn.row.size())) {
    if (drawn.row[slot.index()] != expert || !drawn.topology.is_alive(slot)) continue;
    ranks |= 1U << drawn.topology.rank_of(slot).index();
  }
  return ranks;
}

}  // namespace

SplitCase draw_split_case(const SplitLimits& limits, std::mt19937_64& random) {
  SplitCase drawn{draw_topology(limits, random), 0, {}, {}};
  const std::int32_t live = drawn.topology.num_live_slots();
  drawn.num_experts = draw<std::int32_t>(std::max(1, live / 2), live, random);
  std::vector<SlotId> slots;
  for (SlotId slot : ids<SlotId>(drawn.topology.num_slots())) {
    if (drawn.topology.is_alive(slot)) slots.push_back(slot);
  }
  std::shuffle(slots.begin(), slots.end(), random);
  drawn.row.assign(static_cast<std::size_t>(drawn.topology.num_slots()), no_expert);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto next = static_cast<std::int32_t>(i);
    if (next >= drawn.num_experts && draw(0, 9, random) == 0) continue;
    drawn.row[slots[i].index()] =
        ExpertId{next < drawn.num_experts ? next : draw<std::int32_t>(0, drawn.num_experts - 1, random)};
  }
  for (SlotId slot : ids<SlotId>(drawn.topology.num_slots())) {
    if (drawn.topology.is_alive(slot)) continue;
    drawn.row[slot.index()] = ExpertId{draw<std::int32_t>(-1, drawn.num_experts - 1, random)};
  }
  for (std::int32_t e = 0; e < drawn.num_experts; ++e) drawn.loads.push_back(draw_load(limits.load, random));
  return drawn;
}

std::int64_t confined_load(const SplitCase& drawn, std::uint32_t ranks) {
  std::int64_t sum = 0;
  for (ExpertId expert : ids<ExpertId>(drawn.num_experts)) {
    if ((holders(drawn, expert) & ~ranks) == 0) sum += drawn.loads[expert.index()];
  }
  return sum;
}

double best_pressure(const SplitCase& drawn) {
  double most = 0.0;
  for (std::uint32_t set = 1; set < 1U << drawn.topology.num_ranks(); ++set) {
    double speed = 0.0;
    for (Rank rank : ids<Rank>(drawn.topology.num_ranks())) {
      if ((set >> rank.index() & 1U) != 0) speed += drawn.topology.rank(rank).speed;
    }
    most = std::max(most, static_cast<double>(confined_load(drawn, set)) / speed);
  }
  return most;
}

double best_whole_pressure(const SplitCase& drawn) {
  std::int64_t total = 0;
  for (std::int64_t load : drawn.loads) total += load;
  std::vector<std::int64_t> confined;
  for (std::uint32_t set = 0; set < 1U << drawn.topology.num_ranks(); ++set) {
    confined.push_back(confined_load(drawn, set));
  }
  const auto is_enough = [&](double level) {
    for (std::uint32_t set = 0; set < confined.size(); ++set) {
      std::int64_t capacity = 0;
      for (Rank rank : ids<Rank>(drawn.topology.num_ranks())) {
        if ((set >> rank.index() & 1U) == 0 || !drawn.topology.is_alive(rank)) continue;
        capacity += static_cast<std::int64_t>(std::floor(level * drawn.topology.rank(rank).speed + 1e-9));
      }
      if (capacity < confined[set]) return false;
    }
    return true;
  };
  std::set<double> levels;
  const double least = best_pressure(drawn);
  for (Rank rank : ids<Rank>(drawn.topology.num_ranks())) {
    const double speed = drawn.topology.rank(rank).speed;
    for (std::int64_t load = 0; load <= total; ++load) {
      if (static_cast<double>(load) / speed >= least - 1e-9) levels.insert(static_cast<double>(load) / speed);
    }
  }
  return *std::find_if(levels.begin(), levels.end(), is_enough);
}

std::vector<std::int64_t> rank_loads_of(const SplitCase& drawn, std::span<const std::int64_t> assignments) {
  std::vector<std::int64_t> loads(static_cast<std::size_t>(drawn.topology.num_ranks()), 0);
  for (SlotId slot : ids<SlotId>(drawn.row.size())) {
    loads[drawn.topology.rank_of(slot).index()] += assignments[slot.index()];
  }
  return loads;
}

std::vector<std::vector<std::int64_t>> all_rank_loads(const SplitCase& drawn) {
  std::set<std::vector<std::int64_t>> reached{
      std::vector<std::int64_t>(static_cast<std::size_t>(drawn.topology.num_ranks()), 0)};
  for (ExpertId expert : ids<ExpertId>(drawn.num_experts)) {
    const std::uint32_t ranks = holders(drawn, expert);
    for (std::int64_t token = 0; token < drawn.loads[expert.index()]; ++token) {
      std::set<std::vector<std::int64_t>> next;
      for (const auto& loads : reached) {
        for (std::size_t r = 0; r < loads.size(); ++r) {
          if ((ranks >> r & 1U) == 0) continue;
          auto more = loads;
          ++more[r];
          next.insert(std::move(more));
        }
      }
      reached = std::move(next);
    }
  }
  return {reached.begin(), reached.end()};
}

}  // namespace trimtab::test
