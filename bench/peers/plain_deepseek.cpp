// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "plain.hpp"

namespace trimtab::bench {
namespace {

using Index = std::size_t;

struct Packing {
  std::vector<Index> pack;
  std::vector<Index> place;
};

Packing pack_evenly(const std::vector<float>& weights, Index num_packs) {
  const Index per_pack = weights.size() / num_packs;
  Packing result{std::vector<Index>(weights.size()), std::vector<Index>(weights.size(), 0)};
  if (per_pack == 1) {
    std::iota(result.pack.begin(), result.pack.end(), Index{0});
    return result;
  }
  std::vector<std::pair<float, Index>> order(weights.size());
  for (Index i = 0; i < weights.size(); ++i) order[i] = {weights[i], i};
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<float> loads(num_packs, 0.0F);
  std::vector<Index> sizes(num_packs, 0);
  for (const auto& [weight, item] : order) {
    Index best = num_packs;
    for (Index pack = 0; pack < num_packs; ++pack) {
      if (sizes[pack] < per_pack && (best == num_packs || loads[pack] < loads[best])) best = pack;
    }
    result.pack[item] = best;
    result.place[item] = sizes[best]++;
    loads[best] += weight;
  }
  return result;
}

struct Replicas {
  std::vector<Index> expert;
  std::vector<Index> copy;
  std::vector<Index> count;
};

Replicas replicate(const std::vector<float>& weights, Index num_replicas) {
  Replicas result{std::vector<Index>(num_replicas), std::vector<Index>(num_replicas, 0),
                  std::vector<Index>(weights.size(), 1)};
  std::iota(result.expert.begin(), result.expert.end(), Index{0});
  for (Index i = weights.size(); i < num_replicas; ++i) {
    Index best = 0;
    float most = weights[0] / static_cast<float>(result.count[0]);
    for (Index e = 1; e < weights.size(); ++e) {
      const float average = weights[e] / static_cast<float>(result.count[e]);
      if (average > most) {
        best = e;
        most = average;
      }
    }
    result.expert[i] = best;
    result.copy[i] = result.count[best]++;
  }
  return result;
}

std::vector<Index> inverse(const std::vector<Index>& permutation) {
  std::vector<Index> result(permutation.size());
  for (Index i = 0; i < permutation.size(); ++i) result[permutation[i]] = i;
  return result;
}

/// Of each expert, in the order of nodes and of groups as they were packed.
std::vector<Index> places_of_experts(const std::vector<float>& weights, Index num_groups, Index num_nodes) {
  const Index group_size = weights.size() / num_groups;
  std::vector<float> group_weights(num_groups, 0.0F);
  for (Index e = 0; e < weights.size(); ++e) group_weights[e / group_size] += weights[e];
  const Packing groups = pack_evenly(group_weights, num_nodes);
  std::vector<Index> places(weights.size());
  for (Index e = 0; e < weights.size(); ++e) {
    const Index g = e / group_size;
    const Index group_place = groups.pack[g] * (num_groups / num_nodes) + groups.place[g];
    places[e] = group_place * group_size + e % group_size;
  }
  return places;
}

struct Layer {
  std::vector<Index> expert_at;
  std::vector<Index> copy_at;
  std::vector<Index> count;
};

Layer plan_layer(const std::vector<float>& weights, Index num_slots, Index num_groups, Index num_nodes,
                 Index num_ranks) {
  const std::vector<Index> expert_in_place = inverse(places_of_experts(weights, num_groups, num_nodes));
  const Index node_experts = weights.size() / num_nodes;
  const Index node_slots = num_slots / num_nodes;
  Layer layer{std::vector<Index>(num_slots), std::vector<Index>(num_slots),
              std::vector<Index>(weights.size())};
  for (Index node = 0; node < num_nodes; ++node) {
    std::vector<float> node_weights(node_experts);
    for (Index i = 0; i < node_experts; ++i) {
      node_weights[i] = weights[expert_in_place[node * node_experts + i]];
    }
    const Replicas replicas = replicate(node_weights, node_slots);
    std::vector<float> replica_weights(node_slots);
    for (Index i = 0; i < node_slots; ++i) {
      const Index e = replicas.expert[i];
      replica_weights[i] = node_weights[e] / static_cast<float>(replicas.count[e]);
    }
    const Packing packing = pack_evenly(replica_weights, num_ranks / num_nodes);
    for (Index i = 0; i < node_slots; ++i) {
      const Index slot = node * node_slots + packing.pack[i] * (num_slots / num_ranks) + packing.place[i];
      layer.expert_at[slot] = expert_in_place[node * node_experts + replicas.expert[i]];
      layer.copy_at[slot] = replicas.copy[i];
    }
    for (Index i = 0; i < node_experts; ++i) {
      layer.count[expert_in_place[node * node_experts + i]] = replicas.count[i];
    }
  }
  return layer;
}

}  // namespace

EplbPlan rebalance_plainly(const LoadMatrix& loads, const EplbShape& shape) {
  const bool by_group = shape.num_groups % shape.num_nodes == 0;
  const auto num_slots = static_cast<Index>(shape.num_slots);
  const auto num_experts = static_cast<Index>(loads.num_experts());
  std::vector<Layer> layers;
  for (LayerId id : ids<LayerId>(loads.num_layers())) {
    const auto row = loads.layer(id);
    std::vector<float> weights(num_experts);
    for (Index e = 0; e < num_experts; ++e) weights[e] = static_cast<float>(row[e]);
    layers.push_back(plan_layer(weights, num_slots, by_group ? static_cast<Index>(shape.num_groups) : 1,
                                by_group ? static_cast<Index>(shape.num_nodes) : 1,
                                static_cast<Index>(shape.num_ranks)));
  }
  Index width = 0;
  for (const Layer& layer : layers) {
    width = std::max(width, *std::max_element(layer.count.begin(), layer.count.end()));
  }
  EplbPlan plan{loads.num_layers(), shape.num_slots, loads.num_experts(), static_cast<std::int32_t>(width)};
  plan.logical_to_physical.assign(layers.size() * num_experts * width, no_slot);
  for (Index i = 0; i < layers.size(); ++i) {
    for (Index e : layers[i].expert_at) {
      plan.physical_to_logical.push_back(ExpertId{static_cast<ExpertId::rep>(e)});
    }
    for (Index count : layers[i].count) plan.logical_count.push_back(static_cast<std::int32_t>(count));
    for (Index slot = 0; slot < num_slots; ++slot) {
      const Index row = i * num_experts + layers[i].expert_at[slot];
      plan.logical_to_physical[row * width + layers[i].copy_at[slot]] =
          SlotId{static_cast<SlotId::rep>(slot)};
    }
  }
  return plan;
}

}  // namespace trimtab::bench
