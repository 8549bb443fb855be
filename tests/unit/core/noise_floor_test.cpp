// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/noise_floor.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <vector>

namespace trimtab::test {
namespace {

/// Mean of max / mean over draws in which each assignment picks a rank by speed.
double sampled_floor(int assignments, const Topology& topology, int draws) {
  std::vector<double> speeds;
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    speeds.push_back(topology.is_alive(rank) ? topology.rank(rank).speed : 0.0);
  }
  std::mt19937_64 random(7);
  std::discrete_distribution<std::size_t> pick(speeds.begin(), speeds.end());
  double sum = 0.0;
  for (int draw = 0; draw < draws; ++draw) {
    std::vector<double> loads(speeds.size());
    for (int i = 0; i < assignments; ++i) loads[pick(random)] += 1.0;
    double most = 0.0;
    for (std::size_t r = 0; r < loads.size(); ++r) {
      if (speeds[r] > 0.0) most = std::max(most, loads[r] / speeds[r]);
    }
    sum += most / (assignments / topology.total_speed());
  }
  return sum / draws;
}

Topology equal_ranks(int ranks) { return *Topology::make_uniform(ranks, 1, ranks); }

TEST(NoiseFloor, OfTwoRanksIsTheKnownFormula) {
  EXPECT_NEAR(noise_floor(10000, equal_ranks(2)), 1.0 + std::sqrt(2.0 / (std::numbers::pi * 10000)), 1e-6);
}

TEST(NoiseFloor, IsWhatSamplingGives) {
  for (const auto& [ranks, per_rank] : {std::pair{8, 500}, {32, 200}, {72, 512}}) {
    const double excess = noise_floor(ranks * per_rank, equal_ranks(ranks)) - 1.0;
    const double sampled = sampled_floor(ranks * per_rank, equal_ranks(ranks), 300) - 1.0;
    EXPECT_NEAR(excess / sampled, 1.0, 0.06) << ranks << " ranks, " << per_rank << " each";
  }
}

TEST(NoiseFloor, WeighsRanksBySpeedAndLeavesDeadOnesOut) {
  const std::vector<RankInfo> ranks{{NodeId{0}, 1, 1.0, true},
                                    {NodeId{0}, 1, 0.25, true},
                                    {NodeId{0}, 1, 8.0, false},
                                    {NodeId{0}, 1, 1.0, true}};
  const Topology topology = *Topology::make(ranks);
  const double excess = noise_floor(2000, topology) - 1.0;
  EXPECT_NEAR(excess / (sampled_floor(2000, topology, 2000) - 1.0), 1.0, 0.06);
}

TEST(NoiseFloor, IsOneWhereNothingVaries) {
  EXPECT_EQ(noise_floor(1000, equal_ranks(1)), 1.0);
  EXPECT_EQ(noise_floor(0, equal_ranks(8)), 1.0);
}

}  // namespace
}  // namespace trimtab::test
