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

/// Accepts `no_expert`. The first pass has no early exit and sums words, so that it is vectorised. Checking
/// before anything moves means that nothing has to be undone.
Status check_experts(LayerId layer, std::span<const ExpertId> experts, std::int32_t num_experts) {
  const auto is_bad = [limit = static_cast<std::uint32_t>(num_experts)](ExpertId expert) {
    return static_cast<std::uint32_t>(expert.value()) + 1U > limit;
  };
  std::uint32_t any_bad = 0;
  for (ExpertId expert : experts) any_bad |= static_cast<std::uint32_t>(is_bad(expert));
  if (any_bad == 0) return {};
  const auto bad = std::find_if(experts.begin(), experts.end(), is_bad);
  return failure(Errc::invalid_argument,
                 fmt::format("layer {}, index {}: expert {} is not in 0..{}", layer.value(),
                             bad - experts.begin(), bad->value(), num_experts - 1));
}

/// Whether each expert's turn is among its replicas. Two tables must not bear one identity; should it happen
/// all the same, no assignment may reach a foreign slot.
bool turns_fit(const RoutingTable::LayerView& view, std::span<const std::uint32_t> turns) {
  std::uint32_t any_bad = 0;
  for (std::size_t e = 0; e < turns.size(); ++e) {
    const std::uint32_t num_replicas = view.first[e + 1] - view.first[e];
    any_bad |= static_cast<std::uint32_t>(turns[e] - view.first[e] >= num_replicas);
  }
  return any_bad == 0;
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
  turns_.resize(static_cast<std::size_t>(num_layers) * static_cast<std::size_t>(num_experts));
}

void Router::restart(const RoutingTable& table) {
  auto turn = turns_.begin();
  for (LayerId layer : ids<LayerId>(table.num_layers())) {
    const auto first = table.layer(layer).first;
    for (ExpertId expert : ids<ExpertId>(table.num_experts())) {
      const std::uint32_t begin = first[expert.index()];
      const std::uint32_t num_replicas = first[expert.index() + 1] - begin;
      // Consecutive ranks begin at consecutive replicas: exactly even over ranks, whatever the mix is.
      const std::uint64_t offset =
          std::uint64_t{mix(layer, expert)} + static_cast<std::uint32_t>(rank_.value());
      *turn++ = begin + static_cast<std::uint32_t>(offset % num_replicas);
    }
  }
  identity_ = table.identity();
}

Status Router::dispatch(const RoutingTable& table, LayerId layer, std::span<const ExpertId> experts,
                        std::span<SlotId> slots) {
  const auto width = static_cast<std::size_t>(num_experts_);
  const auto num_layers = static_cast<std::int32_t>(turns_.size() / width);
  if (Status shapes = check_shapes(table, num_layers, num_experts_, layer); !shapes) return shapes;
  if (experts.size() != slots.size()) {
    return failure(Errc::invalid_argument, fmt::format("layer {}: {} experts for {} slots", layer.value(),
                                                       experts.size(), slots.size()));
  }
  if (Status checked = check_experts(layer, experts, num_experts_); !checked) return checked;
  const RoutingTable::LayerView view = table.layer(layer);
  const auto turns = std::span(turns_).subspan(layer.index() * width, width);
  if (identity_ != table.identity() || !turns_fit(view, turns)) restart(table);
  for (std::size_t i = 0; i < experts.size(); ++i) {
    if (experts[i] == no_expert) {
      slots[i] = no_slot;
      continue;
    }
    std::uint32_t& turn = turns[experts[i].index()];
    slots[i] = view.slots[turn];
    turn = view.after[turn];
  }
  return {};
}

}  // namespace trimtab
