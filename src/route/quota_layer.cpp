// SPDX-License-Identifier: Apache-2.0
#include "route/quota_layer.hpp"

#include "route/spread.hpp"

#include <algorithm>
#include <limits>

namespace trimtab {
namespace {

constexpr std::uint32_t no_lap = std::numeric_limits<std::uint32_t>::max();

/// Room for a lap, for each replica beyond an expert's first. Long laps are seldom finished and often played.
/// A reader of rings touches few lines of each at a time, so they need not all lie in the first-level cache.
constexpr std::uint32_t ring_entries_per_layer = 8192;
constexpr std::uint32_t min_lap_capacity = 16;
constexpr std::uint32_t max_lap_capacity = 256;
/// Laying out costs the product of turns and shares, so experts on very many slots get laps of two turns
/// each.
constexpr std::uint32_t max_turns = 512;
/// The first lap is kept short: many an expert will not finish it before the next table comes.
constexpr std::uint32_t first_lap_capacity = 32;

std::uint64_t entry_of(std::int32_t slot, std::uint32_t next) {
  return std::uint64_t{next} << 32 | static_cast<std::uint32_t>(slot);
}

std::int64_t share_at(std::span<const std::uint32_t> begins, std::size_t i) {
  return static_cast<std::int64_t>(RoutingTable::share_at(begins, i));
}

/// Shares that are even but for the rounding to parts.
bool are_even(std::span<const std::uint32_t> begins) {
  std::int64_t least = share_at(begins, 0);
  std::int64_t most = least;
  for (std::size_t i = 1; i < begins.size(); ++i) {
    least = std::min(least, share_at(begins, i));
    most = std::max(most, share_at(begins, i));
  }
  return most - least <= 1;
}

/// The replica that takes the first assignment of this rank: even over consecutive ranks when shares are, and
/// by share otherwise.
std::size_t first_replica(LayerId layer, ExpertId expert, Rank rank, std::span<const std::uint32_t> begins) {
  const auto r = static_cast<std::uint32_t>(rank.value());
  if (are_even(begins)) return (std::uint64_t{mix(layer, expert)} + r) % begins.size();
  const std::uint32_t position = mix(layer, expert) + r * golden_step_32;
  return static_cast<std::size_t>(std::upper_bound(begins.begin(), begins.end(), position) - begins.begin()) -
         1;
}

}  // namespace

void QuotaLayer::build(const RoutingTable& table, LayerId layer, Rank rank) { build(table, layer, rank, {}); }

void QuotaLayer::build(const RoutingTable& table, LayerId layer, Rank rank,
                       std::span<const std::int64_t> assignments) {
  clear(table, layer);
  for (ExpertId expert : ids<ExpertId>(table.num_experts())) {
    add_expert(table, layer, expert, rank, assignments);
  }
}

void QuotaLayer::clear(const RoutingTable& table, LayerId layer) {
  const auto experts = ids<ExpertId>(table.num_experts());
  std::uint32_t num_extra = 0;
  for (ExpertId expert : experts) {
    num_extra += static_cast<std::uint32_t>(table.replicas(layer, expert).size()) - 1;
  }
  lap_capacity_ =
      std::clamp(ring_entries_per_layer / std::max(num_extra, 1U), min_lap_capacity, max_lap_capacity);
  turns_.clear();
  ring_.clear();
  lap_of_.clear();
  laps_.clear();
  slots_.clear();
  shares_.clear();
  reserve(table);
  turns_.push_back(0);
  ring_.push_back(entry_of(no_slot.value(), 0));
}

void QuotaLayer::reserve(const RoutingTable& table) {
  const auto experts = static_cast<std::size_t>(table.num_experts());
  const auto slots = static_cast<std::size_t>(table.num_slots());
  const std::size_t max_extra = slots - std::min(slots, experts);
  const std::size_t max_entries = std::min<std::size_t>(ring_entries_per_layer + max_extra * min_lap_capacity,
                                                        max_extra * max_lap_capacity);
  turns_.reserve(experts + 1);
  ring_.reserve(1 + slots + max_entries);
  lap_of_.reserve(experts);
  laps_.reserve(max_extra);
  // Experts with several replicas have at most twice as many of them, and one is added to be looked at.
  const std::size_t max_shares = std::min(slots, 2 * max_extra + 1);
  slots_.reserve(max_shares);
  shares_.reserve(max_shares);
  order_.reserve(max_entries);
  planner_.reserve(slots);
}

void QuotaLayer::add_expert(const RoutingTable& table, LayerId layer, ExpertId expert, Rank rank,
                            std::span<const std::int64_t> assignments) {
  const auto slots = table.replicas(layer, expert);
  const auto begins = table.share_begins(layer, expert);
  const bool is_even = are_even(begins);
  const std::size_t first = first_replica(layer, expert, rank, begins);
  const std::size_t begin = slots_.size();
  // The one to begin with comes first, and ties go round from there.
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::size_t at = (first + i) % slots.size();
    std::int64_t weight = is_even ? 1 : share_at(begins, at);
    if (!assignments.empty()) weight = assignments[slots[at].index()];
    if (weight == 0) continue;
    slots_.push_back(slots[at]);
    shares_.push_back({.weight = weight});
  }
  if (slots_.size() == begin) return add_expert(table, layer, expert, rank, {});
  turns_.push_back(static_cast<std::uint32_t>(ring_.size()));
  if (slots_.size() - begin == 1) return add_single(begin);
  add_lap(begin);
}

void QuotaLayer::add_single(std::size_t begin) {
  ring_.push_back(entry_of(slots_[begin].value(), turns_.back()));
  lap_of_.push_back(no_lap);
  slots_.resize(begin);
  shares_.resize(begin);
}

void QuotaLayer::add_lap(std::size_t begin) {
  const auto count = static_cast<std::uint32_t>(slots_.size() - begin);
  lap_of_.push_back(static_cast<std::uint32_t>(laps_.size()));
  laps_.push_back({.first_turn = turns_.back(),
                   .first_share = static_cast<std::uint32_t>(begin),
                   .num_shares = count,
                   .capacity = std::min(lap_capacity_ * (count - 1), std::max(max_turns, 2 * count))});
  ring_.resize(ring_.size() + laps_.back().capacity);
  lay_out(laps_.back(), /*is_first=*/true);
}

void QuotaLayer::lay_out(Lap& lap, bool is_first) {
  const std::uint32_t most = first_lap_capacity * (lap.num_shares - 1);
  order_.resize(is_first ? std::min(lap.capacity, most) : lap.capacity);
  lap.ends = planner_.plan(shares_of(lap), is_first, order_);
  lap.is_first = is_first;
  const auto turns = std::span(ring_).subspan(lap.first_turn, lap.ends.longest());
  for (std::size_t i = 0; i < turns.size(); ++i) {
    turns[i] = entry_of(slots_[lap.first_share + order_[i]].value(),
                        lap.first_turn + static_cast<std::uint32_t>(i) + 1);
  }
  // One lap can be played whatever comes after it.
  lap.run = choose_run(shares_of(lap), lap.ends);
  lap.run.num_laps = std::max<std::int64_t>(lap.run.num_laps, 1);
  lap.laps_left = lap.run.num_laps - 1;
  mark_end(lap, lap.run.end);
}

void QuotaLayer::mark_end(Lap& lap, std::uint32_t end) noexcept {
  const std::uint32_t length = lap.ends.lengths[end];
  const auto number = static_cast<std::uint32_t>(&lap - laps_.data());
  std::uint64_t& last = ring_[lap.first_turn + length - 1];
  last = entry_of(slot_of(last), lap.ends.is_endless ? lap.first_turn : end_mark | number);
}

std::uint32_t QuotaLayer::finish_lap(std::uint32_t next) {
  Lap& lap = laps_[next & ~end_mark];
  if (lap.laps_left-- == 0) begin_run(lap);
  return lap.first_turn;
}

void QuotaLayer::begin_run(Lap& lap) {
  const auto shares = shares_of(lap);
  for (Share& share : shares) share.credit += lap.run.num_laps * share.changes[lap.run.end];
  const LapRun next = choose_run(shares, lap.ends);
  if (next.num_laps == 0 || lap.is_first) return lay_out(lap, /*is_first=*/false);
  const std::uint32_t length = lap.ends.lengths[lap.run.end];
  std::uint64_t& last = ring_[lap.first_turn + length - 1];
  last = entry_of(slot_of(last), lap.first_turn + length);
  mark_end(lap, next.end);
  lap.run = next;
  lap.laps_left = next.num_laps - 1;
}

void QuotaLayer::advance(ExpertId expert, std::int64_t num_assignments) {
  if (lap_of_[expert.index()] == no_lap) return;
  Lap& lap = laps_[lap_of_[expert.index()]];
  std::uint32_t& turn = turns_[expert.index() + 1];
  std::int64_t played = std::int64_t{turn} - lap.first_turn + num_assignments;
  if (lap.ends.is_endless) played %= lap.ends.lengths[0];
  while (played >= lap.ends.lengths[lap.run.end]) {
    const std::int64_t length = lap.ends.lengths[lap.run.end];
    const std::int64_t laps = std::min(played / length, lap.laps_left + 1);
    played -= laps * length;
    lap.laps_left -= laps;
    if (lap.laps_left < 0) begin_run(lap);
  }
  turn = lap.first_turn + static_cast<std::uint32_t>(played);
}

}  // namespace trimtab
