// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/assert.hpp>
#include <trimtab/route/router.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trimtab {
namespace {

Status check_shapes(const RoutingTable& table, std::int32_t num_layers, std::int32_t num_experts,
                    LayerId layer) {
  if (table.num_layers() != num_layers || table.num_experts() != num_experts) {
    return failure(Errc::invalid_argument,
                   fmt::format("routing table of {} layers x {} experts, router of {} x {}",
                               table.num_layers(), table.num_experts(), num_layers, num_experts));
  }
  if (!ids<LayerId>(num_layers).contains(layer)) {
    return failure(Errc::invalid_argument,
                   fmt::format("layer {} is not in 0..{}", layer.value(), num_layers - 1));
  }
  return {};
}

/// Accepts `no_expert`. The first pass has no early exit, so that it is vectorised.
Status check_experts(LayerId layer, std::span<const ExpertId> experts, std::int32_t num_experts) {
  const auto is_bad = [limit = static_cast<std::uint32_t>(num_experts)](ExpertId expert) {
    return static_cast<std::uint32_t>(expert.value()) + 1U > limit;
  };
  bool any_bad = false;
  for (ExpertId expert : experts) any_bad |= is_bad(expert);
  if (!any_bad) return {};
  const auto bad = std::find_if(experts.begin(), experts.end(), is_bad);
  return failure(Errc::invalid_argument,
                 fmt::format("layer {}, index {}: expert {} is not in 0..{}", layer.value(),
                             bad - experts.begin(), bad->value(), num_experts - 1));
}

/// Spreads the beginnings over layers and experts, so that not every expert's first token meets the lowest
/// slot.
std::uint32_t mix(LayerId layer, ExpertId expert) {
  auto x =
      static_cast<std::uint32_t>(layer.value()) * 0x9e3779b1U + static_cast<std::uint32_t>(expert.value());
  x = (x ^ (x >> 16)) * 0x85ebca6bU;
  return x ^ (x >> 13);
}

}  // namespace

Router::Router(std::int32_t num_layers, std::int32_t num_experts, Rank rank)
    : num_experts_(num_experts), rank_(rank) {
  TRIMTAB_ASSERT(num_layers >= 1 && num_experts >= 1);
  next_.resize(static_cast<std::size_t>(num_layers) * static_cast<std::size_t>(num_experts));
}

void Router::restart(const RoutingTable& table) {
  auto next = next_.begin();
  for (LayerId layer : ids<LayerId>(table.num_layers())) {
    for (ExpertId expert : ids<ExpertId>(table.num_experts())) {
      // Consecutive ranks begin at consecutive replicas: exactly even over ranks, whatever the mix is.
      const std::uint64_t offset =
          std::uint64_t{mix(layer, expert)} + static_cast<std::uint32_t>(rank_.value());
      *next++ = static_cast<std::uint32_t>(offset % table.replicas(layer, expert).size());
    }
  }
  identity_ = table.identity();
}

Status Router::dispatch(const RoutingTable& table, LayerId layer, std::span<const ExpertId> experts,
                        std::span<SlotId> slots) {
  const auto width = static_cast<std::size_t>(num_experts_);
  const auto num_layers = static_cast<std::int32_t>(next_.size() / width);
  if (Status shapes = check_shapes(table, num_layers, num_experts_, layer); !shapes) return shapes;
  if (experts.size() != slots.size()) {
    return failure(Errc::invalid_argument, fmt::format("layer {}: {} experts for {} slots", layer.value(),
                                                       experts.size(), slots.size()));
  }
  if (Status checked = check_experts(layer, experts, num_experts_); !checked) return checked;
  if (identity_ != table.identity()) restart(table);
  const auto next = std::span(next_).subspan(layer.index() * width, width);
  for (std::size_t i = 0; i < experts.size(); ++i) {
    const ExpertId expert = experts[i];
    if (expert == no_expert) {
      slots[i] = no_slot;
      continue;
    }
    const auto replicas = table.replicas(layer, expert);
    std::uint32_t& turn = next[expert.index()];
    // Wrapping before use keeps the look-up inside the row even if two tables bear one identity.
    const std::uint32_t at = turn < replicas.size() ? turn : 0;
    slots[i] = replicas[at];
    turn = at + 1;
  }
  return {};
}

}  // namespace trimtab
