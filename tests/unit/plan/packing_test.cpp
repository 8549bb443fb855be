// SPDX-License-Identifier: Apache-2.0
#include "plan/packing.hpp"

#include <trimtab/core/imbalance.hpp>

#include <gtest/gtest.h>

#include <random>

namespace trimtab {
namespace {

// Two ranks of two slots, three experts: A B | A C.
struct Small {
  Topology topology = Topology::make_uniform(2, 1, 4).value();
  std::vector<double> loads{6.0, 2.0, 1.0};
  std::vector<ExpertId> row{ExpertId{0}, ExpertId{1}, ExpertId{0}, ExpertId{2}};
  Packing packing{loads, topology, row};
};

TEST(Packing, SharesLoadEvenlyByReplicas) {
  const Small s;
  EXPECT_EQ(s.packing.copies(ExpertId{0}), 2);
  EXPECT_EQ(s.packing.share(ExpertId{0}), 3.0);
  EXPECT_EQ(s.packing.load(Rank{0}), 5.0);
  EXPECT_EQ(s.packing.load(Rank{1}), 4.0);
  EXPECT_EQ(fullest_rank(s.packing, std::vector{Rank{0}, Rank{1}}), Rank{0});
}

TEST(Packing, PutMovesShareToTheReplicasThatRemain) {
  Small s;
  s.packing.put(SlotId{2}, ExpertId{1});
  EXPECT_EQ(s.packing.copies(ExpertId{0}), 1);
  EXPECT_EQ(s.packing.load(Rank{0}), 7.0);
  EXPECT_EQ(s.packing.load(Rank{1}), 2.0);
  EXPECT_FALSE(s.packing.holds(Rank{1}, ExpertId{0}));
  EXPECT_TRUE(s.packing.holds(Rank{1}, ExpertId{1}));
}

TEST(Packing, SwapExchangesLoad) {
  Small s;
  s.packing.swap(SlotId{1}, SlotId{3});
  EXPECT_EQ(s.packing.expert_at(SlotId{1}), ExpertId{2});
  EXPECT_EQ(s.packing.load(Rank{0}), 4.0);
  EXPECT_EQ(s.packing.load(Rank{1}), 5.0);
}

TEST(Packing, VacantSlotsTakeAndGiveReplicas) {
  Small s;
  s.packing.put(SlotId{2}, no_expert);
  EXPECT_EQ(s.packing.load(Rank{1}), 1.0);
  s.packing.swap(SlotId{1}, SlotId{2});
  EXPECT_EQ(s.packing.expert_at(SlotId{1}), no_expert);
  EXPECT_EQ(s.packing.load(Rank{1}), 3.0);
  s.packing.put(SlotId{1}, ExpertId{2});
  EXPECT_EQ(s.packing.copies(ExpertId{2}), 2);
  EXPECT_EQ(s.packing.load(Rank{1}), 2.5);
}

// After thousands of random changes the state is that of a packing made anew from the row.
TEST(Packing, AgreesWithItselfMadeAnew) {
  std::mt19937 random(7);
  const auto topology = Topology::make_uniform(5, 1, 17).value();
  std::vector<double> loads{5, 0, 1, 9, 2.5, 3, 3, 7};
  std::vector<ExpertId> row;
  for (int s = 0; s < 17; ++s) row.push_back(ExpertId{s % 8});
  Packing packing(loads, topology, row);
  for (int i = 0; i < 5000; ++i) {
    const SlotId slot{static_cast<int>(random() % 17)};
    const int expert = static_cast<int>(random() % 9) - 1;
    if (i % 2 == 0) {
      packing.swap(slot, SlotId{static_cast<int>(random() % 17)});
    } else if (packing.expert_at(slot) == no_expert || packing.copies(packing.expert_at(slot)) > 1) {
      packing.put(slot, expert < 0 ? no_expert : ExpertId{expert});
    }
    const Packing anew(loads, topology, packing.row());
    for (ExpertId e : ids<ExpertId>(8)) {
      ASSERT_EQ(packing.copies(e), anew.copies(e));
      std::vector<SlotId> replicas;
      packing.for_each_replica(e, [&](SlotId at) { replicas.push_back(at); });
      ASSERT_EQ(replicas.size(), static_cast<std::size_t>(packing.copies(e)));
      for (SlotId at : replicas) ASSERT_EQ(packing.expert_at(at), e);
    }
    for (Rank r : ids<Rank>(5)) ASSERT_NEAR(packing.load(r), anew.load(r), 1e-9);
  }
}

}  // namespace
}  // namespace trimtab
