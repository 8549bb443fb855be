// SPDX-License-Identifier: Apache-2.0
#include "plan/group.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

namespace trimtab::test {
namespace {

using Loads = std::vector<double>;

double pressure_of(const std::vector<std::size_t>& node_of, const Loads& groups, const Loads& speeds) {
  Loads load(speeds.size(), 0.0);
  for (std::size_t g = 0; g < groups.size(); ++g) load[node_of[g]] += groups[g];
  double worst = 0.0;
  for (std::size_t n = 0; n < speeds.size(); ++n) worst = std::max(worst, load[n] / speeds[n]);
  return worst;
}

/// Over every order of the node list that has each node equally often.
double best_by_enumeration(const Loads& groups, const Loads& speeds) {
  std::vector<std::size_t> node_of;
  for (std::size_t g = 0; g < groups.size(); ++g) node_of.push_back(g * speeds.size() / groups.size());
  double best = std::numeric_limits<double>::infinity();
  do {
    best = std::min(best, pressure_of(node_of, groups, speeds));
  } while (std::next_permutation(node_of.begin(), node_of.end()));
  return best;
}

TEST(PackGroups, FindsWhatHeaviestFirstMisses) {
  // Heaviest first gives {9, 5, 1} and {7, 6, 4}, 15 and 17; {9, 6, 1} and {7, 5, 4} are level.
  const auto packing = pack_groups(Loads{9, 7, 6, 5, 4, 1}, Loads{1, 1});
  EXPECT_TRUE(packing.is_optimal);
  EXPECT_DOUBLE_EQ(packing.pressure, 16.0);
}

TEST(PackGroups, GivesEachNodeEquallyManyGroups) {
  const auto packing = pack_groups(Loads{100, 1, 1, 1, 1, 1}, Loads{1, 1, 1});
  for (NodeId node : ids<NodeId>(3)) {
    EXPECT_EQ(std::count(packing.node_of_group.begin(), packing.node_of_group.end(), node), 2);
  }
  EXPECT_DOUBLE_EQ(packing.pressure, 101.0);
}

TEST(PackGroups, IsOptimalForUpToEightGroups) {
  std::mt19937_64 random(3);
  std::lognormal_distribution<double> draw(5.0, 1.0);
  for (const std::size_t num_nodes : {1U, 2U, 4U, 8U}) {
    for (int repeat = 0; repeat < 5; ++repeat) {
      Loads groups(8);
      Loads speeds(num_nodes);
      std::generate(groups.begin(), groups.end(), [&] { return draw(random); });
      std::generate(speeds.begin(), speeds.end(), [&] { return repeat == 0 ? 1.0 : draw(random); });
      const auto packing = pack_groups(groups, speeds);
      EXPECT_TRUE(packing.is_optimal);
      EXPECT_NEAR(packing.pressure, best_by_enumeration(groups, speeds), 1e-9 * packing.pressure);
    }
  }
}

TEST(PackGroups, EndsOnManyGroupsAndSaysThatItGaveUp) {
  Loads groups(64);
  std::iota(groups.begin(), groups.end(), 1000.0);
  for (double& load : groups) load = load * load;
  const auto packing = pack_groups(groups, Loads(16, 1.0));
  EXPECT_FALSE(packing.is_optimal);
  const double mean = std::accumulate(groups.begin(), groups.end(), 0.0) / 16.0;
  EXPECT_LT(packing.pressure, 1.01 * mean);
}

}  // namespace
}  // namespace trimtab::test
