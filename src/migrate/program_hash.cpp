// SPDX-License-Identifier: Apache-2.0
#include "migrate/program_hash.hpp"

#include <trimtab/core/checksum.hpp>

namespace trimtab {
namespace {

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
    sum.update_value(move.round);
  }
  sum.update_value(step.vacations.size());
  for (const Vacation& vacation : step.vacations) {
    sum.update_value(vacation.layer.value());
    sum.update_value(vacation.slot.value());
  }
}

}  // namespace

std::uint64_t hash_of(const Program& program, const ProgramInput& input) {
  Checksum sum;
  sum.update_value(program.epoch.value());
  hash_topology(sum, input.topology);
  hash_placement(sum, input.from);
  sum.update(std::as_bytes(input.bundle_bytes));
  sum.update_value(input.staging_budget_bytes);
  sum.update_value(static_cast<std::uint8_t>(input.stall_budget_bytes.has_value()));
  sum.update_value(input.stall_budget_bytes.value_or(0));
  for (const Step& step : program.steps) hash_step(sum, step);
  return sum.digest();
}

}  // namespace trimtab
