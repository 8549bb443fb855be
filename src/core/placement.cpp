// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/placement.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace trimtab {
namespace {

Status check_sizes(std::int32_t num_layers, std::int32_t num_slots, std::int32_t num_experts,
                   std::size_t size) {
  if (num_layers < 1 || num_experts < 1) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} layers x {} experts: both must be at least 1", num_layers, num_experts));
  }
  if (num_slots < num_experts) {
    return failure(Errc::infeasible,
                   fmt::format("{} slots < {} experts: every expert needs a slot", num_slots, num_experts));
  }
  const auto expected = static_cast<std::size_t>(num_layers) * static_cast<std::size_t>(num_slots);
  if (size != expected) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} entries for {} layers x {} slots", size, num_layers, num_slots));
  }
  return {};
}

Status check_layer(std::span<const ExpertId> layer, std::int32_t num_experts, std::size_t layer_index) {
  std::vector<bool> has_slot(static_cast<std::size_t>(num_experts), false);
  for (std::size_t s = 0; s < layer.size(); ++s) {
    if (layer[s] == no_expert) continue;
    if (layer[s].value() < 0 || layer[s].value() >= num_experts) {
      return failure(Errc::invalid_argument, fmt::format("layer {}, slot {}: expert {} is not in 0..{}",
                                                         layer_index, s, layer[s].value(), num_experts - 1));
    }
    has_slot[layer[s].index()] = true;
  }
  const auto missing = std::find(has_slot.begin(), has_slot.end(), false);
  if (missing == has_slot.end()) return {};
  return failure(Errc::infeasible,
                 fmt::format("layer {}: expert {} has no slot", layer_index, missing - has_slot.begin()));
}

}  // namespace

Result<Placement> Placement::make(std::int32_t num_layers, std::int32_t num_slots, std::int32_t num_experts,
                                  std::vector<ExpertId> physical_to_logical) {
  if (Status sizes = check_sizes(num_layers, num_slots, num_experts, physical_to_logical.size()); !sizes) {
    return failure(std::move(sizes));
  }
  const auto width = static_cast<std::size_t>(num_slots);
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(num_layers); ++layer) {
    const auto row = std::span(physical_to_logical).subspan(layer * width, width);
    if (Status checked = check_layer(row, num_experts, layer); !checked) return failure(std::move(checked));
  }
  return Placement(num_layers, num_slots, num_experts, std::move(physical_to_logical));
}

Result<Placement> Placement::identity(std::int32_t num_layers, std::int32_t num_slots,
                                      std::int32_t num_experts) {
  const std::int64_t size = std::int64_t{std::max(num_layers, 0)} * std::max(num_slots, 0);
  std::vector<ExpertId> map(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < map.size() && num_experts > 0; ++i) {
    const auto slot = i % static_cast<std::size_t>(num_slots);
    map[i] = ExpertId{static_cast<std::int32_t>(slot) % num_experts};
  }
  return make(num_layers, num_slots, num_experts, std::move(map));
}

Placement::Placement(std::int32_t num_layers, std::int32_t num_slots, std::int32_t num_experts,
                     std::vector<ExpertId> physical_to_logical)
    : num_layers_(num_layers),
      num_slots_(num_slots),
      num_experts_(num_experts),
      physical_to_logical_(std::move(physical_to_logical)) {
  const auto experts = static_cast<std::size_t>(num_experts);
  const auto slots = static_cast<std::size_t>(num_slots);
  first_replica_.assign(static_cast<std::size_t>(num_layers) * (experts + 1), 0);
  slots_.resize(physical_to_logical_.size());
  for (LayerId l : ids<LayerId>(num_layers)) {
    const auto first = std::span(first_replica_).subspan(l.index() * (experts + 1), experts + 1);
    for (ExpertId e : layer(l)) {
      if (e != no_expert) ++first[e.index() + 1];
    }
    for (std::size_t e = 0; e < experts; ++e) first[e + 1] += first[e];
    std::vector<std::int32_t> next(first.begin(), first.end());
    for (SlotId s : ids<SlotId>(num_slots)) {
      const ExpertId e = expert_at(l, s);
      if (e == no_expert) continue;
      slots_[l.index() * slots + static_cast<std::size_t>(next[e.index()]++)] = s;
    }
  }
}

std::span<const ExpertId> Placement::layer(LayerId layer) const noexcept {
  const auto width = static_cast<std::size_t>(num_slots_);
  return std::span(physical_to_logical_).subspan(layer.index() * width, width);
}

std::span<const SlotId> Placement::replicas(LayerId layer, ExpertId expert) const noexcept {
  const std::size_t row = layer.index() * (static_cast<std::size_t>(num_experts_) + 1) + expert.index();
  const auto first = static_cast<std::size_t>(first_replica_[row]);
  const auto last = static_cast<std::size_t>(first_replica_[row + 1]);
  return std::span(slots_).subspan(layer.index() * static_cast<std::size_t>(num_slots_) + first,
                                   last - first);
}

std::vector<LayerExpert> find_lost(const Placement& placement, const Topology& topology) {
  std::vector<LayerExpert> lost;
  for (LayerId layer : ids<LayerId>(placement.num_layers())) {
    for (ExpertId expert : ids<ExpertId>(placement.num_experts())) {
      const auto slots = placement.replicas(layer, expert);
      const auto is_live = [&](SlotId slot) { return topology.is_alive(slot); };
      if (std::none_of(slots.begin(), slots.end(), is_live)) lost.push_back({layer, expert});
    }
  }
  return lost;
}

Status check_live(const Placement& placement, const Topology& topology) {
  if (placement.num_slots() != topology.num_slots()) {
    return failure(Errc::invalid_argument, fmt::format("placement of {} slots on a topology of {} slots",
                                                       placement.num_slots(), topology.num_slots()));
  }
  const std::vector<LayerExpert> lost = find_lost(placement, topology);
  if (lost.empty()) return {};
  return failure(Errc::infeasible, fmt::format("layer {}: expert {} has no slot on a live rank",
                                               lost.front().layer.value(), lost.front().expert.value()));
}

}  // namespace trimtab
