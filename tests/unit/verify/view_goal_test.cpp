// SPDX-License-Identifier: Apache-2.0
#include "verify/view_goal.hpp"

#include <gtest/gtest.h>

namespace trimtab::verify {
namespace {

Topology three_ranks(bool is_last_alive) {
  std::vector<RankInfo> ranks(3, {NodeId{0}, 2, 1.0, true});
  ranks[2].is_alive = is_last_alive;
  return Topology::make(std::move(ranks)).value();
}

Placement one_layer(std::int32_t num_experts, const std::vector<std::int32_t>& experts) {
  std::vector<ExpertId> map;
  for (std::int32_t expert : experts) map.emplace_back(expert);
  return Placement::make(1, static_cast<std::int32_t>(experts.size()), num_experts, std::move(map)).value();
}

TEST(GoalAmongLiving, IsTheTargetWhereAllLive) {
  const Placement target = one_layer(3, {0, 1, 2, -1, 1, 0});
  EXPECT_EQ(goal_among_living(target, three_ranks(true)), target);
}

TEST(GoalAmongLiving, TakesVacantSlotsFirstAndThenThoseThatCanBeSpared) {
  EXPECT_EQ(goal_among_living(one_layer(4, {0, 0, 1, -1, 2, 3}), three_ranks(false)),
            one_layer(4, {3, 0, 1, 2, -1, -1}));
}

TEST(GoalAmongLiving, DoesNotExistWhereSlotsAreTooFew) {
  EXPECT_EQ(goal_among_living(one_layer(5, {0, 1, 2, 3, 4, 0}), three_ranks(false)), std::nullopt);
}

}  // namespace
}  // namespace trimtab::verify
