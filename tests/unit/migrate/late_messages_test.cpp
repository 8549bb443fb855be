// SPDX-License-Identifier: Apache-2.0
#include "support/cluster.hpp"
#include "support/placements.hpp"

#include <trimtab/transport/decorator.hpp>
#include <trimtab/transport/faulty.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>

namespace trimtab::test {
namespace {

/// A back-end whose sends, once posted, end only when they are received; as MPI's.
class StubbornSends final : public TransportDecorator {
 public:
  explicit StubbornSends(std::unique_ptr<Transport> inner)
      : TransportDecorator(std::move(inner)), capabilities_(this->inner().capabilities()) {
    capabilities_.cancels_sends = false;
  }

  [[nodiscard]] const Capabilities& capabilities() const noexcept override { return capabilities_; }
  Result<Ticket> post(std::span<const Leg> legs) override {
    Result<Ticket> ticket = inner().post(legs);
    const bool sends = std::ranges::any_of(legs, [](const Leg& leg) { return leg.side == Side::send; });
    if (ticket && sends) sends_.insert(*ticket);
    return ticket;
  }
  void cancel(Ticket ticket) noexcept override {
    if (!sends_.contains(ticket)) inner().cancel(ticket);
  }

 private:
  Capabilities capabilities_;
  std::set<Ticket> sends_;
};

/// Rank 1 cannot take the first bundle in and says no, when rank 0 has sent already.
Cluster make_cluster(const Topology& topology, const Placement& before) {
  Fault fault;
  fault.action = FaultAction::fail;
  fault.match.side = Side::receive;
  fault.match.tag = Tag{2};  // Of the first attempt.
  EngineOptions options;
  options.staging_budget_bytes = 5 * 192;
  options.deadline = std::chrono::seconds(5);
  return {topology, before, options, [fault](Rank rank, std::unique_ptr<Transport> channel) {
            std::unique_ptr<Transport> end = std::make_unique<StubbornSends>(std::move(channel));
            if (rank == Rank{0}) return end;
            return std::unique_ptr<Transport>(std::make_unique<FaultyTransport>(
                std::move(end), std::make_shared<FaultScript>(std::vector<Fault>{fault})));
          }};
}

std::size_t staging_used(Cluster& cluster) {
  return std::max(cluster.engine(0).health().staging_used_bytes,
                  cluster.engine(1).health().staging_used_bytes);
}

// Else staging, and the workspaces of layouts that need them, stay quarantined, and no later step has room.
TEST(LateMessages, SendsOfARolledBackStepEndWhereTheyCannotBeCancelled) {
  const Topology topology = uniform(2, 1, 10);
  const Placement before = one_layer(10, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  const Placement after = one_layer(10, {5, 6, 7, 8, 9, 0, 1, 2, 3, 4});
  Cluster cluster = make_cluster(topology, before);
  cluster.begin(after);
  ASSERT_TRUE(cluster.run_until_idle());
  ASSERT_EQ(cluster.engine(0).counters().steps_rolled_back, 1U);
  for (int i = 0; i < 20; ++i) cluster.tick();
  EXPECT_EQ(staging_used(cluster), 0U);
  cluster.begin(after);
  ASSERT_TRUE(cluster.run_until_idle(std::chrono::milliseconds(100)));
  EXPECT_EQ(cluster.find_difference(after), "");
}

}  // namespace
}  // namespace trimtab::test
