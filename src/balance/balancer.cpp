// SPDX-License-Identifier: Apache-2.0
#include <trimtab/balance/balancer.hpp>
#include <trimtab/core/assert.hpp>
#include <trimtab/plan/align.hpp>

#include <fmt/format.h>

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

std::size_t size_of(const Placement& placement) {
  return static_cast<std::size_t>(placement.num_layers()) * static_cast<std::size_t>(placement.num_experts());
}

bool is_zero(std::span<const std::int64_t> counts) {
  return std::ranges::all_of(counts, [](std::int64_t count) { return count == 0; });
}

}  // namespace

Balancer::Balancer(const BalancerOptions& options, Transport& channel, Recorder& recorder, Engine& engine,
                   TablePublisher& publisher, Executor& executor, const Clock& clock)
    : options_(options),
      channel_(channel),
      recorder_(recorder),
      engine_(engine),
      publisher_(publisher),
      executor_(executor),
      clock_(clock),
      counts_since_plan_(size_of(engine.placement())) {}

Status Balancer::on_forward_completed() {
  const bool splits = options_.split_every > 0 && ++forwards_since_split_ >= options_.split_every;
  const bool plans = ++forwards_since_plan_ >= options_.rebalance_every;
  if (!splits && !plans) return {};
  const Clock::time_point begun = clock_.now();
  const Result<Window> window = reduce_counts();
  counters_.record += clock_.now() - begun;
  if (!window) return tl::unexpected(window.error());
  if (window->is_refused) {
    ++counters_.windows_refused;
    was_refused_ = true;
  } else {
    std::ranges::transform(counts_since_plan_, window->counts, counts_since_plan_.begin(), std::plus<>());
  }
  if (splits) {
    forwards_since_split_ = 0;
    note(window->is_refused ? Status{} : change_shares(window->counts));
  }
  if (plans) note(rebalance(*window));
  return {};
}

void Balancer::note(Status status) {
  if (!status) last_problem_ = std::move(status).error();
}

/// New shares for the placement in service, whatever the engine has in hand: its commit brings its own.
Status Balancer::change_shares(std::span<const std::int64_t> counts) {
  if (is_zero(counts)) return {};
  const Clock::time_point begun = clock_.now();
  const Epoch epoch = engine_.health().epoch;
  if (!splitter_ || splitter_->epoch() != epoch) {
    Result<Splitter> made = Splitter::make(engine_.placement(), engine_.topology(), epoch);
    if (!made) return failure(std::move(made));
    splitter_ = std::move(*made);
  }
  const Result<TableIdentity> published = splitter_->solve_and_publish(counts, publisher_, executor_);
  counters_.split += clock_.now() - begun;
  if (!published) return tl::unexpected(published.error());
  ++counters_.splits_published;
  return {};
}

/// Plans from everything since the last plan, unless a program of that one still runs somewhere.
Status Balancer::rebalance(const Window& window) {
  const std::vector<std::int64_t> counts =
      std::exchange(counts_since_plan_, std::vector<std::int64_t>(counts_since_plan_.size()));
  const bool was_refused = std::exchange(was_refused_, false);
  forwards_since_plan_ = 0;
  if (window.is_busy || is_zero(counts)) {
    if (!was_refused) ++counters_.windows_skipped;
    return {};
  }
  const Clock::time_point begun = clock_.now();
  const Placement& current = engine_.placement();
  Result<LoadMatrix> loads = LoadMatrix::make(current.num_layers(), current.num_experts(),
                                              std::vector<double>(counts.begin(), counts.end()));
  if (!loads) return failure(std::move(loads));
  Status begins = plan_and_begin(*loads, counts);
  counters_.plan += clock_.now() - begun;
  return begins;
}

/// This rank's window by expert, all epochs added up; each is folded with the placement it was counted under.
Result<std::vector<std::int64_t>> Balancer::take_counts() {
  std::vector<std::int64_t> counts(size_of(engine_.placement()));
  for (const SlotCounts& window : recorder_.take_window(options_.context)) {
    const Placement* placement = engine_.placement_of(window.epoch);
    if (placement == nullptr) {
      return failure(
          Errc::version_mismatch,
          fmt::format("counted under epoch {}, which this rank has never committed", window.epoch.value()));
    }
    Result<ExpertCounts> folded = fold_counts(window, *placement);
    if (!folded) return failure(std::move(folded));
    std::ranges::transform(counts, folded->counts, counts.begin(), std::plus<>());
  }
  engine_.forget_before(engine_.health().epoch);
  return counts;
}

/// Whether a rank refuses its window or is busy travels with the counts, so that all ranks decide alike.
Result<Balancer::Window> Balancer::reduce_counts() {
  Result<std::vector<std::int64_t>> counts = take_counts();
  const bool refuses = !counts;
  if (refuses) last_problem_ = counts.error();
  std::vector<std::int64_t> values =
      refuses ? std::vector<std::int64_t>(size_of(engine_.placement())) : std::move(*counts);
  values.push_back(refuses ? 1 : 0);
  values.push_back(engine_.is_idle() ? 0 : 1);
  // What a view left half done never meets what the next one says.
  CollectiveOptions collective = options_.collective;
  collective.tag = Tag{collective.tag.value() + engine_.view().number};
  collective.members = engine_.view().members;
  if (Status reduced = all_reduce_sum(channel_, clock_, collective, values); !reduced) {
    return failure(std::move(reduced));
  }
  Window window;
  window.is_busy = values.back() != 0;
  values.pop_back();
  window.is_refused = values.back() != 0;
  values.pop_back();
  window.counts = std::move(values);
  return window;
}

Status Balancer::plan_and_begin(const LoadMatrix& loads, std::vector<std::int64_t> counts) {
  ++counters_.windows_planned;
  Result<Plan> plan = plan_rebalance(loads, engine_.topology(), options_.plan, executor_);
  if (!plan) return failure(std::move(plan));
  const Placement& current = engine_.placement();
  MigrationGoal goal{
      .to = align_slots(current, keep_silent_layers(current, plan->placement, loads), engine_.topology()),
      .stall_budget = options_.stall_budget};
  if (options_.split_every > 0) goal.tables = std::make_shared<SplitTables>(std::move(counts));
  const Result<bool> begun = engine_.begin_toward(std::move(goal));
  if (!begun) return tl::unexpected(begun.error());
  if (*begun) ++counters_.programs_begun;
  return {};
}

Status Balancer::enter_view() {
  static_cast<void>(recorder_.take_window(options_.context));
  std::ranges::fill(counts_since_plan_, 0);
  forwards_since_split_ = 0;
  forwards_since_plan_ = 0;
  was_refused_ = false;
  splitter_.reset();
  return engine_.view().lost.empty() ? Status{} : begin_recovery();
}

/// Counts may differ from rank to rank now: a reduction that was under way may have ended on some.
Status Balancer::begin_recovery() {
  const Placement& current = engine_.placement();
  Result<LoadMatrix> alike = LoadMatrix::make(current.num_layers(), current.num_experts(),
                                              std::vector<double>(size_of(current), 1.0));
  if (!alike) return failure(std::move(alike));
  Result<Plan> plan = plan_rebalance(*alike, engine_.topology(), options_.plan, executor_);
  if (!plan) return failure(std::move(plan));
  const Result<bool> begun =
      engine_.begin_toward({.to = align_slots(current, plan->placement, engine_.topology())});
  if (!begun) return tl::unexpected(begun.error());
  if (*begun) ++counters_.programs_begun;
  return {};
}

}  // namespace trimtab
