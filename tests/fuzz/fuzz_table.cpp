// SPDX-License-Identifier: Apache-2.0
#include "fuzz/fuzz_input.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trimtab::test {
namespace {

std::optional<Topology> draw_topology(FuzzInput& input) {
  std::vector<RankInfo> ranks(static_cast<std::size_t>(1 + input.below(6)));
  for (RankInfo& rank : ranks) {
    const std::uint8_t draw = input.byte();
    rank = {.node = NodeId{draw % 3}, .num_slots = draw / 4 % 5, .is_alive = draw % 11 != 0};
  }
  Result<Topology> topology = Topology::make(std::move(ranks));
  if (!topology) return std::nullopt;
  return *std::move(topology);
}

std::optional<Placement> draw_placement(FuzzInput& input, std::int32_t num_slots) {
  const std::int32_t num_layers = 1 + input.below(3);
  const std::int32_t num_experts = 1 + input.below(8);
  // At times of another slot count than the topology.
  const std::int32_t slots = input.byte() == 77 ? num_slots + 1 : num_slots;
  std::vector<ExpertId> map(static_cast<std::size_t>(num_layers * slots));
  for (std::size_t i = 0; i < map.size(); ++i) {
    const std::uint8_t draw = input.byte();
    const auto first = static_cast<std::int32_t>(i % static_cast<std::size_t>(slots)) % num_experts;
    map[i] = draw == 0 ? ExpertId{first} : ExpertId{draw % (num_experts + 1) - 1};
  }
  Result<Placement> placement = Placement::make(num_layers, slots, num_experts, std::move(map));
  if (!placement) return std::nullopt;
  return *std::move(placement);
}

std::optional<Split> draw_split(FuzzInput& input, const Placement& placement) {
  const std::uint8_t kind = input.byte();
  if (kind % 4 == 0) return std::nullopt;
  const std::int32_t slots = placement.num_slots() + (kind == 255 ? 1 : 0);
  std::vector<std::int64_t> assignments(static_cast<std::size_t>(placement.num_layers() * slots));
  for (std::int64_t& count : assignments) {
    count = kind % 4 == 1 ? input.byte() : std::int64_t{input.number<std::int64_t>()};
    if (kind % 4 != 3) count &= INT64_MAX;
  }
  Result<Split> split = Split::make(placement.num_layers(), slots, std::move(assignments));
  if (!split) return std::nullopt;
  return *std::move(split);
}

/// The slots that may serve an expert: live, and with a share where any of them has one.
bool may_serve(const TableCase& drawn, LayerId layer, ExpertId expert, SlotId slot) {
  const auto live = [&](SlotId s) { return drawn.topology->is_alive(s); };
  if (drawn.placement->expert_at(layer, slot) != expert || !live(slot)) return false;
  if (!drawn.split) return true;
  const auto assignments = drawn.split->layer(layer);
  const auto slots = drawn.placement->replicas(layer, expert);
  const bool has_shares = std::any_of(slots.begin(), slots.end(),
                                      [&](SlotId s) { return live(s) && assignments[s.index()] > 0; });
  return !has_shares || assignments[slot.index()] > 0;
}

void require_sound_row(const TableCase& drawn, LayerId layer, ExpertId expert) {
  const auto replicas = drawn.table->replicas(layer, expert);
  const auto begins = drawn.table->share_begins(layer, expert);
  require(!replicas.empty() && begins.front() == 0);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    require(may_serve(drawn, layer, expert, replicas[i]));
    require(i == 0 || replicas[i - 1] < replicas[i]);
    const std::uint64_t share = RoutingTable::share_at(begins, i);
    require(share > 0 && share <= RoutingTable::whole_share);
    sum += share;
  }
  require(sum == RoutingTable::whole_share);
}

}  // namespace

TableCase draw_table(FuzzInput& input) {
  TableCase drawn;
  drawn.topology = draw_topology(input);
  if (!drawn.topology) return drawn;
  drawn.placement = draw_placement(input, drawn.topology->num_slots());
  if (!drawn.placement) return drawn;
  drawn.split = draw_split(input, *drawn.placement);
  if (input.below(2) == 1) {
    for (std::int32_t r = 0; r < drawn.topology->num_ranks(); ++r) {
      drawn.source_loads.push_back(input.below(3) == 2 ? input.number<std::int64_t>() : input.byte());
    }
  }
  const TableIdentity identity{Epoch{input.byte()}, input.byte()};
  const TableOptions options{.source_loads = drawn.source_loads};
  Result<RoutingTable> table =
      drawn.split ? RoutingTable::compile(*drawn.placement, *drawn.topology, identity, *drawn.split, options)
                  : RoutingTable::compile(*drawn.placement, *drawn.topology, identity, options);
  if (table) {
    drawn.table = *std::move(table);
  } else {
    require(!table.error().message.empty());
  }
  return drawn;
}

void require_sound(const TableCase& drawn) {
  const RoutingTable& table = *drawn.table;
  require(table.num_layers() == drawn.placement->num_layers());
  for (LayerId layer : ids<LayerId>(table.num_layers())) {
    for (ExpertId expert : ids<ExpertId>(table.num_experts())) require_sound_row(drawn, layer, expert);
  }
  const auto [first, slots, begins] = table.view();
  TableParts parts{table.num_layers(),
                   table.num_experts(),
                   {first.begin(), first.end()},
                   {slots.begin(), slots.end()},
                   {begins.begin(), begins.end()}};
  const auto restored = RoutingTable::restore(std::move(parts), *drawn.topology, table.identity(),
                                              {.source_loads = drawn.source_loads});
  require(restored.has_value() && restored->fingerprint() == table.fingerprint());
}

void fuzz_table(std::span<const std::uint8_t> bytes) {
  FuzzInput input(bytes);
  const TableCase drawn = draw_table(input);
  if (drawn.table) require_sound(drawn);
}

}  // namespace trimtab::test
