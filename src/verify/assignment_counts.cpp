// SPDX-License-Identifier: Apache-2.0
#include "verify/assignment_counts.hpp"

#include <fmt/format.h>

#include <array>

namespace trimtab::verify {

AssignmentCounts::AssignmentCounts(std::int32_t num_layers, std::int32_t num_slots, std::int32_t num_experts,
                                   std::uint64_t seed)
    : num_layers_(num_layers),
      num_experts_(num_experts),
      recorder_(num_layers, num_slots, 1),
      random_(seed) {}

Status AssignmentCounts::route(const RoutingTable& table) {
  const Epoch epoch = table.identity().epoch;
  std::vector<std::int64_t>& routed = routed_[epoch];
  routed.resize(static_cast<std::size_t>(num_layers_) * static_cast<std::size_t>(num_experts_));
  std::array<SlotId, num_tokens> slots;
  for (LayerId layer : ids<LayerId>(num_layers_)) {
    for (SlotId& slot : slots) {
      const ExpertId expert{random_.within(0, num_experts_ - 1)};
      slot = random_.pick(table.replicas(layer, expert));
      ++routed[layer.index() * static_cast<std::size_t>(num_experts_) + expert.index()];
    }
    if (Status counted = recorder_.record({}, epoch, layer, slots, num_tokens); !counted) return counted;
  }
  recorder_.commit_forward();
  return {};
}

Status AssignmentCounts::check(const Engine& engine, bool takes_stale_maps) {
  for (const SlotCounts& window : recorder_.take_window({})) {
    const Placement* placement = engine.placement_of(window.epoch);
    if (takes_stale_maps && window.epoch.value() > 0)
      placement = engine.placement_of(Epoch{window.epoch.value() - 1});
    if (placement == nullptr) {
      return failure(Errc::not_found,
                     fmt::format("epoch {}: its placement is not known any more", window.epoch.value()));
    }
    if (Status compared = compare(window, *placement); !compared) return compared;
  }
  routed_.clear();
  return {};
}

Status AssignmentCounts::compare(const SlotCounts& window, const Placement& placement) const {
  Result<ExpertCounts> folded = fold_counts(window, placement);
  if (!folded) {
    Error error = std::move(folded).error();
    return failure(error.code, fmt::format("epoch {}: {}", window.epoch.value(), error.message));
  }
  const std::vector<std::int64_t>& routed = routed_.at(window.epoch);
  for (std::size_t i = 0; i < routed.size(); ++i) {
    if (folded->counts[i] == routed[i]) continue;
    const auto experts = static_cast<std::size_t>(num_experts_);
    return failure(Errc::corrupt,
                   fmt::format("epoch {}, layer {}, expert {}: {} counted, {} routed", window.epoch.value(),
                               i / experts, i % experts, folded->counts[i], routed[i]));
  }
  return {};
}

}  // namespace trimtab::verify
