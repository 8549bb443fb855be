// SPDX-License-Identifier: Apache-2.0
#include "plan/group.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

namespace trimtab::test {
namespace {

using Loads = std::vector<double>;

double pressure_of(const std::vector<NodeId>& node_of, const Loads& groups, const Loads& speeds) {
  Loads load(speeds.size(), 0.0);
  for (std::size_t g = 0; g < groups.size(); ++g) load[node_of[g].index()] += groups[g];
  double worst = 0.0;
  for (std::size_t n = 0; n < speeds.size(); ++n) worst = std::max(worst, load[n] / speeds[n]);
  return worst;
}

/// The optimum by dynamic programming: [set of groups] least pressure of the first nodes that hold just them.
double best_by_table(const Loads& groups, const Loads& speeds) {
  const std::size_t num_sets = std::size_t{1} << groups.size();
  const int per_node = static_cast<int>(groups.size() / speeds.size());
  std::vector<std::size_t> parts;
  std::vector<double> load(num_sets, 0.0);
  for (std::size_t set = 1; set < num_sets; ++set) {
    const std::size_t rest = set & (set - 1);
    load[set] = load[rest] + groups[static_cast<std::size_t>(std::countr_zero(set))];
    if (std::popcount(set) == per_node) parts.push_back(set);
  }
  std::vector<double> best(num_sets, std::numeric_limits<double>::infinity());
  best[0] = 0.0;
  for (std::size_t set = 0; set + 1 < num_sets; ++set) {
    if (best[set] == std::numeric_limits<double>::infinity()) continue;
    const double speed = speeds[static_cast<std::size_t>(std::popcount(set) / per_node)];
    const auto add = [&](std::size_t part) {
      best[set | part] = std::min(best[set | part], std::max(best[set], load[part] / speed));
    };
    const std::size_t left = ~set & (num_sets - 1);
    if (std::popcount(left) == per_node) {
      add(left);
      continue;
    }
    for (std::size_t part : parts) {
      if ((part & set) == 0) add(part);
    }
  }
  return best.back();
}

void expect_optimal(const Loads& groups, const Loads& speeds) {
  const GroupPacking packing = pack_groups(groups, speeds);
  const double best = best_by_table(groups, speeds);
  EXPECT_TRUE(packing.is_optimal);
  EXPECT_EQ(packing.bound, packing.pressure);
  EXPECT_NEAR(packing.pressure, best, 1e-11 * best);
  EXPECT_NEAR(pressure_of(packing.node_of_group, groups, speeds), packing.pressure, 1e-12 * best);
  for (NodeId node : ids<NodeId>(speeds.size())) {
    EXPECT_EQ(std::count(packing.node_of_group.begin(), packing.node_of_group.end(), node),
              std::ssize(groups) / std::ssize(speeds));
  }
}

Loads drawn(std::size_t size, const std::function<double()>& draw) {
  Loads loads(size);
  std::generate(loads.begin(), loads.end(), draw);
  return loads;
}

/// Loads that are hard in different ways.
std::vector<std::pair<const char*, Loads>> hard_loads(std::size_t size, std::mt19937_64& random) {
  std::lognormal_distribution<double> skewed(5.0, 1.0);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  std::uniform_int_distribution<int> small(0, 3);
  std::vector<std::pair<const char*, Loads>> cases{
      {"skewed", drawn(size, [&] { return skewed(random); })},
      {"nearly equal", drawn(size, [&] { return 1e6 + uniform(random); })},
      {"equal to ten digits", drawn(size, [&] { return 1.0 + 1e-10 * uniform(random); })},
      {"tied", drawn(size, [&] { return small(random); })},
      {"steep", drawn(size, [&] { return std::exp2(12.0 * uniform(random)); })},
      {"zero", Loads(size, 0.0)},
      {"equal", Loads(size, 7.0)}};
  Loads one(size, 0.0);
  one[size / 2] = 3.0;
  cases.emplace_back("one alone", one);
  return cases;
}

struct Shape {
  std::size_t groups, nodes;
};

class PackGroupsOfShape : public ::testing::TestWithParam<Shape> {};

TEST_P(PackGroupsOfShape, IsOptimalOnNodesOfOneSpeed) {
  const auto [num_groups, num_nodes] = GetParam();
  std::mt19937_64 random(num_groups * 100 + num_nodes);
  for (const auto& [name, groups] : hard_loads(num_groups, random)) {
    SCOPED_TRACE(name);
    expect_optimal(groups, Loads(num_nodes, 2.0));
  }
}

TEST_P(PackGroupsOfShape, IsOptimalOnNodesOfUnequalSpeed) {
  const auto [num_groups, num_nodes] = GetParam();
  std::mt19937_64 random(num_groups * 100 + num_nodes);
  std::uniform_real_distribution<double> uniform(0.5, 2.0);
  for (const auto& [name, groups] : hard_loads(num_groups, random)) {
    SCOPED_TRACE(name);
    expect_optimal(groups, drawn(num_nodes, [&] { return uniform(random); }));
    Loads two_kinds(num_nodes, 1.0);
    two_kinds[num_nodes / 2] = 1.5;
    expect_optimal(groups, two_kinds);
  }
}

INSTANTIATE_TEST_SUITE_P(, PackGroupsOfShape,
                         ::testing::Values(Shape{1, 1}, Shape{4, 2}, Shape{6, 3}, Shape{8, 1}, Shape{8, 2},
                                           Shape{8, 4}, Shape{8, 8}, Shape{9, 3}, Shape{10, 5}, Shape{12, 2},
                                           Shape{12, 3}, Shape{12, 4}, Shape{12, 6}, Shape{14, 7},
                                           Shape{15, 3}, Shape{15, 5}, Shape{16, 2}, Shape{16, 4},
                                           Shape{16, 8}),
                         [](const auto& shape) {
                           return fmt::format("{}on{}", shape.param.groups, shape.param.nodes);
                         });

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

TEST(PackGroups, ProvesManyGroupsWhereTheCaseIsEasy) {
  Loads groups(64);
  std::iota(groups.begin(), groups.end(), 1.0);
  EXPECT_DOUBLE_EQ(pack_groups(groups, Loads(32, 1.0)).pressure, 65.0);
  EXPECT_TRUE(pack_groups(groups, Loads(32, 1.0)).is_optimal);
  EXPECT_TRUE(pack_groups(groups, Loads(64, 1.0)).is_optimal);
  EXPECT_TRUE(pack_groups(groups, Loads{3.0}).is_optimal);
  EXPECT_TRUE(pack_groups(Loads(64, 5.0), Loads(16, 1.0)).is_optimal);
}

TEST(PackGroups, DoesNotCallProvenWhatIsNot) {
  Loads groups(64);
  std::iota(groups.begin(), groups.end(), 1000.0);
  for (double& load : groups) load = std::sqrt(load);  // no four of them have a mean sum
  const auto packing = pack_groups(groups, Loads(16, 1.0));
  EXPECT_FALSE(packing.is_optimal);
  EXPECT_LT(packing.bound, packing.pressure);
}

TEST(PackGroups, EndsOnManyGroupsNearTheBound) {
  std::mt19937_64 random(5);
  std::lognormal_distribution<double> draw(5.0, 0.5);
  for (const Shape shape : {Shape{24, 8}, Shape{32, 4}, Shape{32, 8}, Shape{64, 8}, Shape{64, 16}}) {
    const Loads groups = drawn(shape.groups, [&] { return draw(random); });
    const auto packing = pack_groups(groups, Loads(shape.nodes, 1.0));
    EXPECT_EQ(packing.is_optimal, packing.pressure == packing.bound);
    EXPECT_LE(packing.pressure, 1.005 * packing.bound) << shape.groups << " on " << shape.nodes;
    EXPECT_NEAR(pressure_of(packing.node_of_group, groups, Loads(shape.nodes, 1.0)), packing.pressure, 1e-9);
  }
}

TEST(PackGroups, GivesTheHeaviestGroupTheFastestNodeThatSuitsIt) {
  const auto packing = pack_groups(Loads{1, 8, 2}, Loads{2, 1, 8});
  EXPECT_EQ(packing.node_of_group, (std::vector{NodeId{1}, NodeId{2}, NodeId{0}}));
  EXPECT_DOUBLE_EQ(packing.pressure, 1.0);
}

}  // namespace
}  // namespace trimtab::test
