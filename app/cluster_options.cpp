// SPDX-License-Identifier: Apache-2.0
#include "app/cluster_options.hpp"

#include "app/commands.hpp"

#include <fmt/format.h>

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

std::optional<std::int32_t> ClusterOptions::num_slots() const {
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
  return *topology;
}

}  // namespace trimtab
