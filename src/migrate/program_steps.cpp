// SPDX-License-Identifier: Apache-2.0
#include "migrate/program_steps.hpp"

#include "migrate/program_rounds.hpp"

#include <trimtab/core/assert.hpp>

#include <algorithm>

namespace trimtab {
namespace {

/// The first takes the place of staging for the second, so one bundle of staging is enough.
void append_exchange(LayerId layer, std::span<const ExpertId> row, const Exchange& exchange,
                     std::vector<Move>& moves) {
  const auto [first, second] = exchange;
  moves.push_back({layer, row[second.index()], second, first, MoveKind::local_copy});
  moves.push_back({layer, row[first.index()], first, second, MoveKind::displaced});
}

}  // namespace

StepBuilder::StepBuilder(const ProgramInput& input)
    : input_(input),
      sources_(input),
      room_(input),
      counts_(static_cast<std::size_t>(input.topology.num_ranks()), 0) {}

void StepBuilder::add_layer(LayerId layer) {
  std::vector<SlotId> fills;
  std::vector<Vacation> vacations;
  for (SlotId slot : ids<SlotId>(input_.from.num_slots())) {
    const ExpertId goal = input_.to.expert_at(layer, slot);
    if (goal == input_.from.expert_at(layer, slot)) continue;
    if (goal == no_expert)
      vacations.push_back({layer, slot});
    else
      fills.push_back(slot);
  }
  if (fills.empty() && vacations.empty()) return;
  if (steps_.empty()) begin_step();
  if (fits(layer, fills))
    add_whole(layer, fills);
  else
    add_cut(layer);
  // A vacant slot needs no bytes, and what it holds may serve as a source until everything else is done.
  std::ranges::copy(vacations, std::back_inserter(steps_.back().vacations));
}

/// Counts what the layer writes on each rank, and begins a step when only an empty one takes it whole.
bool StepBuilder::fits(LayerId layer, std::span<const SlotId> fills) {
  const std::size_t bytes = input_.bundle_bytes[layer.index()];
  std::ranges::fill(counts_, 0);
  for (SlotId slot : fills) ++counts_[input_.topology.rank_of(slot).index()];
  if (std::ranges::max(counts_) > room_.max_count(bytes)) return false;
  bool fits_here = true;
  for (Rank rank : ids<Rank>(counts_.size()))
    fits_here = fits_here && room_.fits(rank, bytes, counts_[rank.index()]);
  if (!fits_here) begin_step();
  return true;
}

void StepBuilder::add_whole(LayerId layer, std::span<const SlotId> fills) {
  for (Rank rank : ids<Rank>(counts_.size()))
    room_.take(rank, input_.bundle_bytes[layer.index()], counts_[rank.index()]);
  append(layer, input_.from.layer(layer), {.fills = {fills.begin(), fills.end()}, .exchanges = {}});
}

void StepBuilder::add_cut(LayerId layer) {
  LayerCutter cutter(input_, layer);
  bool is_empty_step = false;
  for (;;) {
    const LayerPart part = cutter.next(room_);
    TRIMTAB_ASSERT(!part.is_empty() || !is_empty_step);
    append(layer, cutter.row(), part);
    cutter.commit(part);
    if (cutter.is_done()) return;
    begin_step();
    is_empty_step = true;
  }
}

void StepBuilder::append(LayerId layer, std::span<const ExpertId> row, const LayerPart& part) {
  std::vector<Move>& moves = steps_.back().moves;
  const auto begin = static_cast<std::ptrdiff_t>(moves.size());
  sources_.choose(layer, row, part.fills, moves);
  for (const Exchange& exchange : part.exchanges) append_exchange(layer, row, exchange, moves);
  std::ranges::sort(moves.begin() + begin, moves.end(), {}, &Move::destination);
}

void StepBuilder::begin_step() {
  steps_.emplace_back();
  room_.clear();
}

std::vector<Step> StepBuilder::take_steps() {
  for (Step& step : steps_) assign_rounds(step, input_.topology);
  return std::move(steps_);
}

}  // namespace trimtab
