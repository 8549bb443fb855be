// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/imbalance.hpp>
#include <trimtab/split/split_plan.hpp>
#include <trimtab/split/split_solver.hpp>

#include "split/fewest_assignments.hpp"
#include "split/group_owners.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace trimtab {
namespace {

constexpr int scaled_exponent = 40;

Status check(const LoadMatrix& loads, const Placement& placement, const Topology& topology,
             const SplitOptions& options) {
  if (loads.num_layers() != placement.num_layers() || loads.num_experts() != placement.num_experts()) {
    return failure(Errc::invalid_argument,
                   fmt::format("loads of {} layers x {} experts, placement of {} x {}", loads.num_layers(),
                               loads.num_experts(), placement.num_layers(), placement.num_experts()));
  }
  if (!std::isfinite(options.shared_tokens) || options.shared_tokens < 0.0) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} shared-expert tokens per assignment: must be finite and "
                               "at least 0",
                               options.shared_tokens));
  }
  if (options.num_groups < 1 || loads.num_experts() % options.num_groups != 0) {
    return failure(Errc::invalid_argument, fmt::format("{} groups do not divide {} experts",
                                                       options.num_groups, loads.num_experts()));
  }
  if (options.min_assignments < 0) {
    return failure(
        Errc::invalid_argument,
        fmt::format("at least {} assignments per replica: must not be negative", options.min_assignments));
  }
  return check_live(placement, topology);
}

/// Loads in whole units of 2^-exponent assignments.
struct WholeLoads {
  std::vector<std::int64_t> loads;
  int exponent = 0;

  [[nodiscard]] double in_assignments(double units) const { return std::ldexp(units, -exponent); }
  [[nodiscard]] std::int64_t in_units(std::int64_t assignments) const {
    const double units = std::ceil(std::ldexp(static_cast<double>(assignments), exponent));
    return static_cast<std::int64_t>(std::min(units, static_cast<double>(max_split_total)));
  }
};

WholeLoads make_whole(std::span<const double> loads, double total) {
  const bool are_whole =
      std::all_of(loads.begin(), loads.end(), [](double load) { return load == std::floor(load); });
  WholeLoads whole;
  if (!are_whole || total > static_cast<double>(max_split_total)) {
    whole.exponent = scaled_exponent - std::ilogb(total);
  }
  for (double load : loads) whole.loads.push_back(std::llround(std::ldexp(load, whole.exponent)));
  return whole;
}

/// Splits one layer at a time into its row of the assignments.
struct Splitting {
  const LoadMatrix& loads;
  const Placement& placement;
  const Topology& topology;
  const SplitOptions& options;
  std::vector<std::int64_t> assignments;
  std::vector<LayerSplit> layers;
  std::vector<Status> statuses;  ///< By layer.

  void run(LayerId layer);
  void solve(std::span<const ExpertId> row, LayerSplit& report);
  void report_even(std::span<const ExpertId> row, LayerSplit& report) const;
};

void Splitting::run(LayerId layer) {
  LayerSplit& report = layers[layer.index()];
  report.layer = layer;
  report.is_dense = loads.is_dense(layer);
  if (report.is_dense) return;
  if (options.num_groups == 1) return solve(placement.layer(layer), report);
  Result<std::vector<ExpertId>> owned =
      keep_owned_slots(placement.layer(layer), placement.num_experts(), options.num_groups, topology);
  if (owned) {
    solve(*owned, report);
  } else {
    statuses[layer.index()] =
        failure(owned.error().code, fmt::format("layer {}: {}", layer.value(), owned.error().message));
  }
}

void Splitting::solve(std::span<const ExpertId> row, LayerSplit& report) {
  const WholeLoads whole = make_whole(loads.layer(report.layer), loads.total(report.layer));
  const auto width = static_cast<std::size_t>(placement.num_slots());
  const auto own = std::span(assignments).subspan(report.layer.index() * width, width);
  // Sizes, live slots and loads were checked, so nothing here fails.
  SplitSolver solver = SplitSolver::make(row, placement.num_experts(), topology).value();
  const SplitResult result = solver.solve(whole.loads, own).value();
  report.optimum = whole.in_assignments(result.optimum);
  report.max_pressure = whole.in_assignments(result.max_pressure);
  report.tight_ranks.assign(result.tight_ranks.begin(), result.tight_ranks.end());
  report.tight_experts.assign(result.tight_experts.begin(), result.tight_experts.end());
  if (options.min_assignments > 1) {
    const CoarseSplit coarse =
        raise_smallest_shares(row, whole.loads, topology, whole.in_units(options.min_assignments), own);
    report.max_pressure = whole.in_assignments(coarse.max_pressure);
    report.num_given_up = coarse.num_given_up;
  }
  report_even(row, report);
}

void Splitting::report_even(std::span<const ExpertId> row, LayerSplit& report) const {
  const Imbalance even =
      compute_imbalance(compute_rank_loads(loads.layer(report.layer), row, topology), topology);
  report.even = even.max_over_mean();
  report.exact = std::max(1.0, report.optimum / even.mean);
  report.waterfilled = std::max(1.0, report.exact / (1.0 + options.shared_tokens));
}

}  // namespace

Result<SplitPlan> solve_split(const LoadMatrix& loads, const Placement& placement, const Topology& topology,
                              const SplitOptions& options, Executor& executor) {
  if (Status checked = check(loads, placement, topology, options); !checked)
    return failure(std::move(checked));
  const auto num_layers = static_cast<std::size_t>(placement.num_layers());
  Splitting splitting{loads,
                      placement,
                      topology,
                      options,
                      {},
                      std::vector<LayerSplit>(num_layers),
                      std::vector<Status>(num_layers)};
  splitting.assignments.assign(num_layers * static_cast<std::size_t>(placement.num_slots()), 0);
  executor.for_each_index(num_layers,
                          [&](std::size_t i) { splitting.run(LayerId{static_cast<LayerId::rep>(i)}); });
  for (Status& status : splitting.statuses) {
    if (!status) return failure(std::move(status));
  }
  Result<Split> split =
      Split::make(placement.num_layers(), placement.num_slots(), std::move(splitting.assignments));
  if (!split) return failure(std::move(split));
  return SplitPlan{std::move(*split), std::move(splitting.layers)};
}

}  // namespace trimtab
