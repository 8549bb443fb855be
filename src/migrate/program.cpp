// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/assert.hpp>
#include <trimtab/migrate/program.hpp>

#include "migrate/program_cost.hpp"
#include "migrate/program_hash.hpp"
#include "migrate/program_sources.hpp"
#include "migrate/program_steps.hpp"
#include "migrate/staging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trimtab {
namespace {

Status check_shapes(const ProgramInput& input) {
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

/// Whether `slot` can be filled as the new placement says.
Status check_fill(const ProgramInput& input, LayerId layer, SlotId slot) {
  const Topology& topology = input.topology;
  const ExpertId expert = input.to.expert_at(layer, slot);
  if (!topology.is_alive(slot)) {
    return failure(Errc::invalid_argument,
                   fmt::format("layer {}, slot {}: expert {} is placed on rank {}, which is dead",
                               layer.value(), slot.value(), expert.value(), topology.rank_of(slot).value()));
  }
  if (input.has_source || !is_without_copy(input, layer, expert)) return {};
  return failure(
      Errc::infeasible,
      fmt::format("layer {}: no live slot holds expert {}, which slot {} needs, and it has no source",
                  layer.value(), expert.value(), slot.value()));
}

Status check_layer(const ProgramInput& input, LayerId layer, bool& any_fill) {
  for (SlotId slot : ids<SlotId>(input.from.num_slots())) {
    const ExpertId goal = input.to.expert_at(layer, slot);
    if (goal == no_expert || goal == input.from.expert_at(layer, slot)) continue;
    if (Status checked = check_fill(input, layer, slot); !checked) return checked;
    any_fill = true;
  }
  return {};
}

/// One bundle of each layer that moves must fit; with it, everything does.
Status check_layers(const ProgramInput& input) {
  LayerId largest{0};
  std::size_t need = 0;
  for (LayerId layer : ids<LayerId>(input.from.num_layers())) {
    bool any_fill = false;
    if (Status checked = check_layer(input, layer, any_fill); !checked) return checked;
    const std::size_t staged = staged_bytes(input.bundle_bytes[layer.index()]);
    if (!any_fill || staged <= need) continue;
    largest = layer;
    need = staged;
  }
  if (need <= input.staging_budget_bytes) return {};
  return failure(
      Errc::infeasible,
      fmt::format("layer {}: one bundle of {} bytes needs {} bytes of staging > budget {}", largest.value(),
                  input.bundle_bytes[largest.index()], need, input.staging_budget_bytes));
}

}  // namespace

Result<std::size_t> stall_budget(std::chrono::nanoseconds stall, double copy_bytes_per_s) {
  if (!std::isfinite(copy_bytes_per_s) || copy_bytes_per_s <= 0.0) {
    return failure(Errc::invalid_argument,
                   fmt::format("a copy rate of {} bytes/s is not a positive number", copy_bytes_per_s));
  }
  if (stall.count() < 0)
    return failure(Errc::invalid_argument, fmt::format("a stall of {} ns is negative", stall.count()));
  constexpr double most = 0x1p53;  // Beyond, a double is not exact to the byte, and nobody has such slots.
  return static_cast<std::size_t>(
      std::min(most, static_cast<double>(stall.count()) * 1e-9 * copy_bytes_per_s));
}

Result<Program> build_program(const ProgramInput& input) {
  if (Status checked = check_shapes(input); !checked) return failure(std::move(checked));
  if (Status checked = check_layers(input); !checked) return failure(std::move(checked));
  StepBuilder builder(input);
  for (LayerId layer : ids<LayerId>(input.from.num_layers())) builder.add_layer(layer);
  Program program;
  program.epoch = input.epoch;
  program.steps = builder.take_steps();
  program.staging_bytes = builder.room().max_staging_bytes();
  program.stall_bytes = builder.room().max_stall_bytes();
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
