// SPDX-License-Identifier: Apache-2.0
#include <trimtab/balance/balancer.hpp>
#include <trimtab/core/assert.hpp>
#include <trimtab/plan/align.hpp>

#include <algorithm>

namespace trimtab {
namespace {

/// `planned`, but with the rows of `current` where the window saw no load: no news is no reason to move.
Placement keep_silent_layers(const Placement& current, const Placement& planned, const LoadMatrix& loads) {
  std::vector<ExpertId> map;
  for (LayerId layer : ids<LayerId>(current.num_layers())) {
    std::ranges::copy((loads.is_dense(layer) ? current : planned).layer(layer), std::back_inserter(map));
  }
  Result<Placement> kept =
      Placement::make(current.num_layers(), current.num_slots(), current.num_experts(), std::move(map));
  TRIMTAB_ASSERT(kept.has_value());
  return std::move(*kept);
}

}  // namespace

Balancer::Balancer(const BalancerOptions& options, Transport& channel, Recorder& recorder, Engine& engine,
                   const Topology& topology, Executor& executor, const Clock& clock)
    : options_(options),
      channel_(channel),
      recorder_(recorder),
      engine_(engine),
      topology_(topology),
      executor_(executor),
      clock_(clock) {}

Status Balancer::on_forward_completed() {
  if (++forwards_since_plan_ < options_.rebalance_every) return {};
  forwards_since_plan_ = 0;
  const Clock::time_point begun = clock_.now();
  Result<std::optional<LoadMatrix>> loads = reduce_counts();
  const Clock::time_point reduced = clock_.now();
  counters_.record += reduced - begun;
  if (!loads) return failure(std::move(loads));
  if (!*loads) return {};
  if (Status planned = plan_and_begin(**loads); !planned) last_problem_ = std::move(planned).error();
  counters_.plan += clock_.now() - reduced;
  return {};
}

/// This rank's window by expert, all epochs added up; each is folded with the placement it was counted under.
Result<std::vector<std::int64_t>> Balancer::take_counts() {
  const Placement& current = engine_.placement();
  std::vector<std::int64_t> counts(static_cast<std::size_t>(current.num_layers()) *
                                   static_cast<std::size_t>(current.num_experts()));
  for (const SlotCounts& window : recorder_.take_window(options_.context)) {
    const Placement* placement = engine_.placement_of(window.epoch);
    TRIMTAB_ASSERT(placement != nullptr);
    Result<ExpertCounts> folded = fold_counts(window, *placement);
    if (!folded) return failure(std::move(folded));
    std::ranges::transform(counts, folded->counts, counts.begin(), std::plus<>());
  }
  engine_.forget_before(engine_.health().epoch);
  return counts;
}

/// The counts of all ranks, or nothing when they cannot be planned from now. Whether a rank refuses or is
/// busy travels with the counts, so that all ranks decide alike.
Result<std::optional<LoadMatrix>> Balancer::reduce_counts() {
  const Placement& current = engine_.placement();
  Result<std::vector<std::int64_t>> counts = take_counts();
  const bool refuses = !counts;
  std::vector<std::int64_t> values;
  if (counts) {
    values = std::move(*counts);
  } else {
    last_problem_ = counts.error();
    values.resize(static_cast<std::size_t>(current.num_layers()) *
                  static_cast<std::size_t>(current.num_experts()));
  }
  values.push_back(refuses ? 1 : 0);
  values.push_back(engine_.is_idle() ? 0 : 1);
  if (Status reduced = all_reduce_sum(channel_, clock_, options_.collective, values); !reduced) {
    return failure(std::move(reduced));
  }
  const bool any_busy = values.back() != 0;
  values.pop_back();
  const bool any_refuses = values.back() != 0;
  values.pop_back();
  if (any_refuses) ++counters_.windows_refused;
  const bool is_empty = std::ranges::all_of(values, [](std::int64_t count) { return count == 0; });
  if (!any_refuses && (any_busy || is_empty)) ++counters_.windows_skipped;
  if (any_refuses || any_busy || is_empty) return std::nullopt;
  Result<LoadMatrix> loads = LoadMatrix::make(current.num_layers(), current.num_experts(),
                                              std::vector<double>(values.begin(), values.end()));
  if (!loads) return failure(std::move(loads));
  return std::move(*loads);
}

Status Balancer::plan_and_begin(const LoadMatrix& loads) {
  ++counters_.windows_planned;
  Result<Plan> plan = plan_rebalance(loads, topology_, options_.plan, executor_);
  if (!plan) return failure(std::move(plan));
  const Placement& current = engine_.placement();
  const Placement next = align_slots(current, keep_silent_layers(current, plan->placement, loads), topology_);
  Result<Program> program = build_program({.epoch = engine_.health().epoch,
                                           .from = current,
                                           .to = next,
                                           .topology = topology_,
                                           .bundle_bytes = options_.bundle_bytes,
                                           .staging_budget_bytes = options_.staging_budget_bytes});
  if (!program) return failure(std::move(program));
  if (program->steps.empty()) return {};
  ++counters_.programs_begun;
  return engine_.begin(std::move(*program));
}

}  // namespace trimtab
