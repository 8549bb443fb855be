// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/assert.hpp>
#include <trimtab/core/checksum.hpp>
#include <trimtab/migrate/program.hpp>

#include "migrate/staging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace trimtab {
namespace {

Status check_input(const ProgramInput& input) {
  const Placement& from = input.from;
  const Placement& to = input.to;
  if (from.num_layers() != to.num_layers() || from.num_slots() != to.num_slots() ||
      from.num_experts() != to.num_experts()) {
    return failure(
        Errc::invalid_argument,
        fmt::format("placements differ in shape: {} x {} slots, {} experts and {} x {} slots, {} experts",
                    from.num_layers(), from.num_slots(), from.num_experts(), to.num_layers(), to.num_slots(),
                    to.num_experts()));
  }
  if (input.bundle_bytes.size() != static_cast<std::size_t>(from.num_layers())) {
    return failure(Errc::invalid_argument, fmt::format("{} bundle sizes for {} layers",
                                                       input.bundle_bytes.size(), from.num_layers()));
  }
  return check_live(to, input.topology);
}

/// Turns the difference of two placements into moves, layer by layer, choosing sources so that no rank sends
/// much more than another.
class MoveBuilder {
 public:
  explicit MoveBuilder(const ProgramInput& input)
      : input_(input), sent_bytes_(static_cast<std::size_t>(input.topology.num_ranks()), 0) {}

  Result<Step> build_layer(LayerId layer) {
    Step step;
    for (SlotId slot : ids<SlotId>(input_.from.num_slots())) {
      const ExpertId now = input_.from.expert_at(layer, slot);
      const ExpertId next = input_.to.expert_at(layer, slot);
      if (now == next) continue;
      if (next == no_expert) {
        step.vacations.push_back({layer, slot});
        continue;
      }
      Result<Move> move = build_move(step, layer, next, slot);
      if (!move) return failure(std::move(move));
      step.moves.push_back(*move);
    }
    return step;
  }

 private:
  Result<Move> build_move(const Step& step, LayerId layer, ExpertId expert, SlotId destination) {
    const Topology& topology = input_.topology;
    const Rank rank = topology.rank_of(destination);
    if (!topology.is_alive(rank)) {
      return failure(Errc::invalid_argument,
                     fmt::format("layer {}, slot {}: expert {} is placed on rank {}, which is dead",
                                 layer.value(), destination.value(), expert.value(), rank.value()));
    }
    for (SlotId source : input_.from.replicas(layer, expert)) {
      if (topology.rank_of(source) == rank)
        return Move{layer, expert, source, destination, MoveKind::local_copy};
    }
    for (const Move& earlier : step.moves) {
      if (earlier.expert == expert && topology.rank_of(earlier.destination) == rank) {
        return Move{layer, expert, earlier.destination, destination, MoveKind::reuse};
      }
    }
    return build_transfer(layer, expert, destination);
  }

  /// Same node before another node, then who has sent least, then the lower slot.
  Result<Move> build_transfer(LayerId layer, ExpertId expert, SlotId destination) {
    const Topology& topology = input_.topology;
    const NodeId node = topology.node_of(topology.rank_of(destination));
    const auto cost = [&](SlotId source) {
      const Rank rank = topology.rank_of(source);
      return std::tuple(topology.node_of(rank) != node, sent_bytes_[rank.index()], source);
    };
    std::vector<SlotId> sources;
    std::ranges::copy_if(input_.from.replicas(layer, expert), std::back_inserter(sources),
                         [&](SlotId slot) { return topology.is_alive(slot); });
    if (sources.empty()) {
      return failure(Errc::infeasible,
                     fmt::format("layer {}: no live slot holds expert {}, which slot {} needs", layer.value(),
                                 expert.value(), destination.value()));
    }
    const SlotId source = *std::ranges::min_element(sources, {}, cost);
    sent_bytes_[topology.rank_of(source).index()] += input_.bundle_bytes[layer.index()];
    return Move{layer, expert, source, destination, MoveKind::transfer};
  }

  const ProgramInput& input_;
  std::vector<std::uint64_t> sent_bytes_;  ///< By rank, over the whole program.
};

/// Collects whole layers into steps, none of which needs more staging on any rank than the budget.
class StepPacker {
 public:
  explicit StepPacker(const ProgramInput& input) : input_(input), used_(num_ranks(), 0) {}

  Status add(LayerId layer, Step moves) {
    const std::vector<std::size_t> need = staging_need(layer, moves);
    const auto most = std::ranges::max_element(need);
    if (*most > input_.staging_budget_bytes) {
      return failure(Errc::infeasible,
                     fmt::format("layer {}: rank {} needs {} bytes of staging > budget {}", layer.value(),
                                 most - need.begin(), *most, input_.staging_budget_bytes));
    }
    if (!fits(need)) begin_step();
    for (std::size_t r = 0; r < need.size(); ++r) used_[r] += need[r];
    staging_bytes_ = std::max(staging_bytes_, *std::ranges::max_element(used_));
    if (steps_.empty()) steps_.emplace_back();
    std::ranges::move(moves.moves, std::back_inserter(steps_.back().moves));
    std::ranges::move(moves.vacations, std::back_inserter(steps_.back().vacations));
    return {};
  }

  std::vector<Step> take_steps() { return std::move(steps_); }
  [[nodiscard]] std::size_t staging_bytes() const { return staging_bytes_; }

 private:
  [[nodiscard]] std::size_t num_ranks() const {
    return static_cast<std::size_t>(input_.topology.num_ranks());
  }

  [[nodiscard]] std::vector<std::size_t> staging_need(LayerId layer, const Step& moves) const {
    std::vector<std::size_t> need(num_ranks(), 0);
    for (const Move& move : moves.moves) {
      need[input_.topology.rank_of(move.destination).index()] +=
          staged_bytes(input_.bundle_bytes[layer.index()]);
    }
    return need;
  }

  [[nodiscard]] bool fits(const std::vector<std::size_t>& need) const {
    for (std::size_t r = 0; r < need.size(); ++r) {
      if (used_[r] + need[r] > input_.staging_budget_bytes) return false;
    }
    return true;
  }

  void begin_step() {
    steps_.emplace_back();
    used_.assign(num_ranks(), 0);
  }

  const ProgramInput& input_;
  std::vector<std::size_t> used_;  ///< Staging that the last step needs, by rank.
  std::vector<Step> steps_;
  std::size_t staging_bytes_ = 0;
};

ProgramCost cost_of(const std::vector<Step>& steps, const ProgramInput& input) {
  const Topology& topology = input.topology;
  ProgramCost cost;
  for (const Step& step : steps) {
    for (const Move& move : step.moves) {
      const std::size_t bytes = input.bundle_bytes[move.layer.index()];
      if (move.kind != MoveKind::local_copy) ++cost.slots_moved;
      if (move.kind != MoveKind::transfer) {
        cost.bytes_copied += bytes;
        continue;
      }
      cost.bytes_moved += bytes;
      const bool crosses = topology.node_of(topology.rank_of(move.source)) !=
                           topology.node_of(topology.rank_of(move.destination));
      if (crosses) cost.bytes_across_nodes += bytes;
    }
  }
  return cost;
}

void hash_topology(Checksum& sum, const Topology& topology) {
  sum.update_value(topology.num_ranks());
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    const RankInfo& info = topology.rank(rank);
    sum.update_value(info.node.value());
    sum.update_value(info.num_slots);
    sum.update_value(static_cast<std::uint8_t>(info.is_alive));
  }
}

void hash_placement(Checksum& sum, const Placement& placement) {
  sum.update_value(placement.num_experts());
  for (LayerId layer : ids<LayerId>(placement.num_layers()))
    sum.update(std::as_bytes(placement.layer(layer)));
}

void hash_step(Checksum& sum, const Step& step) {
  sum.update_value(step.moves.size());
  for (const Move& move : step.moves) {
    sum.update_value(move.layer.value());
    sum.update_value(move.expert.value());
    sum.update_value(move.source.value());
    sum.update_value(move.destination.value());
    sum.update_value(static_cast<std::uint8_t>(move.kind));
  }
  sum.update_value(step.vacations.size());
  for (const Vacation& vacation : step.vacations) {
    sum.update_value(vacation.layer.value());
    sum.update_value(vacation.slot.value());
  }
}

std::uint64_t hash_of(const Program& program, const ProgramInput& input) {
  Checksum sum;
  sum.update_value(program.epoch.value());
  hash_topology(sum, input.topology);
  hash_placement(sum, input.from);
  sum.update(std::as_bytes(input.bundle_bytes));
  sum.update_value(input.staging_budget_bytes);
  for (const Step& step : program.steps) hash_step(sum, step);
  return sum.digest();
}

}  // namespace

Result<Program> build_program(const ProgramInput& input) {
  if (Status checked = check_input(input); !checked) return failure(std::move(checked));
  MoveBuilder builder(input);
  StepPacker packer(input);
  for (LayerId layer : ids<LayerId>(input.from.num_layers())) {
    Result<Step> moves = builder.build_layer(layer);
    if (!moves) return failure(std::move(moves));
    if (moves->moves.empty() && moves->vacations.empty()) continue;
    if (Status added = packer.add(layer, std::move(*moves)); !added) return failure(std::move(added));
  }
  Program program;
  program.epoch = input.epoch;
  program.steps = packer.take_steps();
  program.staging_bytes = packer.staging_bytes();
  program.cost = cost_of(program.steps, input);
  program.hash = hash_of(program, input);
  return program;
}

Placement apply(const Placement& placement, const Step& step) {
  const auto width = static_cast<std::size_t>(placement.num_slots());
  std::vector<ExpertId> map;
  map.reserve(width * static_cast<std::size_t>(placement.num_layers()));
  for (LayerId layer : ids<LayerId>(placement.num_layers()))
    std::ranges::copy(placement.layer(layer), std::back_inserter(map));
  for (const Move& move : step.moves)
    map[move.layer.index() * width + move.destination.index()] = move.expert;
  for (const Vacation& vacation : step.vacations)
    map[vacation.layer.index() * width + vacation.slot.index()] = no_expert;
  Result<Placement> next =
      Placement::make(placement.num_layers(), placement.num_slots(), placement.num_experts(), std::move(map));
  TRIMTAB_ASSERT(next.has_value());
  return std::move(*next);
}

}  // namespace trimtab
