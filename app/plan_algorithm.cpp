// SPDX-License-Identifier: Apache-2.0
#include "app/plan_algorithm.hpp"

#include "app/commands.hpp"

#include <algorithm>

namespace trimtab {
namespace {

bool is_inside(LayerId layer, LayerRange range) {
  return range.first <= layer.value() && layer.value() < range.last;
}

Result<LoadMatrix> rows_of(const LoadMatrix& loads, LayerRange range) {
  std::vector<double> rows;
  for (std::int32_t layer = range.first; layer < range.last; ++layer) {
    const auto row = loads.layer(LayerId{layer});
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return LoadMatrix::make(range.last - range.first, loads.num_experts(), std::move(rows));
}

/// `part` at its place among all layers.
Result<Plan> embed(const Plan& part, LayerRange range, std::int32_t num_layers, const Placement& identity) {
  std::vector<ExpertId> map;
  std::vector<LayerReport> reports;
  for (LayerId layer : ids<LayerId>(num_layers)) {
    LayerReport report{.layer = layer, .is_dense = true};
    auto row = identity.layer(LayerId{0});
    if (is_inside(layer, range)) {
      const LayerId planned{layer.value() - range.first};
      report = part.layers[planned.index()];
      report.layer = layer;
      row = part.placement.layer(planned);
    }
    reports.push_back(report);
    map.insert(map.end(), row.begin(), row.end());
  }
  Result<Placement> placement =
      Placement::make(num_layers, identity.num_slots(), identity.num_experts(), std::move(map));
  if (!placement) return failure(std::move(placement));
  return Plan{*std::move(placement), std::move(reports), part.locality};
}

}  // namespace

const std::map<std::string, Algorithm>& algorithms() {
  static const std::map<std::string, Algorithm> by_name = [] {
    std::map<std::string, Algorithm> result{{"native", std::nullopt}};
    for (CompatPlanner planner : {CompatPlanner::deepseek, CompatPlanner::trtllm, CompatPlanner::vllm}) {
      result.emplace(to_string(planner), planner);
    }
    return result;
  }();
  return by_name;
}

Result<Plan> plan_rows_like(CompatPlanner planner, const LoadMatrix& loads, LayerRange range,
                            const Topology& topology, const PlanOptions& options, Executor& executor) {
  Result<LoadMatrix> rows = rows_of(loads, range);
  if (!rows) return failure(std::move(rows));
  Result<Plan> part = plan_like(planner, *rows, topology, options, executor);
  if (!part && part.error().code == Errc::invalid_argument) {
    usage_error("--algorithm", part.error().message);
  }
  if (!part || rows->num_layers() == loads.num_layers()) return part;
  Result<Placement> identity = Placement::identity(1, topology.num_slots(), loads.num_experts());
  if (!identity) return failure(std::move(identity));
  return embed(*part, range, loads.num_layers(), *identity);
}

}  // namespace trimtab
