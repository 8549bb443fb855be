// SPDX-License-Identifier: Apache-2.0
#include "plan/replicate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trimtab::test {
namespace {

using ::testing::ElementsAre;
using Loads = std::vector<double>;

Region whole(std::size_t num_experts, const Topology& topology) {
  Region region{{}, usable_ranks(topology)};
  for (ExpertId e : ids<ExpertId>(num_experts)) region.experts.push_back(e);
  return region;
}

Topology ranks_with_slots(std::initializer_list<std::int32_t> slots) {
  std::vector<RankInfo> ranks;
  for (std::int32_t s : slots) ranks.push_back({NodeId{0}, s});
  return Topology::make(std::move(ranks)).value();
}

std::vector<std::int32_t> counts_for(const Loads& loads, const Topology& topology) {
  return count_replicas(loads, whole(loads.size(), topology), topology);
}

std::vector<std::int32_t> counts_on_single_slots(const Loads& loads, std::int32_t num_slots) {
  return counts_for(loads, Topology::make_uniform(num_slots, 1, num_slots).value());
}

// The counts that TensorRT-LLM expects of its own replication in its tests; none depends on how ties fall.
TEST(CountReplicas, AgreesWithTensorRtLlm) {
  EXPECT_THAT(counts_on_single_slots({1, 4, 2, 1}, 8), ElementsAre(1, 4, 2, 1));
  EXPECT_THAT(counts_on_single_slots({10, 5, 2, 15, 8}, 9), ElementsAre(2, 1, 1, 3, 2));
  EXPECT_THAT(counts_on_single_slots({0, 10, 0}, 4), ElementsAre(1, 2, 1));
  EXPECT_THAT(counts_on_single_slots({0, 0, 0, 0}, 6), ElementsAre(2, 2, 1, 1));
}

TEST(CountReplicas, GivesTiesToTheLowerExpert) {
  EXPECT_THAT(counts_on_single_slots({6, 6, 6}, 5), ElementsAre(2, 2, 1));
}

TEST(CountReplicas, GivesNoExpertMoreReplicasThanRanks) {
  EXPECT_THAT(counts_for({100, 1, 1}, ranks_with_slots({3, 3})), ElementsAre(2, 2, 2));
  EXPECT_THAT(counts_for({100, 1, 1}, ranks_with_slots({2, 2})), ElementsAre(2, 1, 1));
}

TEST(CountReplicas, LeavesOverflowToExpertsOfZeroLoadEvenly) {
  EXPECT_THAT(counts_for({100, 0, 0, 0}, ranks_with_slots({3, 3})), ElementsAre(2, 2, 1, 1));
}

// {4, 3, 1} gives no expert more replicas than ranks, and yet experts 0 and 1 would need seven slots where
// different experts can use six.
TEST(CountReplicas, SeesThatRaggedRanksLimitSeveralExpertsTogether) {
  EXPECT_THAT(counts_for({90, 80, 1}, ranks_with_slots({3, 3, 1, 1})), ElementsAre(3, 3, 2));
}

TEST(CountReplicas, CountsOnlySlotsThatDifferentExpertsCanUse) {
  EXPECT_THAT(counts_for({5, 3}, ranks_with_slots({7, 1})), ElementsAre(2, 1));
}

TEST(CopyRoom, AdmitsUntilTheSlotsAreFull) {
  const auto topology = ranks_with_slots({2, 2});
  CopyRoom room(whole(3, topology), topology);
  EXPECT_TRUE(room.admits(1));
  room.raise(1);
  EXPECT_TRUE(room.is_exhausted());
  EXPECT_FALSE(room.admits(1));
}

TEST(CopyRoom, KeepsToTheGivenNumberOfRaises) {
  const auto topology = ranks_with_slots({3, 3});
  CopyRoom room(whole(3, topology), topology, 1);
  room.raise(1);
  EXPECT_FALSE(room.admits(1));
}

TEST(ForceDuplicates, FillsOnlyRanksWiderThanTheExperts) {
  const auto topology = ranks_with_slots({2, 4});
  std::vector<std::int32_t> counts = {2, 1, 1};
  const auto duplicates = force_duplicates(Loads{9, 4, 1}, whole(3, topology), topology, counts);
  ASSERT_EQ(duplicates.size(), 1U);
  EXPECT_EQ(duplicates[0].rank, Rank{1});
  EXPECT_EQ(duplicates[0].expert, ExpertId{0});
  EXPECT_THAT(counts, ElementsAre(3, 1, 1));
}

TEST(ForceDuplicates, KeepsAlikeRanksAlike) {
  const auto topology = ranks_with_slots({3, 3});
  std::vector<std::int32_t> counts = {2, 2};
  const auto duplicates = force_duplicates(Loads{9, 8}, whole(2, topology), topology, counts);
  ASSERT_EQ(duplicates.size(), 2U);
  EXPECT_EQ(duplicates[0].expert, duplicates[1].expert);
}

TEST(ForceDuplicates, SpreadsZeroLoadEvenly) {
  const auto topology = ranks_with_slots({5, 5});
  std::vector<std::int32_t> counts = {2, 2, 2};
  const auto duplicates = force_duplicates(Loads{0, 0, 0}, whole(3, topology), topology, counts);
  EXPECT_EQ(duplicates.size(), 4U);
  EXPECT_THAT(counts, ElementsAre(4, 3, 3));
}

}  // namespace
}  // namespace trimtab::test
