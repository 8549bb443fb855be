// SPDX-License-Identifier: Apache-2.0
#include "support/cluster.hpp"
#include "support/placements.hpp"
#include "verify/expert_values.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace trimtab::test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr Clock::duration deadline = 2s;
constexpr HeartbeatOptions heartbeat{.period = 100ms, .misses = 3};
constexpr Clock::duration tick = 25ms;

/// Every expert lies on two ranks before and after, so that any one may die.
const std::vector<std::int32_t> four_before{0, 1, 1, 2, 2, 3, 3, 0};

Cluster make_cluster(std::int32_t num_ranks, const std::vector<std::int32_t>& experts) {
  EngineOptions options;
  options.staging_budget_bytes = 1U << 12;
  options.deadline = deadline;
  options.verify_sample = 100;
  return Cluster(uniform(num_ranks, 1, static_cast<std::int32_t>(experts.size())), one_layer(4, experts),
                 options, {}, heartbeat);
}

void pass(Cluster& cluster, int ticks) {
  for (int i = 0; i < ticks; ++i) {
    cluster.tick();
    cluster.clock().advance(tick);
  }
}

/// What holds on ranks that serve: one view, one epoch, the bytes that the placement says.
std::string find_disagreement(Cluster& cluster) {
  std::optional<std::size_t> first;
  for (std::size_t r = 0; r < cluster.num_ranks(); ++r) {
    if (!cluster.serves(r)) continue;
    if (!first) first = r;
    Engine& a = cluster.engine(*first);
    Engine& b = cluster.engine(r);
    if (a.view().number != b.view().number) return fmt::format("views of {} and {}", *first, r);
    if (a.view().members != b.view().members) return fmt::format("members of {} and {}", *first, r);
    if (a.health().epoch != b.health().epoch) return fmt::format("epochs of {} and {}", *first, r);
    const std::string difference = cluster.weights(r).find_difference(b.placement());
    if (!difference.empty()) return fmt::format("rank {}: {}", r, difference);
  }
  return first ? "" : "nobody serves";
}

std::vector<std::int32_t> members(Cluster& cluster, std::size_t rank) {
  std::vector<std::int32_t> values;
  for (Rank member : cluster.engine(rank).view().members) values.push_back(member.value());
  return values;
}

TEST(View, IsTheSameWhileAllLive) {
  Cluster cluster = make_cluster(4, four_before);
  pass(cluster, 200);
  EXPECT_EQ(cluster.engine(0).view().number, 0U);
  EXPECT_THAT(members(cluster, 3), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(cluster.engine(0).health().epoch, Epoch{0});
}

TEST(View, FollowsWithoutTheDead) {
  for (std::size_t dead = 0; dead < 4; ++dead) {
    Cluster cluster = make_cluster(4, four_before);
    pass(cluster, 20);
    cluster.kill(dead);
    pass(cluster, 20);
    EXPECT_EQ(find_disagreement(cluster), "") << dead;
    const std::size_t any = dead == 0 ? 1 : 0;
    EXPECT_EQ(cluster.engine(any).view().number, 1U);
    EXPECT_EQ(cluster.engine(any).view().members.size(), 3U);
    const Forward before = cluster.next(any);
    pass(cluster, 5);
    EXPECT_GT(cluster.next(any), before) << "it serves on";
    for (SlotId slot : cluster.topology().slots_of(Rank{static_cast<std::int32_t>(dead)})) {
      TableReader reader = cluster.publisher(any).make_reader();
      const TableLease table = reader.acquire();
      const auto slots = table->view().slots;
      EXPECT_EQ(std::ranges::find(slots, slot), slots.end()) << "slot " << slot.value() << " is masked";
    }
  }
}

TEST(View, RepeatsForwardsThatSomeSurvivorHasNotFinished) {
  Cluster cluster = make_cluster(4, four_before);
  pass(cluster, 20);
  cluster.kill(3);
  cluster.tick();
  const Forward unfinished = cluster.next(0);
  while (cluster.engine(0).view().number == 0 || cluster.engine(1).view().number == 0) pass(cluster, 1);
  EXPECT_LE(cluster.engine(0).view().resume, unfinished);
  EXPECT_EQ(cluster.engine(0).view().resume, cluster.engine(1).view().resume);
  pass(cluster, 5);
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(cluster.served()[r][unfinished.value()], Epoch{1}) << "served again under the masked table";
  }
}

TEST(View, ExcludesASilentRankWhichStopsWhenItWakes) {
  Cluster cluster = make_cluster(4, four_before);
  pass(cluster, 20);
  cluster.stop(0);
  pass(cluster, 40);
  EXPECT_THAT(members(cluster, 1), ElementsAre(1, 2, 3));
  const Forward before = cluster.next(1);
  cluster.resume(0);
  pass(cluster, 20);
  EXPECT_FALSE(cluster.serves(0));
  EXPECT_THAT(cluster.errors()[0], HasSubstr("rank 0 is not in view 1"));
  EXPECT_EQ(cluster.engine(0).health().state, StepState::in_doubt);
  EXPECT_EQ(find_disagreement(cluster), "");
  EXPECT_GT(cluster.next(1), before);
}

TEST(View, NeedsAMajorityOrTheHalfWithTheLowestRank) {
  Cluster lower = make_cluster(4, {0, 1, 2, 3, 0, 1, 2, 3});
  pass(lower, 20);
  lower.stop(2);
  lower.stop(3);
  pass(lower, 400);
  EXPECT_THAT(members(lower, 0), ElementsAre(0, 1));
  EXPECT_TRUE(lower.serves(0) && lower.serves(1));

  Cluster upper = make_cluster(4, {0, 1, 2, 3, 0, 1, 2, 3});
  pass(upper, 20);
  upper.stop(0);
  upper.stop(1);
  pass(upper, 800);
  EXPECT_FALSE(upper.serves(2) || upper.serves(3));
  EXPECT_THAT(upper.errors()[2], HasSubstr("no quorum"));
  EXPECT_EQ(upper.engine(3).health().state, StepState::in_doubt);
}

TEST(View, LetsAllThatAreNotKnownToBeDeadGoOn) {
  Cluster cluster = make_cluster(2, {0, 1, 2, 3, 0, 1, 2, 3});
  pass(cluster, 20);
  cluster.kill(0);
  pass(cluster, 40);
  EXPECT_THAT(members(cluster, 1), ElementsAre(1));
  EXPECT_TRUE(cluster.serves(1));
}

TEST(View, IsNotEnteredWhileABatchHoldsATable) {
  Cluster cluster = make_cluster(4, four_before);
  pass(cluster, 20);
  {
    TableReader reader = cluster.publisher(0).make_reader();
    const TableLease in_flight = reader.acquire();
    cluster.kill(3);
    pass(cluster, 20);
    EXPECT_EQ(cluster.engine(0).view().number, 0U);
    EXPECT_EQ(cluster.engine(1).view().number, 1U);
  }
  pass(cluster, 20);
  EXPECT_EQ(find_disagreement(cluster), "");
  EXPECT_EQ(cluster.engine(0).view().number, 1U);
}

TEST(View, StaysWhenAPartThatWasMissedComesAfterAll) {
  Cluster cluster = make_cluster(4, four_before);
  pass(cluster, 20);
  cluster.engine(0).note_unheard(cluster.next(0), Rank{2});
  pass(cluster, 200);
  EXPECT_EQ(cluster.engine(0).view().number, 0U);
}

TEST(View, EndsWhenAPartDoesNotCome) {
  Cluster cluster = make_cluster(4, four_before);
  pass(cluster, 20);
  const Forward never{cluster.next(0).value() + 10'000};
  for (std::size_t r : {0U, 1U, 3U}) cluster.engine(r).note_unheard(never, Rank{2});
  cluster.engine(2).note_unheard(never, Rank{3});
  pass(cluster, 100);
  EXPECT_THAT(members(cluster, 0), ElementsAre(0, 1, 2));
  EXPECT_FALSE(cluster.serves(3));
  EXPECT_EQ(find_disagreement(cluster), "");
}

TEST(View, FollowsOneAnother) {
  Cluster cluster = make_cluster(4, {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3});
  for (std::size_t dead : {1U, 0U, 2U}) {
    pass(cluster, 40);
    cluster.kill(dead);
  }
  pass(cluster, 40);
  EXPECT_THAT(members(cluster, 3), ElementsAre(3));
  EXPECT_EQ(cluster.engine(3).view().number, 3U);
}

/// Has all experts, or says that one cannot be read.
class KnownSource final : public ExpertSource {
 public:
  std::set<std::int32_t> unreadable;

  [[nodiscard]] bool holds(LayerId, ExpertId) const override { return true; }
  [[nodiscard]] bool is_verified(LayerId, ExpertId) const override { return true; }
  [[nodiscard]] std::string describe() const override { return "known values"; }

 private:
  Status read_bundle(LayerId layer, ExpertId expert, std::span<std::byte> bundle) override {
    if (unreadable.contains(expert.value()))
      return failure(Errc::io, fmt::format("expert {}", expert.value()));
    GuardedWeights weights(1, IdRange<SlotId>(SlotId{0}, SlotId{1}));
    weights.fill(one_layer(1, {0}));
    for (std::size_t t = 0; t < weights.store().tensors(layer).size(); ++t)
      verify::fill_expert(layer, expert, t, weights.store().tensor_slot(layer, t, SlotId{0}));
    weights.store().read_bundle(layer, SlotId{0}, bundle);
    return {};
  }
};

/// Four ranks of three slots, and no expert twice: those of rank 3 are lost with it.
class LostExperts : public testing::Test {
 protected:
  void make(ExpertSource* source, std::size_t staging_budget_bytes = 1U << 12) {
    EngineOptions options;
    options.staging_budget_bytes = staging_budget_bytes;
    options.deadline = deadline;
    options.verify_sample = 100;
    options.source = source;
    cluster_.emplace(uniform(4, 1, 12), one_layer(8, {0, 1, -1, 2, 3, -1, 4, 5, -1, 6, 7, -1}), options,
                     Cluster::Wrap{}, heartbeat);
    pass(*cluster_, 20);
    cluster_->kill(3);
    pass(*cluster_, 20);
  }
  Result<bool> begin_recovery(std::size_t rank) { return cluster_->engine(rank).begin_toward({recovered_}); }

  const Placement recovered_ = one_layer(8, {0, 1, 6, 2, 3, 7, 4, 5, -1, -1, -1, -1});
  KnownSource source_;
  std::optional<Cluster> cluster_;
};

TEST_F(LostExperts, HoldEveryForwardAndAreNamed) {
  make(nullptr);
  EXPECT_THAT(cluster_->engine(0).view().lost,
              ElementsAre(LayerExpert{LayerId{0}, ExpertId{6}}, LayerExpert{LayerId{0}, ExpertId{7}}));
  const Forward before = cluster_->next(0);
  pass(*cluster_, 20);
  EXPECT_EQ(cluster_->next(0), before);
  EXPECT_TRUE(cluster_->serves(0) && cluster_->serves(1) && cluster_->serves(2));
}

TEST_F(LostExperts, WithoutASourceAreNotPlanned) {
  make(nullptr);
  const Result<bool> begun = begin_recovery(0);
  ASSERT_FALSE(begun);
  EXPECT_EQ(begun.error().code, Errc::infeasible);
  EXPECT_THAT(begun.error().message, HasSubstr("no live slot holds expert 6"));
}

TEST_F(LostExperts, ComeFromTheSourceBeforeATableNamesThem) {
  for (std::size_t staging : {std::size_t{1} << 12, std::size_t{1} << 8}) {
    make(&source_, staging);
    const Forward before = cluster_->next(0);
    for (std::size_t r = 0; r < 3; ++r) ASSERT_TRUE(begin_recovery(r).value());
    ASSERT_TRUE(cluster_->run_until_idle(tick));
    EXPECT_TRUE(cluster_->engine(0).view().lost.empty());
    EXPECT_EQ(cluster_->find_difference(recovered_), "");
    EXPECT_GT(cluster_->engine(0).counters().bytes_recovered, 0U);
    EXPECT_EQ(cluster_->engine(2).counters().bytes_recovered, 0U);
    pass(*cluster_, 10);
    EXPECT_GT(cluster_->next(0), before);
    EXPECT_GT(cluster_->served()[0][before.value()], Epoch{1}) << "never under a table without them";
  }
}

TEST_F(LostExperts, ThatCannotBeReadStayLost) {
  source_.unreadable = {7};
  make(&source_);
  for (std::size_t r = 0; r < 3; ++r) ASSERT_TRUE(begin_recovery(r).value());
  ASSERT_TRUE(cluster_->run_until_idle(tick));
  EXPECT_EQ(cluster_->engine(1).health().last_failure->code, Errc::io);
  EXPECT_EQ(cluster_->engine(0).view().lost.size(), 2U);
  source_.unreadable.clear();
  for (std::size_t r = 0; r < 3; ++r) ASSERT_TRUE(begin_recovery(r).value());
  ASSERT_TRUE(cluster_->run_until_idle(tick));
  EXPECT_EQ(cluster_->find_difference(recovered_), "");
}

/// Four ranks of three slots. A step takes the only copy of expert 6 from slot 8 of rank 2 to rank 3, which
/// dies as soon as rank 2 has committed. There is no source.
class DisplacedExperts : public testing::Test {
 protected:
  void make(const std::vector<std::int32_t>& before, const std::vector<std::int32_t>& after, StepState at) {
    EngineOptions options;
    options.staging_budget_bytes = 1U << 12;
    options.deadline = deadline;
    options.verify_sample = 100;
    cluster_.emplace(uniform(4, 1, 12), one_layer(8, before), options, Cluster::Wrap{}, heartbeat);
    pass(*cluster_, 20);
    cluster_->begin(one_layer(8, after));
    do pass(*cluster_, 1);
    while (cluster_->engine(2).health().epoch == Epoch{0} || cluster_->engine(2).health().state != at);
    cluster_->kill(3);
    pass(*cluster_, 20);
  }
  Result<bool> begin(const std::vector<std::int32_t>& recovered) {
    recovered_ = one_layer(8, recovered);
    Result<bool> begun = false;
    for (std::size_t r = 0; r < 3; ++r) begun = cluster_->engine(r).begin_toward({*recovered_});
    return begun;
  }
  void expect_recovered() {
    ASSERT_TRUE(cluster_->run_until_idle(tick));
    EXPECT_EQ(cluster_->find_difference(*recovered_), "");
    for (std::size_t r = 0; r < 3; ++r) {
      EXPECT_TRUE(cluster_->engine(r).view().lost.empty());
      EXPECT_TRUE(cluster_->engine(r).view().kept.empty());
      EXPECT_EQ(cluster_->engine(r).health().kept_bytes, 0U);
      EXPECT_EQ(cluster_->engine(r).counters().bytes_recovered, 0U);
    }
    const Forward before = cluster_->next(0);
    pass(*cluster_, 10);
    EXPECT_GT(cluster_->next(0), before);
  }

  const std::vector<std::int32_t> swap_before_{0, 1, -1, 2, 3, -1, 4, 5, 6, 7, 0, 1};
  const std::vector<std::int32_t> swap_after_{0, 1, -1, 2, 3, -1, 4, 5, 7, 6, 0, 1};
  std::optional<Cluster> cluster_;
  std::optional<Placement> recovered_;
};

TEST_F(DisplacedExperts, AreKeptUntilTheyHaveASlotAgain) {
  make(swap_before_, swap_after_, StepState::committed);
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_THAT(cluster_->engine(r).view().lost, ElementsAre(LayerExpert{LayerId{0}, ExpertId{6}}));
    EXPECT_THAT(cluster_->engine(r).view().kept, ElementsAre(KeptExpert{LayerId{0}, ExpertId{6}, SlotId{8}}));
    EXPECT_EQ(cluster_->engine(r).health().kept_bytes > 0, r == 2) << r;
  }
  ASSERT_TRUE(begin({0, 1, 6, 2, 3, -1, 4, 5, 7, -1, -1, -1}).value());
  expect_recovered();
}

TEST_F(DisplacedExperts, ReturnToTheirSlotWithoutCrossingRanks) {
  make(swap_before_, swap_after_, StepState::committed);
  const std::uint64_t moved = cluster_->engine(1).counters().bytes_moved;
  ASSERT_TRUE(begin({0, 1, -1, 2, 3, 7, 4, 5, 6, -1, -1, -1}).value());
  expect_recovered();
  EXPECT_GT(cluster_->engine(1).counters().bytes_moved, moved) << "expert 7";
  EXPECT_EQ(cluster_->engine(2).counters().slots_moved, 1) << "expert 7, before";
}

TEST_F(DisplacedExperts, AreReadFromASlotThatBecameVacant) {
  make({0, 1, -1, 2, 3, 7, 4, 5, 6, 7, 0, -1}, {0, 1, -1, 2, 3, 7, 4, 5, -1, 7, 0, 6}, StepState::committed);
  ASSERT_THAT(cluster_->engine(0).view().kept, ElementsAre(KeptExpert{LayerId{0}, ExpertId{6}, SlotId{8}}));
  ASSERT_TRUE(begin({0, 1, 6, 2, 3, 7, 4, 5, 6, -1, -1, -1}).value());
  expect_recovered();
}

TEST_F(DisplacedExperts, AreLostOnceEveryRankHadCommitted) {
  make(swap_before_, swap_after_, StepState::idle);
  EXPECT_THAT(cluster_->engine(0).view().lost, ElementsAre(LayerExpert{LayerId{0}, ExpertId{6}}));
  EXPECT_THAT(cluster_->engine(0).view().kept, ElementsAre());
  EXPECT_EQ(begin({0, 1, 6, 2, 3, -1, 4, 5, 7, -1, -1, -1}).error().code, Errc::infeasible);
}

TEST_F(DisplacedExperts, AreLostWithTheRankThatKeptThem) {
  make(swap_before_, swap_after_, StepState::committed);
  cluster_->kill(2);
  pass(*cluster_, 20);
  EXPECT_EQ(cluster_->engine(0).view().lost.size(), 4U);
  EXPECT_THAT(cluster_->engine(0).view().kept, ElementsAre());
}

}  // namespace
}  // namespace trimtab::test
