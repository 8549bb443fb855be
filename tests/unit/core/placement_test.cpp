// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/placement.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trimtab::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<ExpertId> experts(std::initializer_list<std::int32_t> values) {
  std::vector<ExpertId> made;
  for (std::int32_t value : values) made.push_back(ExpertId{value});
  return made;
}

void expect_refused(const Result<Placement>& placement, Errc code, const char* message) {
  ASSERT_FALSE(placement.has_value());
  EXPECT_EQ(placement.error().code, code);
  EXPECT_THAT(placement.error().message, HasSubstr(message));
}

TEST(Placement, ListsReplicasOfAnExpertInSlotOrder) {
  const auto placement = Placement::make(2, 4, 2, experts({1, 0, 1, -1, 0, 0, 1, 0})).value();
  EXPECT_THAT(placement.replicas(LayerId{0}, ExpertId{0}), ElementsAre(SlotId{1}));
  EXPECT_THAT(placement.replicas(LayerId{0}, ExpertId{1}), ElementsAre(SlotId{0}, SlotId{2}));
  EXPECT_THAT(placement.replicas(LayerId{1}, ExpertId{0}), ElementsAre(SlotId{0}, SlotId{1}, SlotId{3}));
  EXPECT_EQ(placement.expert_at(LayerId{0}, SlotId{3}), no_expert);
}

TEST(Placement, IdentityWrapsAroundTheExperts) {
  const auto placement = Placement::identity(2, 5, 3).value();
  const auto expected = experts({0, 1, 2, 0, 1});
  for (LayerId layer : ids<LayerId>(2)) {
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), placement.layer(layer).begin()));
  }
}

// vllm-ascend PR#5311: a map with redundancy named experts that do not exist.
TEST(Placement, RefusesAnExpertOutOfRange) {
  expect_refused(Placement::make(1, 3, 2, experts({0, 1, 2})), Errc::invalid_argument,
                 "layer 0, slot 2: expert 2 is not in 0..1");
  expect_refused(Placement::make(1, 3, 2, experts({0, -2, 1})), Errc::invalid_argument,
                 "layer 0, slot 1: expert -2");
}

TEST(Placement, RefusesToLoseAnExpert) {
  expect_refused(Placement::make(2, 3, 2, experts({0, 1, 0, 0, -1, 0})), Errc::infeasible,
                 "layer 1: expert 1 has no slot");
}

TEST(Placement, RefusesSizesThatDoNotFit) {
  expect_refused(Placement::make(1, 3, 2, experts({0, 1})), Errc::invalid_argument, "2 entries");
  expect_refused(Placement::make(1, 1, 2, experts({0})), Errc::infeasible, "1 slots < 2 experts");
  expect_refused(Placement::identity(1, 3, 4), Errc::infeasible, "3 slots < 4 experts");
  expect_refused(Placement::make(0, 1, 1, {}), Errc::invalid_argument, "0 layers");
}

// vllm-project/vllm#41204: a plan named the dead rank as the place of an expert's only replica.
TEST(CheckLive, NamesTheExpertWithoutALiveSlot) {
  const auto topology = Topology::make({{NodeId{0}, 2}, {NodeId{0}, 1, 1.0, false}}).value();
  const auto lost = Placement::make(1, 3, 2, experts({0, 0, 1})).value();
  const Status status = check_live(lost, topology);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, Errc::infeasible);
  EXPECT_THAT(status.error().message, HasSubstr("layer 0: expert 1"));
  EXPECT_TRUE(check_live(Placement::make(1, 3, 2, experts({0, 1, 1})).value(), topology).has_value());
}

TEST(CheckLive, RefusesATopologyOfAnotherSize) {
  const auto topology = Topology::make_uniform(2, 1, 4).value();
  EXPECT_EQ(check_live(Placement::identity(1, 3, 2).value(), topology).error().code, Errc::invalid_argument);
}

TEST(Placement, EqualityComparesTheMap) {
  const auto a = Placement::make(1, 3, 2, experts({0, 1, 0})).value();
  EXPECT_EQ(a, Placement::identity(1, 3, 2).value());
  EXPECT_FALSE(a == Placement::make(1, 3, 2, experts({0, 1, 1})).value());
}

}  // namespace
}  // namespace trimtab::test
