// SPDX-License-Identifier: Apache-2.0
#include "migrate/control.hpp"
#include "migrate/message.hpp"
#include "support/cluster.hpp"
#include "support/placements.hpp"

#include <trimtab/transport/faulty.hpp>

#include <gtest/gtest.h>

#include <optional>

namespace trimtab::test {
namespace {

using namespace std::chrono_literals;

constexpr Clock::duration deadline = 1s;
constexpr std::size_t bundle_bytes = 192;

EngineOptions options(std::size_t budget = 8 * bundle_bytes) {
  EngineOptions options;
  options.staging_budget_bytes = budget;
  options.deadline = deadline;
  options.verify_sample = 100;
  return options;
}

/// A cluster in which one rank's migration channel misbehaves.
struct FaultyCluster {
  FaultyCluster(const Topology& topology, const Placement& placement, Rank faulty, Fault fault,
                EngineOptions engine_options = options())
      : script(std::make_shared<FaultScript>(std::vector{fault})),
        cluster(topology, placement, engine_options, [&](Rank rank, std::unique_ptr<Transport> channel) {
          if (rank != faulty) return channel;
          return std::unique_ptr<Transport>(std::make_unique<FaultyTransport>(std::move(channel), script));
        }) {}

  /// Lets every deadline pass that can.
  bool settle() { return cluster.run_until_idle(deadline / 10, 100); }

  std::shared_ptr<FaultScript> script;
  Cluster cluster;
};

const Placement four_before = one_layer(4, {0, 1, 2, 3});
const Placement four_after = one_layer(4, {0, 2, 1, 3});

Fault control_fault(FaultAction action, std::uint64_t occurrence, std::optional<Rank> peer = std::nullopt) {
  return {
      .match = {.side = Side::send, .peer = peer, .tag = ControlChannel::tag, .size_bytes = sizeof(Message)},
      .action = action,
      .occurrence = occurrence};
}

TEST(MigrationFault, CorruptedPayloadRollsBackWithBytesAsBefore) {
  const Fault fault{.match = {.side = Side::send, .size_bytes = 96}, .action = FaultAction::corrupt};  // w13
  FaultyCluster faulty(uniform(2, 1, 4), four_before, Rank{1}, fault);
  faulty.cluster.begin(four_after);
  ASSERT_TRUE(faulty.settle());
  EXPECT_EQ(faulty.script->num_struck(), 1U);
  EXPECT_EQ(faulty.cluster.find_difference(four_before), "");
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(faulty.cluster.engine(r).counters().steps_rolled_back, 1U);
    EXPECT_EQ(faulty.cluster.engine(r).placement(), four_before);
    EXPECT_EQ(faulty.cluster.publisher(r).identity().epoch, Epoch{0});
  }
  const auto failure = faulty.cluster.engine(0).health().last_failure;
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, Errc::corrupt);
  EXPECT_TRUE(failure->message.starts_with("layer 0: expert 2 from slot 2 for slot 1: checksum"))
      << failure->message;

  faulty.cluster.begin(four_after);  // The next attempt is clean.
  ASSERT_TRUE(faulty.settle());
  EXPECT_EQ(faulty.cluster.find_difference(four_after), "");
}

TEST(MigrationFault,
     CorruptedScaleIsFoundLikeACorruptedWeight) {  // Ascend/sglang#603, vllm-project/vllm#34646
  for (std::uint64_t leg = 1; leg < 7; ++leg) {    // Leg 0 is the checksum; then the six tensors.
    const Fault fault{
        .match = {.side = Side::send, .tag = Tag{2}}, .action = FaultAction::corrupt, .occurrence = leg};
    FaultyCluster faulty(uniform(2, 1, 4), four_before, Rank{0}, fault);
    faulty.cluster.begin(four_after);
    ASSERT_TRUE(faulty.settle());
    ASSERT_EQ(faulty.script->num_struck(), 1U) << "leg " << leg;
    EXPECT_EQ(faulty.cluster.engine(1).counters().steps_rolled_back, 1U) << "leg " << leg;
    EXPECT_EQ(faulty.cluster.find_difference(four_before), "") << "leg " << leg;
  }
}

TEST(MigrationFault, MissingVoteRollsBackWithBytesAsBefore) {
  // What rank 1 says to the coordinator: agreement, vote, …
  FaultyCluster faulty(uniform(2, 1, 4), four_before, Rank{1}, control_fault(FaultAction::drop, 1));
  faulty.cluster.begin(four_after);
  ASSERT_TRUE(faulty.settle());
  EXPECT_EQ(faulty.script->num_struck(), 1U);
  EXPECT_EQ(faulty.cluster.find_difference(four_before), "");
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(faulty.cluster.engine(r).counters().steps_rolled_back, 1U);
    EXPECT_EQ(faulty.cluster.engine(r).counters().steps_committed, 0U);
    EXPECT_EQ(faulty.cluster.engine(r).health().last_failure->code, Errc::timeout);
  }
  faulty.cluster.begin(four_after);
  ASSERT_TRUE(faulty.settle());
  EXPECT_EQ(faulty.cluster.find_difference(four_after), "");
}

TEST(MigrationFault, RanksThatServeOnMeanwhileNeverBeginAForwardUndecided) {
  FaultyCluster faulty(uniform(2, 1, 4), four_before, Rank{1}, control_fault(FaultAction::drop, 1));
  faulty.cluster.begin(four_after);
  for (int i = 0; i < 50; ++i) faulty.cluster.tick();  // No time passes: the vote is out, no decision comes.
  const std::size_t served = faulty.cluster.served()[1].size();
  EXPECT_LT(served, 10U);
  EXPECT_EQ(faulty.cluster.engine(1).health().state, StepState::staged);
  ASSERT_TRUE(faulty.settle());
  EXPECT_GT(faulty.cluster.engine(1).counters().stall, 0s);
}

TEST(MigrationFault,
     DifferentProgramsAreRefusedBeforeAByteMoves) {  // pytorch/pytorch#174288: ranks' plans diverged
  const Fault fault{.match = {.side = Side::send, .tag = Tag{2}}, .action = FaultAction::corrupt};
  FaultyCluster faulty(uniform(2, 1, 4), four_before, Rank{1}, fault);
  ASSERT_TRUE(faulty.cluster.engine(0).begin(faulty.cluster.make_program(four_after)));
  ASSERT_TRUE(faulty.cluster.engine(1).begin(faulty.cluster.make_program(one_layer(4, {0, 3, 2, 1}))));
  ASSERT_TRUE(faulty.settle());
  EXPECT_EQ(faulty.script->num_struck(), 0U);  // No payload was posted.
  for (std::size_t r = 0; r < 2; ++r)
    EXPECT_EQ(faulty.cluster.engine(r).health().last_failure->code, Errc::version_mismatch);
  EXPECT_EQ(faulty.cluster.find_difference(four_before), "");
}

TEST(MigrationFault,
     ARankWithoutAProgramEndsTheStepByItsSilence) {  // vllm-project/vllm#33592: one rank ran fewer steps
  Cluster cluster(uniform(3, 1, 6), one_layer(4, {0, 1, 2, 3, 0, 1}), options());
  const Program program = cluster.make_program(one_layer(4, {0, 2, 1, 3, 0, 1}));
  ASSERT_TRUE(cluster.engine(0).begin(program));
  ASSERT_TRUE(cluster.engine(1).begin(program));
  ASSERT_TRUE(cluster.run_until_idle(deadline / 10, 100));
  EXPECT_EQ(cluster.engine(0).health().last_failure->code, Errc::timeout);
  EXPECT_EQ(cluster.find_difference(one_layer(4, {0, 1, 2, 3, 0, 1})), "");
  cluster.begin(one_layer(4, {0, 2, 1, 3, 0, 1}));  // The old proposal is not taken for the new one.
  ASSERT_TRUE(cluster.run_until_idle(deadline / 10, 100));
  EXPECT_EQ(cluster.find_difference(one_layer(4, {0, 2, 1, 3, 0, 1})), "");
}

// Found by `trimtab verify`: its proposal was refused, and aborted, as if it were that of the next program.
TEST(MigrationFault, ACoordinatorThatGivesUpEndsItsAttemptForAll) {
  const Placement before = one_layer(4, {0, 1, 2, 3, 0, 1});
  const Placement after = one_layer(4, {0, 2, 1, 3, 1, 0});
  Cluster cluster(uniform(3, 1, 6), before, options());
  cluster.begin(one_layer(4, {0, 2, 1, 3, 0, 1}));
  cluster.clock().advance(3 * deadline);
  for (const std::size_t rank : {1U, 2U, 0U}) ASSERT_TRUE(cluster.engine(rank).progress(1ms));
  EXPECT_TRUE(cluster.engine(0).is_idle());  // It was called last, and proposed too late for itself.
  for (int i = 0; i < 5; ++i) cluster.tick();
  cluster.begin(after);
  ASSERT_TRUE(cluster.run_until_idle(deadline / 10, 100));
  EXPECT_EQ(cluster.find_difference(after), "");
  for (std::size_t r = 0; r < 3; ++r) EXPECT_EQ(cluster.engine(r).counters().steps_rolled_back, 1U) << r;
}

TEST(MigrationFault, StagingOfAnAbortedStepIsQuarantinedUntilItsReceivesAreOver) {
  const Fault fault{
      .match = {.side = Side::send, .tag = Tag{2}}, .action = FaultAction::drop, .occurrence = 3};
  FaultyCluster faulty(uniform(2, 1, 4), four_before, Rank{1}, fault,
                       options(bundle_bytes));  // Room for one bundle.
  faulty.cluster.begin(four_after);
  ASSERT_TRUE(faulty.settle());
  ASSERT_EQ(faulty.script->num_struck(), 1U);
  EXPECT_EQ(faulty.cluster.find_difference(four_before), "");
  faulty.cluster.begin(four_after);
  ASSERT_TRUE(faulty.settle());
  EXPECT_EQ(faulty.cluster.find_difference(four_after), "");
}

/// What a rank ended with: the placement that its table, its engine and all its bytes agree on.
enum class Outcome { old_placement, new_placement, mixture };

Outcome outcome_of(Cluster& cluster, std::size_t rank, const Placement& before, const Placement& after) {
  const bool is_new = cluster.engine(rank).placement() == after;
  const Placement& placement = is_new ? after : before;
  const bool is_whole = cluster.engine(rank).placement() == placement &&
                        cluster.weights(rank).find_difference(placement).empty() &&
                        cluster.publisher(rank).identity().epoch == Epoch{is_new ? 1U : 0U};
  if (!is_whole) return Outcome::mixture;
  return is_new ? Outcome::new_placement : Outcome::old_placement;
}

/// After one fault: every rank is whole; ranks that are sure agree; and when all are sure, the next step
/// works.
void check_after_fault(FaultyCluster& faulty, const Placement& before, const Placement& after,
                       const std::string& what) {
  Cluster& cluster = faulty.cluster;
  std::optional<Outcome> sure;
  bool all_sure = true;
  for (std::size_t r = 0; r < cluster.num_ranks(); ++r) {
    const Outcome outcome = outcome_of(cluster, r, before, after);
    ASSERT_NE(outcome, Outcome::mixture) << what << ", rank " << r;
    if (cluster.engine(r).health().state == StepState::in_doubt) {
      all_sure = false;
      EXPECT_NE(cluster.errors()[r], "") << what;
      continue;
    }
    EXPECT_EQ(sure.value_or(outcome), outcome) << what << ", rank " << r;
    sure = outcome;
  }
  if (!all_sure) return;
  const Placement& next = sure == Outcome::new_placement ? before : after;
  cluster.begin(next);
  ASSERT_TRUE(faulty.settle()) << what;
  ASSERT_EQ(cluster.find_difference(next), "") << what;
}

TEST(MigrationFault, EverySingleFaultOnEveryMessageLeavesTheOldOrTheNewPlacement) {
  const Placement before = one_layer(5, {0, 1, 2, 3, 4, 0, 1, 2, 3});
  const Placement after = one_layer(5, {3, 1, 0, 2, 4, 4, 2, 2, 0});
  const Topology topology = uniform(3, 1, 9);
  std::size_t num_faults = 0;
  for (FaultAction action : {FaultAction::drop, FaultAction::corrupt, FaultAction::duplicate,
                             FaultAction::delay, FaultAction::fail}) {
    for (Rank rank : ids<Rank>(3)) {
      for (std::uint64_t occurrence = 0;; ++occurrence) {
        const Fault fault{.match = {.side = Side::send}, .action = action, .occurrence = occurrence};
        FaultyCluster faulty(topology, before, rank, fault);
        faulty.cluster.begin(after);
        faulty.settle();
        if (faulty.script->num_struck() == 0) break;  // Beyond the last message of a step.
        ++num_faults;
        faulty.script->release_delayed();
        check_after_fault(faulty, before, after,
                          "action " + std::to_string(static_cast<int>(action)) + " on rank " +
                              std::to_string(rank.value()) + ", message " + std::to_string(occurrence));
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(num_faults, 150U);
}

}  // namespace
}  // namespace trimtab::test
