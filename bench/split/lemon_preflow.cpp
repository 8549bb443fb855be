// SPDX-License-Identifier: Apache-2.0
#include "plain_dinic.hpp"

#include <lemon/preflow.h>
#include <lemon/smart_graph.h>

namespace trimtab::bench {
namespace {

class LemonSplit final : public PlainSplit {
 public:
  LemonSplit(std::span<const ExpertId> row, std::int32_t num_experts, const Topology& topology)
      : capacity_(graph_), source_(graph_.addNode()), sink_(graph_.addNode()) {
    std::vector<Graph::Node> experts;
    for (std::int32_t e = 0; e < num_experts; ++e) {
      experts.push_back(graph_.addNode());
      loads_.push_back(graph_.addArc(source_, experts.back()));
    }
    for (std::int32_t r = 0; r < topology.num_ranks(); ++r) {
      ranks_.push_back(graph_.addNode());
      limits_.push_back(graph_.addArc(ranks_.back(), sink_));
    }
    for (SlotId slot : ids<SlotId>(row.size())) {
      const auto rank = topology.rank_of(slot).index();
      slots_.push_back(graph_.addArc(experts[row[slot.index()].index()], ranks_[rank]));
    }
  }

  std::int64_t solve(std::span<const std::int64_t> loads, std::span<std::int64_t> assignments) override {
    std::int64_t total = 0;
    for (std::size_t e = 0; e < loads.size(); ++e) {
      capacity_[loads_[e]] = loads[e];
      total += loads[e];
    }
    for (Graph::Arc arc : slots_) capacity_[arc] = total;
    const auto ranks = static_cast<std::int64_t>(ranks_.size());
    for (std::int64_t target = (total + ranks - 1) / ranks;;) {
      for (Graph::Arc arc : limits_) capacity_[arc] = target;
      lemon::Preflow<Graph, Capacities> preflow(graph_, capacity_, source_, sink_);
      preflow.runMinCut();
      const std::int64_t left = total - preflow.flowValue();
      if (left == 0) {
        preflow.startSecondPhase();
        for (std::size_t s = 0; s < slots_.size(); ++s) assignments[s] = preflow.flow(slots_[s]);
        return target;
      }
      std::int64_t full = 0;
      for (Graph::Node rank : ranks_) full += preflow.minCut(rank) ? 1 : 0;
      target += (left + full - 1) / full;
    }
  }

 private:
  using Graph = lemon::SmartDigraph;
  using Capacities = Graph::ArcMap<std::int64_t>;

  Graph graph_;
  Capacities capacity_;
  Graph::Node source_, sink_;
  std::vector<Graph::Node> ranks_;
  std::vector<Graph::Arc> loads_, limits_, slots_;
};

}  // namespace

std::unique_ptr<PlainSplit> make_lemon_split(std::span<const ExpertId> row, std::int32_t num_experts,
                                             const Topology& topology) {
  return std::make_unique<LemonSplit>(row, num_experts, topology);
}

}  // namespace trimtab::bench
