// SPDX-License-Identifier: Apache-2.0
#include "app/cluster_options.hpp"

#include "app/commands.hpp"

#include <fmt/format.h>

#include <numeric>
#include <utility>

namespace trimtab {
namespace {

constexpr std::int32_t max_ranks = 1 << 16;
constexpr std::int32_t max_slots = 1 << 20;

}  // namespace

void ClusterOptions::add_to(CLI::App& verb) {
  verb.add_option("--ranks", ranks, "Ranks (devices) the experts are spread over")
      ->check(in_range(1, max_ranks))
      ->type_name("N");
  verb.add_option("--nodes", nodes, "Nodes the ranks lie on: node(r) = floor(r * nodes / ranks)")
      ->check(in_range(1, max_ranks))
      ->type_name("N")
      ->capture_default_str();
  auto* total = verb.add_option("--slots", slots, "Physical slots per layer, over all ranks")
                    ->check(in_range(1, max_slots))
                    ->type_name("N");
  verb.add_option("--slots-per-rank", slots_per_rank, "Physical slots per layer on each rank")
      ->check(in_range(1, max_slots))
      ->type_name("N")
      ->excludes(total);
}

void ClusterOptions::add_rank_options_to(CLI::App& verb) {
  verb.add_option("--rank-slots", rank_slots, "Slots per layer of each rank, one number per rank: 9,9,8,…")
      ->delimiter(',')
      ->check(in_range(0, max_slots))
      ->type_name("N,N,…")
      ->excludes("--slots")
      ->excludes("--slots-per-rank");
  verb.add_option("--rank-speeds", rank_speeds, "Relative speed of each rank, one number per rank: 1,1,0.5,…")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->type_name("X,X,…");
  verb.add_option("--avoid-ranks", avoid_ranks, "Ranks that get nothing: they keep their slots, left vacant")
      ->delimiter(',')
      ->check(in_range(0, max_ranks - 1))
      ->type_name("R,R,…");
}

std::optional<std::int32_t> ClusterOptions::num_slots() const {
  if (!rank_slots.empty()) {
    const std::int64_t total = std::accumulate(rank_slots.begin(), rank_slots.end(), std::int64_t{0});
    if (total > max_slots) usage_error("--rank-slots", fmt::format("{} slots > {}", total, max_slots));
    return static_cast<std::int32_t>(total);
  }
  if (!slots_per_rank) return slots;
  if (!ranks) usage_error("--slots-per-rank", "needs --ranks");
  const std::int64_t total = std::int64_t{*slots_per_rank} * *ranks;
  if (total > max_slots) {
    usage_error("--slots-per-rank",
                fmt::format("{} on {} ranks are {} slots > {}", *slots_per_rank, *ranks, total, max_slots));
  }
  return static_cast<std::int32_t>(total);
}

Topology ClusterOptions::make_topology(std::int32_t num_slots) const {
  if (!ranks) usage_error("--ranks", "is required");
  if (nodes > *ranks) usage_error("--nodes", fmt::format("{} nodes > {} ranks", nodes, *ranks));
  Result<Topology> topology = Topology::make_uniform(*ranks, nodes, num_slots);
  if (!topology) usage_error("--ranks", topology.error().message);
  std::vector<RankInfo> infos;
  for (Rank rank : ids<Rank>(*ranks)) infos.push_back(topology->rank(rank));
  const auto check_count = [&](const char* option, std::size_t count) {
    if (count > 0 && count != infos.size()) {
      usage_error(option, fmt::format("{} numbers for {} ranks", count, infos.size()));
    }
  };
  check_count("--rank-slots", rank_slots.size());
  check_count("--rank-speeds", rank_speeds.size());
  for (std::size_t r = 0; r < rank_slots.size(); ++r) infos[r].num_slots = rank_slots[r];
  for (std::size_t r = 0; r < rank_speeds.size(); ++r) infos[r].speed = rank_speeds[r];
  for (std::int32_t r : avoid_ranks) {
    if (r >= *ranks) usage_error("--avoid-ranks", fmt::format("rank {} is not in 0..{}", r, *ranks - 1));
    infos[static_cast<std::size_t>(r)].is_alive = false;
  }
  topology = Topology::make(std::move(infos));
  if (!topology) usage_error("--avoid-ranks", topology.error().message);
  return *topology;
}

}  // namespace trimtab
