// SPDX-License-Identifier: Apache-2.0
#include "route/quota_layer.hpp"

#include "route/spread.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <utility>

namespace trimtab {
namespace {

constexpr std::uint32_t no_lap = std::numeric_limits<std::uint32_t>::max();

/// Long laps are seldom finished; but all rings of a layer together should stay in the first-level cache.
constexpr std::uint32_t ring_entries_per_layer = 4096;
constexpr std::uint32_t min_lap_capacity = 16;
constexpr std::uint32_t max_lap_capacity = 64;

/// A run may not be so long that credits overflow when it is added up.
constexpr std::int64_t max_laps_in_run = std::int64_t{1} << 30;

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

/// Whether there is a way on from these credits that stays within the bounds for ever. Behind the credits
/// stands this: within h assignments, replicas must take at least the whole part of credit + h * weight, and
/// those whole parts sum to h or less unless the negative ones weigh a whole assignment. (Hall's condition
/// for unit jobs with release times and deadlines; only windows that begin now can fail it.)
template <class Places, class Credit>
bool is_open(const Places& places, std::int64_t total, Credit credit) {
  std::int64_t behind = 0;
  for (const auto& place : places) behind += std::max<std::int64_t>(0, std::invoke(credit, place));
  return behind < total;
}

}  // namespace

std::span<QuotaLayer::Place> QuotaLayer::places_of(const Lap& lap) noexcept {
  return std::span(places_).subspan(lap.first_place, lap.num_places);
}

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
  std::uint32_t num_rings = 0;
  for (ExpertId expert : experts) num_rings += table.replicas(layer, expert).size() > 1 ? 1U : 0U;
  lap_capacity_ =
      std::clamp(ring_entries_per_layer / std::max(num_rings, 1U), min_lap_capacity, max_lap_capacity);
  turns_.clear();
  ring_.clear();
  lap_of_.clear();
  laps_.clear();
  places_.clear();
  // Room for any table of as many slots, so that later ones allocate nothing.
  const std::size_t slots = static_cast<std::size_t>(table.num_slots());
  const std::size_t max_rings = std::min(slots / 2, slots + 1 - std::min(slots, experts.size()));
  turns_.reserve(experts.size() + 1);
  ring_.reserve(1 + slots +
                std::min<std::size_t>(ring_entries_per_layer + max_rings * min_lap_capacity,
                                      max_rings * max_lap_capacity));
  lap_of_.reserve(experts.size());
  laps_.reserve(max_rings);
  places_.reserve(slots);
  turns_.push_back(0);
  ring_.push_back(entry_of(no_slot.value(), 0));
}

void QuotaLayer::add_expert(const RoutingTable& table, LayerId layer, ExpertId expert, Rank rank,
                            std::span<const std::int64_t> assignments) {
  const auto slots = table.replicas(layer, expert);
  const auto begins = table.share_begins(layer, expert);
  const bool is_even = are_even(begins);
  const std::size_t first = first_replica(layer, expert, rank, begins);
  const std::size_t begin = places_.size();
  std::int64_t total = 0;
  // The one to begin with comes first, and ties go round from there.
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::size_t at = (first + i) % slots.size();
    std::int64_t weight = is_even ? 1 : share_at(begins, at);
    if (!assignments.empty()) weight = assignments[slots[at].index()];
    total += weight;
    if (weight > 0) places_.push_back({.slot = slots[at], .weight = weight});
  }
  if (places_.size() == begin) return add_expert(table, layer, expert, rank, {});
  turns_.push_back(static_cast<std::uint32_t>(ring_.size()));
  if (places_.size() - begin == 1) return add_single(begin);
  add_places({.first_turn = turns_.back(), .total = total}, begin);
}

void QuotaLayer::add_single(std::size_t begin) {
  ring_.push_back(entry_of(places_[begin].slot.value(), turns_.back()));
  lap_of_.push_back(no_lap);
  places_.resize(begin);
}

void QuotaLayer::add_places(Lap lap, std::size_t begin) {
  lap.first_place = static_cast<std::uint32_t>(begin);
  lap.num_places = static_cast<std::uint32_t>(places_.size() - begin);
  lap.capacity = std::max(lap_capacity_, lap.num_places);
  ring_.resize(ring_.size() + lap.capacity);
  lap_of_.push_back(static_cast<std::uint32_t>(laps_.size()));
  laps_.push_back(lap);
  lay_out(laps_.back(), /*is_first=*/true);
}

void QuotaLayer::lay_out(Lap& lap, bool is_first) {
  const auto places = places_of(lap);
  bool is_begun = !is_first;
  const auto most_behind = [&](std::span<const Place> all) {
    return std::exchange(is_begun, true) ? index_of_most_behind(all) : 0;
  };
  const auto first_due = [&](std::span<const Place> all) { return index_of_first_due(all, lap.total); };
  const bool is_easy = is_open(std::span<const Place>(places), lap.total, &Place::credit);
  if (!is_easy || !play(lap, /*may_fail=*/true, most_behind)) play(lap, /*may_fail=*/false, first_due);
  plan_run(lap);
}

/// Ties go to the place that comes first.
std::size_t QuotaLayer::index_of_most_behind(std::span<const Place> places) noexcept {
  std::size_t best = 0;
  for (std::size_t i = 1; i < places.size(); ++i) {
    if (places[i].current > places[best].current) best = i;
  }
  return best;
}

/// Earliest deadline first among those that may take one: succeeds wherever any order does.
std::size_t QuotaLayer::index_of_first_due(std::span<const Place> places, std::int64_t total) noexcept {
  std::size_t best = 0;
  std::int64_t best_steps = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Place& place = places[i];
    if (place.current <= 0) continue;
    const std::int64_t short_of = std::max<std::int64_t>(0, total - place.current);
    const std::int64_t steps = short_of / place.weight + (short_of % place.weight != 0 ? 1 : 0);
    if (steps >= best_steps) continue;
    best = i;
    best_steps = steps;
  }
  return best;
}

/// Lays out a lap assignment by assignment and ends it where credits are nearly as they were, so that it can
/// be played often. False when `choose` left the bounds, or came to no good end, before there was such a lap.
template <class Choose>
bool QuotaLayer::play(Lap& lap, bool may_fail, Choose choose) {
  const auto places = places_of(lap);
  const std::span<const Place> seen = places;
  for (Place& place : places) place.current = place.least = place.most = place.credit;
  lap.length = 0;
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  for (std::uint32_t n = 1; n <= lap.capacity && smallest > 0; ++n) {
    for (Place& place : places) place.current += place.weight;
    Place& chosen = places[choose(seen)];
    chosen.current -= lap.total;
    if (may_fail && !note_extremes(places, lap.total)) break;
    if (!may_fail) note_extremes(places, lap.total);
    ring_[lap.first_turn + n - 1] = entry_of(chosen.slot.value(), lap.first_turn + n);
    const std::int64_t change = largest_change(seen);
    const bool is_long = n >= lap.capacity / 2 || change == 0;
    if (!is_long || change >= smallest || !is_open(seen, lap.total, &Place::current)) continue;
    smallest = change;
    end_lap_at(lap, n);
  }
  if (lap.length == 0 && !may_fail) end_lap_at(lap, lap.capacity);
  return lap.length > 0;
}

/// @return whether every credit is below one assignment, up and down.
bool QuotaLayer::note_extremes(std::span<Place> places, std::int64_t total) noexcept {
  bool is_within = true;
  for (Place& place : places) {
    place.least = std::min(place.least, place.current);
    place.most = std::max(place.most, place.current);
    is_within = is_within && std::abs(place.current) < total;
  }
  return is_within;
}

std::int64_t QuotaLayer::largest_change(std::span<const Place> places) noexcept {
  std::int64_t largest = 0;
  for (const Place& place : places) largest = std::max(largest, std::abs(place.current - place.credit));
  return largest;
}

void QuotaLayer::end_lap_at(Lap& lap, std::uint32_t length) noexcept {
  lap.length = length;
  for (Place& place : places_of(lap)) place.change = place.current - place.credit;
}

/// Plays the lap as often as all credits stay within bounds and end where there is a way on.
void QuotaLayer::plan_run(Lap& lap) noexcept {
  const auto places = places_of(lap);
  std::int64_t repeats = max_laps_in_run;
  lap.is_endless = true;
  for (const Place& place : places) {
    if (place.change == 0) continue;
    lap.is_endless = false;
    const std::int64_t room = lap.total - 1 - (place.change > 0 ? place.most : -place.least);
    repeats = std::min(repeats, room / std::abs(place.change));
  }
  lap.num_laps = repeats + 1;
  const auto at_end = [&](const Place& place) { return place.credit + lap.num_laps * place.change; };
  while (lap.num_laps > 1 && !is_open(std::span<const Place>(places), lap.total, at_end)) lap.num_laps /= 2;
  lap.laps_left = lap.num_laps - 1;
  const auto number = static_cast<std::uint32_t>(&lap - laps_.data());
  std::uint64_t& last = ring_[lap.first_turn + lap.length - 1];
  last = entry_of(slot_of(last), lap.is_endless ? lap.first_turn : end_mark | number);
}

std::uint32_t QuotaLayer::finish_lap(std::uint32_t next) {
  Lap& lap = laps_[next & ~end_mark];
  if (lap.laps_left-- == 0) end_run(lap);
  return lap.first_turn;
}

void QuotaLayer::end_run(Lap& lap) {
  for (Place& place : places_of(lap)) place.credit += lap.num_laps * place.change;
  lay_out(lap, /*is_first=*/false);
}

void QuotaLayer::advance(ExpertId expert, std::int64_t num_assignments) {
  if (lap_of_[expert.index()] == no_lap) return;
  Lap& lap = laps_[lap_of_[expert.index()]];
  std::uint32_t& turn = turns_[expert.index() + 1];
  std::int64_t played = std::int64_t{turn} - lap.first_turn + num_assignments;
  if (lap.is_endless) played %= lap.length;
  while (played >= lap.length) {
    const std::int64_t laps = std::min<std::int64_t>(played / lap.length, lap.laps_left + 1);
    played -= laps * lap.length;
    lap.laps_left -= laps;
    if (lap.laps_left < 0) end_run(lap);
  }
  turn = lap.first_turn + static_cast<std::uint32_t>(played);
}

}  // namespace trimtab
