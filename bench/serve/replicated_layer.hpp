// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/route/routing_table.hpp>

#include "batch.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace trimtab::bench {

/// A batch, and a table as a planner and a split leave it: hot experts have more replicas, and the shares of
/// an expert's replicas differ.
class ReplicatedLayer {
 public:
  ReplicatedLayer(std::int32_t num_redundant, std::size_t num_tokens)
      : num_slots_(static_cast<std::size_t>(num_experts + num_redundant)),
        experts_(make_experts(num_tokens * std::size_t{top_k})),
        map_(make_map(num_redundant)),
        assignments_(make_assignments()),
        table_(make_table()) {}

  [[nodiscard]] LayerId layer() const noexcept { return LayerId{1}; }
  [[nodiscard]] std::size_t num_slots() const noexcept { return num_slots_; }
  [[nodiscard]] const std::vector<ExpertId>& experts() const noexcept { return experts_; }
  [[nodiscard]] ExpertId expert_at(SlotId slot) const noexcept { return map_[slot.index()]; }
  /// [slots]: sums to what the batch has for each expert.
  [[nodiscard]] const std::vector<std::int64_t>& assignments() const noexcept { return assignments_; }
  [[nodiscard]] const RoutingTable& table() const noexcept { return table_; }

 private:
  [[nodiscard]] std::vector<double> loads() const {
    std::vector<double> loads(num_experts);
    for (ExpertId expert : experts_) loads[expert.index()] += 1.0;
    return loads;
  }

  /// Another replica goes to the expert whose replicas are the fullest.
  [[nodiscard]] std::vector<ExpertId> make_map(std::int32_t num_redundant) const {
    const std::vector<double> load = loads();
    std::vector<double> replicas(num_experts, 1.0);
    std::vector<ExpertId> map;
    for (ExpertId expert : ids<ExpertId>(num_experts)) map.push_back(expert);
    for (std::int32_t i = 0; i < num_redundant; ++i) {
      std::size_t fullest = 0;
      for (std::size_t e = 1; e < load.size(); ++e) {
        if (load[e] / replicas[e] > load[fullest] / replicas[fullest]) fullest = e;
      }
      ++replicas[fullest];
      map.push_back(ExpertId{static_cast<std::int32_t>(fullest)});
    }
    std::shuffle(map.begin(), map.end(), std::mt19937_64(3));
    return map;
  }

  [[nodiscard]] std::vector<std::int64_t> make_assignments() const {
    std::mt19937_64 random(5);
    std::vector<std::int64_t> left(num_experts);
    std::vector<std::int64_t> replicas(num_experts);
    for (ExpertId expert : experts_) ++left[expert.index()];
    for (ExpertId expert : map_) ++replicas[expert.index()];
    std::vector<std::int64_t> assignments(map_.size());
    for (std::size_t s = 0; s < map_.size(); ++s) {
      const std::size_t e = map_[s].index();
      const auto most = static_cast<std::uint64_t>(left[e] * 2 / replicas[e]);
      assignments[s] = replicas[e] == 1 ? left[e] : static_cast<std::int64_t>(random() % (most + 1));
      left[e] -= assignments[s];
      --replicas[e];
    }
    return assignments;
  }

  [[nodiscard]] RoutingTable make_table() const {
    std::vector<ExpertId> maps;
    std::vector<std::int64_t> splits;
    for (std::int32_t l = 0; l < num_layers; ++l) {
      maps.insert(maps.end(), map_.begin(), map_.end());
      splits.insert(splits.end(), assignments_.begin(), assignments_.end());
    }
    const auto slots = static_cast<std::int32_t>(num_slots_);
    return RoutingTable::compile(Placement::make(num_layers, slots, num_experts, std::move(maps)).value(),
                                 Topology::make_uniform(num_ranks, 4, slots).value(), {.epoch = Epoch{1}},
                                 Split::make(num_layers, slots, std::move(splits)).value())
        .value();
  }

  std::size_t num_slots_;
  std::vector<ExpertId> experts_;
  std::vector<ExpertId> map_;  ///< [slots]
  std::vector<std::int64_t> assignments_;
  RoutingTable table_;
};

}  // namespace trimtab::bench
