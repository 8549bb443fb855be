// SPDX-License-Identifier: Apache-2.0
#include "report/graph_report.hpp"

#include <trimtab/plan/replica_graph.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace trimtab {

std::string add_replica_graphs(nlohmann::ordered_json& document, const Plan& plan, const Topology& topology) {
  double components = 0.0;
  std::int32_t most = 0;
  std::int32_t fewest_links = 0;
  std::int32_t most_links = 0;
  auto& layers = document.at("layers");
  for (auto& entry : layers) {
    const LayerId layer{entry.at("layer").get<LayerId::rep>()};
    const ReplicaGraph graph = make_replica_graph(plan.placement.layer(layer), topology);
    entry["components"] = graph.num_components();
    entry["links_min"] = graph.links.min;
    entry["links_mean"] = graph.links.mean;
    entry["links_max"] = graph.links.max;
    components += graph.num_components();
    fewest_links = &entry == &layers.front() ? graph.links.min : std::min(fewest_links, graph.links.min);
    most = std::max(most, graph.num_components());
    most_links = std::max(most_links, graph.links.max);
  }
  if (layers.empty()) return "";
  components /= static_cast<double>(layers.size());
  document.at("summary")["components_mean"] = components;
  document.at("summary")["components_worst"] = most;
  return fmt::format(
      "replicas   connect the ranks into {:.1f} components (at most {}), {} to {} links per rank\n",
      components, most, fewest_links, most_links);
}

}  // namespace trimtab
