// SPDX-License-Identifier: Apache-2.0
#include "plan/pigeonhole.hpp"

#include <gtest/gtest.h>

namespace trimtab::test {
namespace {

template <class Bound>
double bound_by(Bound bound, const std::vector<double>& loads, std::int32_t ranks,
                std::int32_t slots_per_rank, double floor, double ceiling) {
  const auto topology = Topology::make_uniform(ranks, 1, ranks * slots_per_rank).value();
  Region region{{}, usable_ranks(topology)};
  for (ExpertId e : ids<ExpertId>(loads.size())) region.experts.push_back(e);
  return bound(loads, region, slots_per_rank, floor, ceiling);
}

double bound_of(const std::vector<double>& loads, std::int32_t ranks, std::int32_t slots_per_rank,
                double floor, double ceiling) {
  return bound_by(pigeonhole_bound, loads, ranks, slots_per_rank, floor, ceiling);
}

double split_bound_of(const std::vector<double>& loads, std::int32_t ranks, std::int32_t slots_per_rank,
                      double floor, double ceiling) {
  return bound_by(split_pigeonhole_bound, loads, ranks, slots_per_rank, floor, ceiling);
}

TEST(PigeonholeBound, KnowsThatTwoLargeReplicasDoNotFitARank) {
  // Three experts of 3 and one of 1 in four slots of two ranks: some rank has two of 3, the mean is 5.
  EXPECT_GT(bound_of({3, 3, 3, 1}, 2, 2, 5.0, 6.0), 5.9);
}

TEST(PigeonholeBound, KnowsThatSplittingCostsSlots) {
  // Six slots for five experts: one second copy. With it on a 4, three of 4 and two of 2 are left for three
  // ranks with one of 1: 4 + 1 at best, above the mean 17 / 3 - so 6 = 4 + 2 is what remains.
  EXPECT_GT(bound_of({4, 4, 4, 4, 1}, 3, 2, 17.0 / 3.0, 6.0), 5.9);
}

TEST(PigeonholeBound, StaysAtTheFloorWhereNothingIsRefuted) {
  EXPECT_EQ(bound_of({2, 2, 2, 2}, 2, 2, 4.0, 4.5), 4.0);
}

TEST(SplitPigeonholeBound, KnowsThatNoSlotIsLeftToSplitWith) {
  // As many slots as experts: no shares help.
  EXPECT_GT(split_bound_of({3, 3, 3, 1}, 2, 2, 5.0, 6.0), 5.9);
}

TEST(SplitPigeonholeBound, KnowsWhatOneCopyCanLevel) {
  // Experts of 5, 2 and 1 on two ranks. Even shares of the copy of 5 leave 2.5 + 2; free ones reach the mean.
  EXPECT_GT(bound_of({5, 2, 1}, 2, 2, 4.0, 4.5), 4.2);
  EXPECT_EQ(split_bound_of({5, 2, 1}, 2, 2, 4.0, 4.5), 4.0);
}

TEST(SplitPigeonholeBound, StaysAtTheFloorWhereNothingIsRefuted) {
  EXPECT_EQ(split_bound_of({2, 2, 2, 2}, 2, 2, 4.0, 4.5), 4.0);
}

}  // namespace
}  // namespace trimtab::test
