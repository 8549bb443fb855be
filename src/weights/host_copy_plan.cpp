// SPDX-License-Identifier: Apache-2.0
#include <trimtab/weights/host_copy_plan.hpp>

#include "copy_assignment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace trimtab {
namespace {

Status check_budgets(const Placement& placement, const Topology& topology,
                     std::span<const std::int32_t> budgets) {
  if (placement.num_slots() != topology.num_slots()) {
    return failure(Errc::invalid_argument, fmt::format("the placement has {} slots, the topology {}",
                                                       placement.num_slots(), topology.num_slots()));
  }
  if (budgets.size() != static_cast<std::size_t>(topology.num_ranks())) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} budgets for {} ranks", budgets.size(), topology.num_ranks()));
  }
  const auto negative = std::ranges::find_if(budgets, [](std::int32_t budget) { return budget < 0; });
  if (negative == budgets.end()) return {};
  return failure(Errc::invalid_argument,
                 fmt::format("rank {}: a budget of {} bundles", negative - budgets.begin(), *negative));
}

std::vector<Rank> live_ranks_of(std::span<const SlotId> replicas, const Topology& topology) {
  std::vector<Rank> ranks;
  for (const SlotId slot : replicas) {
    const Rank rank = topology.rank_of(slot);
    // Slots ascend, and so do their ranks.
    if (topology.is_alive(rank) && (ranks.empty() || ranks.back() != rank)) ranks.push_back(rank);
  }
  return ranks;
}

/// Those in the greatest danger first.
std::vector<HostCopy> copies_to_keep(const Placement& placement, const Topology& topology) {
  std::vector<HostCopy> copies;
  for (const LayerId layer : ids<LayerId>(placement.num_layers())) {
    for (const ExpertId expert : ids<ExpertId>(placement.num_experts())) {
      HostCopy copy{{layer, expert}, live_ranks_of(placement.replicas(layer, expert), topology)};
      if (!copy.serving.empty()) copies.push_back(std::move(copy));
    }
  }
  std::ranges::stable_sort(copies, {}, [](const HostCopy& copy) { return copy.serving.size(); });
  return copies;
}

std::vector<std::int32_t> room_of(const Topology& topology, std::span<const std::int32_t> budgets) {
  std::vector<std::int32_t> room(budgets.begin(), budgets.end());
  for (const Rank rank : ids<Rank>(topology.num_ranks())) {
    if (!topology.is_alive(rank)) room[rank.index()] = 0;
  }
  return room;
}

}  // namespace

Status HostCopyPlan::add(LayerId layer, ExpertId expert, Rank keeper) {
  const auto refuse = [&](std::string_view why) {
    return failure(Errc::invalid_argument, fmt::format("host copies: layer {}, expert {}: rank {} {}",
                                                       layer.value(), expert.value(), keeper.value(), why));
  };
  if (!ids<Rank>(num_ranks_).contains(keeper)) return refuse(fmt::format("is not in 0..{}", num_ranks_ - 1));
  std::vector<Rank>& keepers = keepers_[{layer, expert}];
  if (std::ranges::find(keepers, keeper) != keepers.end()) return refuse("keeps it already");
  keepers.push_back(keeper);
  return {};
}

std::span<const Rank> HostCopyPlan::keepers(LayerId layer, ExpertId expert) const noexcept {
  const auto at = keepers_.find({layer, expert});
  return at == keepers_.end() ? std::span<const Rank>{} : at->second;
}

std::vector<LayerExpert> HostCopyPlan::kept_by(Rank keeper) const {
  std::vector<LayerExpert> kept;
  for (const auto& [what, keepers] : keepers_) {
    if (std::ranges::find(keepers, keeper) != keepers.end()) kept.push_back({what.first, what.second});
  }
  return kept;
}

Result<HostCopyPlan> plan_host_copies(const Placement& placement, const Topology& topology,
                                      std::span<const std::int32_t> budgets) {
  if (Status sound = check_budgets(placement, topology, budgets); !sound) return failure(std::move(sound));
  std::vector<HostCopy> copies = copies_to_keep(placement, topology);
  std::vector<std::int32_t> room = room_of(topology, budgets);
  const auto total =
      std::accumulate(room.begin(), room.end(), std::size_t{0},
                      [](std::size_t sum, auto more) { return sum + static_cast<std::size_t>(more); });
  if (copies.size() > total) copies.resize(total);
  CopyAssignment assignment(copies, topology, std::move(room));
  for (std::size_t i = 0; i < copies.size(); ++i) assignment.assign(i);
  HostCopyPlan plan(topology.num_ranks());
  for (const Rank rank : ids<Rank>(topology.num_ranks())) {
    for (const std::size_t copy : assignment.kept_by(rank)) {
      if (Status added = plan.add(copies[copy].what.layer, copies[copy].what.expert, rank); !added)
        return failure(std::move(added));
    }
  }
  return plan;
}

}  // namespace trimtab
