// SPDX-License-Identifier: Apache-2.0
#include "plan/compat/shape.hpp"

#include <fmt/format.h>

#include <limits>

namespace trimtab {
namespace {

Status refuse(std::string message) { return failure(Errc::invalid_argument, std::move(message)); }

bool is_by_group(const EplbShape& shape) { return shape.num_groups % shape.num_nodes == 0; }

}  // namespace

EplbShape resolve_shape(const EplbShape& shape) noexcept {
  return is_by_group(shape) ? shape : EplbShape{shape.num_slots, 1, 1, shape.num_ranks};
}

Status check_shape(std::int32_t num_experts, const EplbShape& shape) {
  const auto [slots, groups, nodes, ranks] = shape;
  if (groups < 1) return refuse(fmt::format("{} expert groups < 1", groups));
  if (nodes < 1) return refuse(fmt::format("{} nodes < 1", nodes));
  if (ranks < 1) return refuse(fmt::format("{} ranks < 1", ranks));
  if (slots < num_experts) {
    return failure(Errc::infeasible,
                   fmt::format("{} slots < {} experts: every expert needs one", slots, num_experts));
  }
  if (slots % ranks != 0) return refuse(fmt::format("{} ranks do not divide {} slots", ranks, slots));
  if (!is_by_group(shape)) return {};
  if (num_experts % groups != 0) {
    return refuse(fmt::format("{} expert groups do not divide {} experts", groups, num_experts));
  }
  if (ranks % nodes != 0) {
    return refuse(
        fmt::format("{} nodes do not divide {} ranks, but they divide {} expert groups: a plan by "
                    "group needs both",
                    nodes, ranks, groups));
  }
  return {};
}

Status check_totals(const LoadMatrix& loads) {
  // Half of what fits leaves room for rounding.
  constexpr double limit = double{std::numeric_limits<float>::max()} / 2.0;
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    if (loads.total(layer) > limit) {
      return refuse(fmt::format("layer {}: the sum of its loads {} > {}, the limit of single precision",
                                layer.value(), loads.total(layer), limit));
    }
  }
  return {};
}

Status check_ranks(std::string_view planner, const Topology& topology, bool by_node) {
  const RankInfo& first = topology.rank(Rank{0});
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    const RankInfo& info = topology.rank(rank);
    if (!info.is_alive) {
      return refuse(fmt::format("{} knows live ranks only: rank {} is dead", planner, rank.value()));
    }
    if (info.num_slots != first.num_slots) {
      return refuse(fmt::format("{} needs equally many slots on each rank: rank 0 has {}, rank {} has {}",
                                planner, first.num_slots, rank.value(), info.num_slots));
    }
    if (info.speed != first.speed) {
      return refuse(fmt::format("{} knows ranks of equal speed only: rank 0 has {}, rank {} has {}", planner,
                                first.speed, rank.value(), info.speed));
    }
    const std::int64_t node = std::int64_t{rank.value()} * topology.num_nodes() / topology.num_ranks();
    if (by_node && info.node.value() != node) {
      return refuse(fmt::format("{} numbers ranks node by node: rank {} lies on node {}, not {}", planner,
                                rank.value(), info.node.value(), node));
    }
  }
  return {};
}

}  // namespace trimtab
