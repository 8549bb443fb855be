// SPDX-License-Identifier: Apache-2.0
#include "support/plan_checks.hpp"

#include <trimtab/core/assert.hpp>
#include <trimtab/core/imbalance.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "support/exact_split.hpp"

namespace trimtab::test {
namespace {

std::vector<ExpertId> held_by(const Placement& placement, LayerId layer, Rank rank,
                              const Topology& topology) {
  std::vector<ExpertId> held;
  for (SlotId slot : topology.slots_of(rank)) {
    const ExpertId expert = placement.expert_at(layer, slot);
    if (expert != no_expert) held.push_back(expert);
  }
  std::sort(held.begin(), held.end());
  return held;
}

std::int32_t duplicates_on(const std::vector<ExpertId>& sorted) {
  std::int32_t duplicates = 0;
  for (std::size_t i = 1; i < sorted.size(); ++i) duplicates += sorted[i] == sorted[i - 1] ? 1 : 0;
  return duplicates;
}

std::string broken_on_rank(const Plan& plan, LayerId layer, Rank rank, const Topology& topology,
                           const PlanOptions& options) {
  const auto held = held_by(plan.placement, layer, rank, topology);
  const auto slots = static_cast<std::int32_t>(topology.slots_of(rank).size());
  if (!topology.is_alive(rank)) {
    return held.empty() ? ""
                        : fmt::format("layer {}: dead rank {} holds experts", layer.value(), rank.value());
  }
  const bool by_node = plan.locality != Locality::none;
  const std::int32_t experts = plan.placement.num_experts() / (by_node ? topology.num_nodes() : 1);
  const std::int32_t unavoidable = std::max(0, slots - experts);
  const std::int32_t duplicates = duplicates_on(held);
  const std::int32_t vacant = slots - static_cast<std::int32_t>(held.size());
  if (duplicates > (options.allow_vacant ? 0 : unavoidable)) {
    return fmt::format("layer {}, rank {}: {} duplicates", layer.value(), rank.value(), duplicates);
  }
  if (vacant > (options.allow_vacant ? unavoidable : 0)) {
    return fmt::format("layer {}, rank {}: {} vacant slots", layer.value(), rank.value(), vacant);
  }
  return "";
}

std::string broken_report(const Plan& plan, LayerId layer, const LoadMatrix& loads,
                          const Topology& topology) {
  const LayerReport& report = plan.layers[layer.index()];
  const double imbalance = imbalance_of(loads, plan.placement, layer, topology);
  if (report.layer != layer || report.is_dense != loads.is_dense(layer)) return "a report of another layer";
  if (std::abs(report.imbalance - imbalance) > 1e-9) {
    return fmt::format("layer {}: imbalance {}, reported {}", layer.value(), imbalance, report.imbalance);
  }
  if (report.imbalance_exact && !report.is_dense) {
    const double exact = best_split_imbalance(loads.layer(layer), plan.placement.layer(layer), topology);
    if (std::abs(*report.imbalance_exact - exact) > 1e-7) {
      return fmt::format("layer {}: exact {}, reported {}", layer.value(), exact, *report.imbalance_exact);
    }
  }
  if (report.bound < 1.0 || report.bound > report.reached()) {
    return fmt::format("layer {}: bound {}, reached {}", layer.value(), report.bound, report.reached());
  }
  if (report.duplicates_on_rank != duplicates_in(plan.placement, layer, topology)) {
    return fmt::format("layer {}: reports {} duplicates", layer.value(), report.duplicates_on_rank);
  }
  return "";
}

bool is_identity(const Placement& placement, LayerId layer) {
  for (SlotId slot : ids<SlotId>(placement.num_slots())) {
    if (placement.expert_at(layer, slot).value() != slot.value() % placement.num_experts()) return false;
  }
  return true;
}

}  // namespace

Plan plan_of(const LoadMatrix& loads, const Topology& topology, const PlanOptions& options) {
  SerialExecutor executor;
  Result<Plan> plan = plan_rebalance(loads, topology, options, executor);
  TRIMTAB_ASSERT(plan.has_value());
  return *std::move(plan);
}

std::int32_t duplicates_in(const Placement& placement, LayerId layer, const Topology& topology) {
  std::int32_t duplicates = 0;
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    duplicates += duplicates_on(held_by(placement, layer, rank, topology));
  }
  return duplicates;
}

double imbalance_of(const LoadMatrix& loads, const Placement& placement, LayerId layer,
                    const Topology& topology) {
  const auto rank_loads = compute_rank_loads(loads.layer(layer), placement.layer(layer), topology);
  return compute_imbalance(rank_loads, topology).max_over_mean();
}

std::vector<std::size_t> replica_counts(const Placement& placement, LayerId layer) {
  std::vector<std::size_t> counts;
  for (ExpertId e : ids<ExpertId>(placement.num_experts())) {
    counts.push_back(placement.replicas(layer, e).size());
  }
  return counts;
}

std::string broken_promise(const Plan& plan, const LoadMatrix& loads, const Topology& topology,
                           const PlanOptions& options) {
  if (const Status live = check_live(plan.placement, topology); !live) return live.error().message;
  if (plan.layers.size() != static_cast<std::size_t>(loads.num_layers())) return "not one report per layer";
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    if (std::string broken = broken_report(plan, layer, loads, topology); !broken.empty()) return broken;
    const bool is_exact = options.shares == ShareMode::exact;
    if (plan.layers[layer.index()].imbalance_exact.has_value() != is_exact)
      return "shares it was not asked for";
    if (loads.is_dense(layer) && is_identity(plan.placement, layer)) continue;
    for (Rank rank : ids<Rank>(topology.num_ranks())) {
      std::string broken = broken_on_rank(plan, layer, rank, topology, options);
      if (!broken.empty()) return broken;
    }
  }
  return "";
}

}  // namespace trimtab::test
