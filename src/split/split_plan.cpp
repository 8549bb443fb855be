// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/imbalance.hpp>
#include <trimtab/split/split_plan.hpp>
#include <trimtab/split/split_solver.hpp>

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
  return check_live(placement, topology);
}

/// Loads in whole units, and how many units an assignment has.
struct WholeLoads {
  std::vector<std::int64_t> loads;
  double per_assignment = 1.0;
};

WholeLoads make_whole(std::span<const double> loads, double total) {
  const bool are_whole =
      std::all_of(loads.begin(), loads.end(), [](double load) { return load == std::floor(load); });
  WholeLoads whole;
  if (!are_whole || total > static_cast<double>(max_split_total)) {
    whole.per_assignment = std::ldexp(1.0, std::min(scaled_exponent - std::ilogb(total), 1000));
  }
  for (double load : loads) whole.loads.push_back(std::llround(load * whole.per_assignment));
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

  void run(LayerId layer);
  void solve(LayerId layer, LayerSplit& report);
  [[nodiscard]] Imbalance compute_even(LayerId layer) const {
    return compute_imbalance(compute_rank_loads(loads.layer(layer), placement.layer(layer), topology),
                             topology);
  }
};

void Splitting::run(LayerId layer) {
  LayerSplit& report = layers[layer.index()];
  report.layer = layer;
  report.is_dense = loads.is_dense(layer);
  if (!report.is_dense) solve(layer, report);
}

void Splitting::solve(LayerId layer, LayerSplit& report) {
  const WholeLoads whole = make_whole(loads.layer(layer), loads.total(layer));
  const auto width = static_cast<std::size_t>(placement.num_slots());
  // Checked before: sizes, live slots and loads are right.
  SplitSolver solver = SplitSolver::make(placement.layer(layer), placement.num_experts(), topology).value();
  const SplitResult result =
      solver.solve(whole.loads, std::span(assignments).subspan(layer.index() * width, width)).value();
  report.optimum = result.optimum / whole.per_assignment;
  report.max_pressure = result.max_pressure / whole.per_assignment;
  report.tight_ranks.assign(result.tight_ranks.begin(), result.tight_ranks.end());
  report.tight_experts.assign(result.tight_experts.begin(), result.tight_experts.end());

  const Imbalance even = compute_even(layer);
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
  Splitting splitting{loads, placement, topology, options, {}, std::vector<LayerSplit>(num_layers)};
  splitting.assignments.assign(num_layers * static_cast<std::size_t>(placement.num_slots()), 0);
  executor.for_each_index(num_layers,
                          [&](std::size_t i) { splitting.run(LayerId{static_cast<LayerId::rep>(i)}); });
  Result<Split> split =
      Split::make(placement.num_layers(), placement.num_slots(), std::move(splitting.assignments));
  if (!split) return failure(std::move(split));
  return SplitPlan{std::move(*split), std::move(splitting.layers)};
}

}  // namespace trimtab
