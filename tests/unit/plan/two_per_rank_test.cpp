// SPDX-License-Identifier: Apache-2.0
#include "plan/two_per_rank.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace trimtab::test {
namespace {

struct Pairs {
  explicit Pairs(std::vector<double> l, std::int32_t num_ranks)
      : loads(std::move(l)), topology(Topology::make_uniform(num_ranks, 1, 2 * num_ranks).value()) {
    for (ExpertId e : ids<ExpertId>(loads.size())) region.experts.push_back(e);
    region.ranks = usable_ranks(topology);
  }
  /// Heaviest pair when heaviest goes with lightest.
  [[nodiscard]] double heaviest(const std::vector<std::int32_t>& counts) const {
    std::vector<double> shares;
    for (std::size_t e = 0; e < loads.size(); ++e) {
      shares.insert(shares.end(), static_cast<std::size_t>(counts[e]), loads[e] / counts[e]);
    }
    std::sort(shares.begin(), shares.end());
    double most = 0.0;
    for (std::size_t i = 0; i < shares.size(); ++i)
      most = std::max(most, shares[i] + shares.rbegin()[static_cast<std::ptrdiff_t>(i)]);
    return most;
  }

  std::vector<double> loads;
  Topology topology;
  Region region;
};

TEST(SearchPairCounts, FindsTheBestCounts) {
  const Pairs pairs({8, 7, 4, 3}, 3);
  const auto counts = search_pair_counts(pairs.loads, pairs.region, {2, 2, 1, 1}, 0.0, 5000);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), 6);
  double best = 1e9;
  for (int a = 1; a <= 3; ++a) {
    for (int b = 1; b <= 3; ++b) {
      for (int c = 1; c <= 3; ++c) {
        const int d = 6 - a - b - c;
        if (d >= 1 && d <= 3) best = std::min(best, pairs.heaviest({a, b, c, d}));
      }
    }
  }
  EXPECT_NEAR(pairs.heaviest(counts), best, 1e-6);
}

TEST(SearchPairCounts, BeatsHighestAverage) {
  // 4 3 3 2 in six slots: doubling the 4 and a 3 leaves 3 + 1.5 at best, doubling a 4 and the 2 gives 4 = 3
  // + 1.
  const Pairs pairs({4, 3, 3, 2}, 3);
  const std::vector<std::int32_t> by_average = {2, 2, 1, 1};
  EXPECT_DOUBLE_EQ(pairs.heaviest(by_average), 4.5);
  EXPECT_DOUBLE_EQ(pairs.heaviest(search_pair_counts(pairs.loads, pairs.region, by_average, 0.0, 5000)), 4.0);
}

TEST(SearchPairCounts, NeverEndsWorse) {
  const Pairs pairs({9, 8, 3, 2, 1, 1}, 4);
  const std::vector<std::int32_t> start = {2, 2, 1, 1, 1, 1};
  for (std::size_t steps : {0U, 10U, 1000U}) {
    const auto counts = search_pair_counts(pairs.loads, pairs.region, start, 0.0, steps);
    EXPECT_LE(pairs.heaviest(counts), pairs.heaviest(start) * (1 + 1e-6));
  }
}

TEST(SearchPairCounts, StopsWhereItIsGoodEnough) {
  const Pairs pairs({8, 7, 4, 3}, 3);
  const std::vector<std::int32_t> start = {2, 2, 1, 1};
  EXPECT_EQ(search_pair_counts(pairs.loads, pairs.region, start, 100.0, 5000), start);
}

TEST(SearchPairCounts, LeavesNothingToSearchWithoutRedundancy) {
  const Pairs pairs({4, 3, 2, 1}, 2);
  EXPECT_EQ(search_pair_counts(pairs.loads, pairs.region, {1, 1, 1, 1}, 0.0, 100),
            (std::vector<std::int32_t>{1, 1, 1, 1}));
}

}  // namespace
}  // namespace trimtab::test
