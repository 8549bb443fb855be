// SPDX-License-Identifier: Apache-2.0
#include "verify/view_goal.hpp"

#include <trimtab/core/assert.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace trimtab::verify {
namespace {

using Row = std::vector<ExpertId>;

bool can_be_spared(const Row& row, SlotId slot) {
  const ExpertId expert = row[slot.index()];
  return expert == no_expert || std::ranges::count(row, expert) > 1;
}

bool give_slot(ExpertId expert, Row& row, const Topology& topology) {
  for (const bool may_take : {false, true}) {
    for (SlotId slot : ids<SlotId>(row.size())) {
      const bool is_free = row[slot.index()] == no_expert || (may_take && can_be_spared(row, slot));
      if (!topology.is_alive(slot) || !is_free) continue;
      row[slot.index()] = expert;
      return true;
    }
  }
  return false;
}

}  // namespace

std::optional<Placement> goal_among_living(const Placement& target, const Topology& topology) {
  std::vector<ExpertId> map;
  for (LayerId layer : ids<LayerId>(target.num_layers())) {
    const auto before = target.layer(layer);
    Row row(before.begin(), before.end());
    for (SlotId slot : ids<SlotId>(target.num_slots())) {
      if (!topology.is_alive(slot)) row[slot.index()] = no_expert;
    }
    for (ExpertId expert : ids<ExpertId>(target.num_experts())) {
      const bool has_slot = std::ranges::find(row, expert) != row.end();
      if (!has_slot && !give_slot(expert, row, topology)) return std::nullopt;
    }
    map.insert(map.end(), row.begin(), row.end());
  }
  auto placement =
      Placement::make(target.num_layers(), target.num_slots(), target.num_experts(), std::move(map));
  TRIMTAB_ASSERT(placement.has_value());
  return std::move(*placement);
}

}  // namespace trimtab::verify
