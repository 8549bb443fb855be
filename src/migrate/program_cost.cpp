// SPDX-License-Identifier: Apache-2.0
#include "migrate/program_cost.hpp"

#include <utility>
#include <vector>

namespace trimtab {
namespace {

void count_moves(std::span<const Step> steps, const ProgramInput& input, ProgramCost& cost) {
  const Topology& topology = input.topology;
  for (const Step& step : steps) {
    for (const Move& move : step.moves) {
      const std::size_t bytes = input.bundle_bytes[move.layer.index()];
      cost.bytes_extra += bytes;  // Every changed slot is taken off again below.
      if (move.kind == MoveKind::displaced) ++cost.exchanges_forced;
      if (!is_remote(move.kind)) {
        (move.kind == MoveKind::recover ? cost.bytes_recovered : cost.bytes_copied) += bytes;
        continue;
      }
      cost.bytes_moved += bytes;
      const bool crosses = topology.node_of(topology.rank_of(move.source)) !=
                           topology.node_of(topology.rank_of(move.destination));
      if (crosses) cost.bytes_across_nodes += bytes;
    }
  }
}

/// Compares the two placements, one expert of one layer after another. Groups are marked with the number of
/// the comparison, so nothing is cleared in between.
class Comparison {
 public:
  explicit Comparison(const ProgramInput& input)
      : input_(input),
        ranks_(static_cast<std::size_t>(input.topology.num_ranks())),
        nodes_(static_cast<std::size_t>(input.topology.num_nodes())) {}

  void add_expert(LayerId layer, ExpertId expert, ProgramCost& cost) {
    ++number_;
    is_lost_ = true;
    for (SlotId slot : input_.from.replicas(layer, expert)) {
      if (input_.topology.is_alive(slot)) add_holder(slot);
    }
    for (const KeptExpert& kept : input_.kept) {
      if (kept.layer == layer && kept.expert == expert) add_holder(kept.slot);
    }
    for (SlotId slot : input_.to.replicas(layer, expert)) {
      if (input_.topology.is_alive(slot)) add_goal(layer, expert, slot, cost);
    }
  }

 private:
  struct Mark {
    std::uint64_t had = 0;   ///< Last comparison whose expert was there before.
    std::uint64_t gets = 0;  ///< Last comparison whose expert was counted for it.
  };

  void add_holder(SlotId slot) {
    is_lost_ = false;
    rank_of(slot).had = number_;
    node_of(slot).had = number_;
  }

  void add_goal(LayerId layer, ExpertId expert, SlotId slot, ProgramCost& cost) {
    const std::size_t bytes = input_.bundle_bytes[layer.index()];
    if (input_.from.expert_at(layer, slot) != expert) cost.bytes_extra -= bytes;
    if (rank_of(slot).had != number_) ++cost.slots_moved;
    const bool is_new_on_rank = is_new(rank_of(slot));
    const bool is_new_on_node = is_new(node_of(slot));
    if (is_lost_ && is_new_on_node) return;  // From the source.
    if (is_new_on_rank) cost.bytes_moved_bound += bytes;
    if (is_new_on_node) cost.bytes_across_nodes_bound += bytes;
  }

  bool is_new(Mark& mark) const {
    return mark.had != number_ && std::exchange(mark.gets, number_) != number_;
  }

  Mark& rank_of(SlotId slot) { return ranks_[input_.topology.rank_of(slot).index()]; }
  Mark& node_of(SlotId slot) {
    return nodes_[input_.topology.node_of(input_.topology.rank_of(slot)).index()];
  }

  const ProgramInput& input_;
  std::vector<Mark> ranks_;
  std::vector<Mark> nodes_;
  std::uint64_t number_ = 0;
  bool is_lost_ = false;  ///< No live slot holds the expert, and nobody has kept it.
};

}  // namespace

ProgramCost cost_of(std::span<const Step> steps, const ProgramInput& input) {
  ProgramCost cost;
  count_moves(steps, input, cost);
  Comparison comparison(input);
  for (LayerId layer : ids<LayerId>(input.to.num_layers())) {
    for (ExpertId expert : ids<ExpertId>(input.to.num_experts())) comparison.add_expert(layer, expert, cost);
  }
  return cost;
}

}  // namespace trimtab
