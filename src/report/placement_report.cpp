// SPDX-License-Identifier: Apache-2.0
#include "report/placement_report.hpp"

#include "report/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trimtab {
namespace {

std::int32_t count_duplicates(std::span<const ExpertId> slots, const Topology& topology) {
  std::int32_t duplicates = 0;
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    std::vector<ExpertId> held;
    for (SlotId slot : topology.slots_of(rank)) {
      const ExpertId expert = slots[slot.index()];
      if (expert == no_expert) continue;
      if (std::find(held.begin(), held.end(), expert) != held.end()) ++duplicates;
      held.push_back(expert);
    }
  }
  return duplicates;
}

LayerSlots inspect_layer(const Placement& placement, LayerId layer, const Topology* topology) {
  const auto slots = placement.layer(layer);
  LayerSlots result{.layer = layer, .most_replicated = ExpertId{0}, .duplicates_on_rank = {}};
  result.vacant = static_cast<std::int32_t>(std::count(slots.begin(), slots.end(), no_expert));
  for (ExpertId expert : ids<ExpertId>(placement.num_experts())) {
    const auto replicas = static_cast<std::int32_t>(placement.replicas(layer, expert).size());
    if (replicas > 1) ++result.replicated;
    if (replicas > result.max_replicas) {
      result.max_replicas = replicas;
      result.most_replicated = expert;
    }
  }
  if (topology != nullptr) result.duplicates_on_rank = count_duplicates(slots, *topology);
  return result;
}

nlohmann::ordered_json layer_entry(const LayerSlots& layer) {
  nlohmann::ordered_json entry = {{"layer", layer.layer.value()},
                                  {"vacant", layer.vacant},
                                  {"replicated_experts", layer.replicated},
                                  {"max_replicas", layer.max_replicas},
                                  {"most_replicated_expert", layer.most_replicated.value()}};
  if (layer.duplicates_on_rank) entry["duplicates_on_rank"] = *layer.duplicates_on_rank;
  return entry;
}

}  // namespace

std::vector<LayerSlots> inspect_placement(const Placement& placement, const Topology* topology) {
  std::vector<LayerSlots> layers;
  for (LayerId layer : ids<LayerId>(placement.num_layers())) {
    layers.push_back(inspect_layer(placement, layer, topology));
  }
  return layers;
}

nlohmann::ordered_json placement_document(const Placement& placement, const std::vector<LayerSlots>& layers) {
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  for (const LayerSlots& layer : layers) entries.push_back(layer_entry(layer));
  return {{"schema", "trimtab.inspect/1"},
          {"kind", "placement"},
          {"experts", placement.num_experts()},
          {"slots", placement.num_slots()},
          {"layers", std::move(entries)}};
}

std::string placement_text(const std::vector<LayerSlots>& layers) {
  const bool with_ranks = !layers.empty() && layers.front().duplicates_on_rank;
  Table table;
  table.add_column("layer", Table::Align::left);
  for (const char* header :
       {"vacant slots", "replicated experts", "max replicas", "most replicated expert"}) {
    table.add_column(header);
  }
  if (with_ranks) table.add_column("duplicates on rank");
  for (const LayerSlots& layer : layers) {
    std::vector<std::string> row;
    for (const std::int32_t value : {layer.layer.value(), layer.vacant, layer.replicated, layer.max_replicas,
                                     layer.most_replicated.value()}) {
      row.push_back(fmt::format("{}", value));
    }
    if (with_ranks) row.push_back(fmt::format("{}", *layer.duplicates_on_rank));
    table.add_row(std::move(row));
  }
  return table.to_string();
}

}  // namespace trimtab
