// SPDX-License-Identifier: Apache-2.0
// What went wrong elsewhere while experts were moved, and must not here.
#include "support/cluster.hpp"
#include "support/placements.hpp"

#include <trimtab/transport/decorator.hpp>
#include <trimtab/transport/faulty.hpp>
#include <trimtab/transport/inproc.hpp>

#include <gtest/gtest.h>

#include <optional>

namespace trimtab::test {
namespace {

using namespace std::chrono_literals;

constexpr Clock::duration deadline = 1s;

EngineOptions options() {
  EngineOptions options;
  options.staging_budget_bytes = std::size_t{1} << 12;
  options.deadline = deadline;
  return options;
}

const Placement before = one_layer(4, {0, 1, 2, 3, 0, 1});
const Placement after = one_layer(4, {2, 3, 0, 1, 0, 1});  // Rank 2 neither sends nor receives.

/// Three ranks; what rank 1 posts is struck by `fault`.
class ThreeRanks {
 public:
  explicit ThreeRanks(std::optional<Fault> fault = std::nullopt)
      : script_(std::make_shared<FaultScript>(fault ? std::vector{*fault} : std::vector<Fault>{})),
        cluster_(uniform(3, 1, 6), before, options(), [&](Rank rank, std::unique_ptr<Transport> channel) {
          if (rank != Rank{1}) return channel;
          return std::unique_ptr<Transport>(std::make_unique<FaultyTransport>(std::move(channel), script_));
        }) {}

  [[nodiscard]] Cluster& cluster() { return cluster_; }
  [[nodiscard]] bool has_struck() const { return script_->num_struck() > 0; }
  void move_to(const Placement& to) {
    cluster_.begin(to);
    ASSERT_TRUE(cluster_.run_until_idle(deadline / 10, 200));
  }
  void expect_serving(const Placement& placement) {
    EXPECT_EQ(cluster_.find_difference(placement), "");
    for (std::size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(cluster_.engine(r).placement(), placement);
      EXPECT_EQ(cluster_.errors()[r], "");
    }
  }

 private:
  std::shared_ptr<FaultScript> script_;
  Cluster cluster_;
};

constexpr Fault on_payload(FaultAction action, Errc code = Errc::peer_lost) {
  Fault fault;
  fault.match.side = Side::send;
  fault.match.tag = Tag{2};  // Of the first attempt.
  fault.action = action;
  fault.code = code;
  return fault;
}

TEST(PublicReports, ATransportErrorEndsTheStepAndNotTheServer) {  // sgl-project/sglang#7224
  ThreeRanks ranks(on_payload(FaultAction::fail, Errc::io));
  ranks.move_to(after);
  ASSERT_TRUE(ranks.has_struck());
  ranks.expect_serving(before);
  EXPECT_EQ(ranks.cluster().engine(1).health().last_failure->code, Errc::io);
  ranks.move_to(after);
  ranks.expect_serving(after);
}

TEST(PublicReports, ATransferThatNeverEndsIsGivenUpAtItsDeadline) {  // sgl-project/sglang#7956, #30829
  ThreeRanks ranks(on_payload(FaultAction::drop));
  const Clock::time_point begun = ranks.cluster().clock().now();
  ranks.move_to(after);
  ASSERT_TRUE(ranks.has_struck());
  EXPECT_LE(ranks.cluster().clock().now() - begun, 2 * deadline);
  ranks.expect_serving(before);
  ranks.move_to(after);
  ranks.expect_serving(after);
}

TEST(PublicReports, ARankWithoutMovesTakesPart) {  // A rank with nothing to do skipped a collective, and all
                                                   // hung.
  ThreeRanks ranks;
  ranks.move_to(after);
  ranks.expect_serving(after);
  EXPECT_EQ(ranks.cluster().engine(2).counters().slots_moved, 0U);
  EXPECT_EQ(ranks.cluster().engine(2).counters().steps_committed, 1U);
}

TEST(PublicReports, AnEngineThatCommitsNoMoreShowsIt) {  // vllm-project/vllm#57883: dead, and nobody saw
  Fault silence = on_payload(FaultAction::drop);
  silence.match.tag = Tag{0};  // Its agreement.
  ThreeRanks ranks(silence);
  ranks.move_to(after);
  for (std::size_t r = 0; r < 3; ++r) {
    const EngineHealth health = ranks.cluster().engine(r).health();
    EXPECT_EQ(health.state, StepState::idle);
    EXPECT_EQ(health.failures, 1U);
    EXPECT_EQ(health.last_failure->code, Errc::timeout);
    EXPECT_FALSE(health.last_commit);
  }
  ranks.move_to(after);
  const Clock::time_point committed = *ranks.cluster().engine(0).health().last_commit;
  ranks.cluster().clock().advance(1h);
  EXPECT_GE(ranks.cluster().clock().now() - committed, 1h);
  EXPECT_GE(ranks.cluster().engine(0).health().state_age, 1h);
  EXPECT_EQ(ranks.cluster().engine(0).health().failures, 1U);
}

TEST(PublicReports, ALostVoteIsNotTakenForAYes) {  // A worker that failed or timed out counted as loaded.
  Fault vote = on_payload(FaultAction::drop);
  vote.match.tag = Tag{0};
  vote.occurrence = 1;
  ThreeRanks ranks(vote);
  ranks.move_to(after);
  ASSERT_TRUE(ranks.has_struck());
  ranks.expect_serving(before);
}

TEST(PublicReports, MemoryIsReservedBeforeAProgramIsTaken) {  // vllm-project/vllm-ascend#6020, #3884
  ThreeRanks ranks;
  const EngineHealth idle = ranks.cluster().engine(0).health();
  EXPECT_EQ(idle.staging_budget_bytes, options().staging_budget_bytes);
  EXPECT_EQ(idle.staging_used_bytes, 0U);
  ranks.cluster().begin(after);
  while (ranks.cluster().engine(0).health().state != StepState::draining) ranks.cluster().tick();
  EXPECT_GT(ranks.cluster().engine(0).health().staging_used_bytes, 0U);
  EXPECT_LE(ranks.cluster().engine(0).health().staging_used_bytes, options().staging_budget_bytes);
  ASSERT_TRUE(ranks.cluster().run_until_idle());
  EXPECT_EQ(ranks.cluster().engine(0).health().staging_used_bytes, 0U);
}

/// A channel that says to hold memory of its own.
class BufferedEnd final : public TransportDecorator {
 public:
  explicit BufferedEnd(std::unique_ptr<Transport> inner)
      : TransportDecorator(std::move(inner)), capabilities_(TransportDecorator::capabilities()) {
    capabilities_.buffer_bytes = 32 << 20;
  }
  [[nodiscard]] const Capabilities& capabilities() const noexcept override { return capabilities_; }

 private:
  Capabilities capabilities_;
};

TEST(PublicReports, BuffersOfTheChannelAreToldBesideStaging) {  // vllm-project/vllm-ascend#6729, #7344
  Cluster cluster(uniform(3, 1, 6), before, options(), [](Rank, std::unique_ptr<Transport> channel) {
    return std::make_unique<BufferedEnd>(std::move(channel));
  });
  const EngineHealth health = cluster.engine(0).health();
  EXPECT_EQ(health.transport_buffer_bytes, 32U << 20);
  EXPECT_EQ(health.staging_budget_bytes, options().staging_budget_bytes);
}

TEST(PublicReports, AStuckMigrationDoesNotHoldUpOtherTraffic) {  // vllm-project/vllm#43110, #44978
  auto forward = *make_inproc_transports(2);
  std::vector<std::unique_ptr<Transport>> migration;
  for (auto& end : forward) migration.push_back(*end->open_channel());
  std::byte never{};
  const Leg stuck = receive_leg(Rank{0}, Tag{1}, std::span(&never, 1));
  ASSERT_TRUE(migration[1]->post(std::span(&stuck, 1)));
  std::byte sent{7};
  std::byte received{};
  const Leg out = send_leg(Rank{1}, Tag{1}, std::span(&sent, 1));
  const Leg in = receive_leg(Rank{0}, Tag{1}, std::span(&received, 1));
  ASSERT_TRUE(forward[0]->post(std::span(&out, 1)));
  const Result<Ticket> ticket = forward[1]->post(std::span(&in, 1));
  ASSERT_TRUE(ticket);
  EXPECT_EQ(*forward[1]->poll(*ticket, 1s), Progress::done);
  EXPECT_EQ(received, sent);
  EXPECT_EQ(never, std::byte{0});
}

}  // namespace
}  // namespace trimtab::test
