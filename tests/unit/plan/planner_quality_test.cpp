// SPDX-License-Identifier: Apache-2.0
//
// How even plans are at the size of a real service: 58 sparse layers of 256 experts, 288 slots on 32 ranks.
// On generated loads always; on recorded ones where TRIMTAB_LOADS_DIR names a folder of
// `{"logical_count": [layers][experts]}` files.
#include <trimtab/plan/planner.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/generated_loads.hpp"
#include "support/plan_checks.hpp"

namespace trimtab::test {
namespace {

struct Summary {
  double mean = 0.0;
  double worst = 1.0;
};

Summary summarise(const Plan& plan) {
  Summary summary;
  double layers = 0.0;
  for (const LayerReport& report : plan.layers) {
    if (report.is_dense) continue;
    summary.mean += report.imbalance;
    summary.worst = std::max(summary.worst, report.imbalance);
    layers += 1.0;
  }
  summary.mean /= layers;
  return summary;
}

void expect_even(const LoadMatrix& loads) {
  const auto topology = Topology::make_uniform(32, 4, 288).value();
  const PlanOptions options{.locality = Locality::none};
  const Plan plan = plan_of(loads, topology, options);
  EXPECT_EQ(broken_promise(plan, loads, topology, options), "");
  EXPECT_LE(summarise(plan).mean, 1.012);
  EXPECT_LE(summarise(plan).worst, 1.05);
  for (const LayerReport& report : plan.layers) {
    EXPECT_EQ(report.is_dense ? 0 : report.duplicates_on_rank, 0);
  }
}

std::vector<std::filesystem::path> recorded_loads() {
  std::vector<std::filesystem::path> files;
  const char* folder = std::getenv("TRIMTAB_LOADS_DIR");
  if (folder == nullptr || !std::filesystem::is_directory(folder)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("deepseek-v3_")) files.push_back(entry.path());
  }
  return files;
}

LoadMatrix read_loads(const std::filesystem::path& file) {
  std::ifstream stream(file);
  const auto rows = nlohmann::json::parse(stream).at("logical_count").get<std::vector<std::vector<double>>>();
  std::vector<double> values;
  for (const auto& row : rows) values.insert(values.end(), row.begin(), row.end());
  const LoadShape shape{static_cast<std::int32_t>(rows.size()), static_cast<std::int32_t>(rows[0].size())};
  return loads_of(shape, std::move(values));
}

TEST(PlanQuality, IsEvenOnGeneratedLoads) {
  for (std::uint64_t seed : {1U, 2U, 3U}) expect_even(outlier_loads({58, 256}, 0.6, seed));
}

TEST(PlanQuality, IsEvenOnRecordedLoads) {
  const auto files = recorded_loads();
  if (files.empty()) GTEST_SKIP() << "TRIMTAB_LOADS_DIR names no folder with deepseek-v3_* files";
  for (const auto& file : files) {
    SCOPED_TRACE(file.filename());
    expect_even(read_loads(file));
  }
}

// What is left above the bound in the group-strict plan must be small; the node floor itself is not the
// planner's.
TEST(PlanQuality, StaysNearTheNodeFloorByGroup) {
  const auto loads = outlier_loads({58, 256}, 0.6, 1);
  const Plan plan = plan_of(loads, Topology::make_uniform(32, 4, 288).value(), {.num_groups = 8});
  double gap = 0.0;
  for (const LayerReport& report : plan.layers) gap += report.imbalance / report.bound - 1.0;
  EXPECT_LE(gap / 58.0, 0.01);
}

}  // namespace
}  // namespace trimtab::test
