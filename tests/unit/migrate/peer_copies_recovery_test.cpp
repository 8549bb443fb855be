// SPDX-License-Identifier: Apache-2.0
#include <trimtab/migrate/peer_copy_source.hpp>
#include <trimtab/transport/inproc.hpp>

#include "support/cluster.hpp"
#include "support/placements.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

namespace trimtab::test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr LayerId layer{0};
constexpr std::int32_t num_ranks = 4;
constexpr Clock::duration tick = 25ms;

/// Experts 4 and 5 lie on ranks 2 and 3, which die; ranks 0 and 1 have room for them.
class RecoveryFromPeers : public testing::Test {
 protected:
  void SetUp() override {
    EngineOptions options;
    options.staging_budget_bytes = 1U << 12;
    options.deadline = 2s;
    options.verify_sample = 100;
    cluster_.emplace(uniform(num_ranks, 1, 16), before_, options, Cluster::Wrap{},
                     HeartbeatOptions{.period = 100ms, .misses = 3},
                     [this](Rank rank) { return sources_[rank.index()].get(); });
    pass(20);
  }

  /// Taken from the slots of rank 2 in the order of `plan`; the keepers answer in the background.
  explicit RecoveryFromPeers(bool has_copies = true) {
    HostCopyPlan plan(num_ranks);
    // The first that is to be asked for 4 dies with the slots.
    for (const Rank keeper : {Rank{2}, Rank{1}}) EXPECT_TRUE(plan.add(layer, ExpertId{4}, keeper));
    EXPECT_TRUE(plan.add(layer, ExpertId{5}, Rank{0}));
    GuardedWeights weights(1, IdRange<SlotId>(SlotId{8}, SlotId{12}));
    weights.fill(before_);
    std::vector<std::byte> bundle(weights.store().bundle_bytes(layer));
    auto channels = *make_inproc_transports(num_ranks);
    for (const Rank rank : ids<Rank>(num_ranks)) {
      auto copies = std::make_shared<HostCopySource>(1U << 12);
      for (const LayerExpert what : plan.kept_by(rank)) {
        weights.store().read_bundle(layer, SlotId{8 + what.expert.value() - 4}, bundle);
        EXPECT_EQ(has_copies, has_copies && copies->add(layer, what.expert, bundle));
      }
      // Pieces of 50 bytes: a bundle is several.
      sources_.push_back(*make_background_peer_copies({.deadline = 60s, .piece_bytes = 50},
                                                      std::move(channels[rank.index()]), std::move(copies),
                                                      plan, nullptr, steady_));
    }
  }

  void pass(int ticks) {
    for (int i = 0; i < ticks; ++i) {
      cluster_->tick();
      cluster_->clock().advance(tick);
    }
  }
  void kill(std::size_t rank) {
    cluster_->kill(rank);
    sources_[rank].reset();
  }
  void lose_two() {
    for (const std::size_t dead : {2U, 3U}) {
      kill(dead);
      pass(20);
    }
    ASSERT_THAT(cluster_->engine(0).view().lost,
                ElementsAre(LayerExpert{layer, ExpertId{4}}, LayerExpert{layer, ExpertId{5}}));
  }
  void recover() {
    for (const std::size_t rank : {0U, 1U})
      ASSERT_TRUE(cluster_->engine(rank).begin_toward({recovered_}).value());
    ASSERT_TRUE(cluster_->run_until_idle(tick));
  }

  const Placement before_ = one_layer(6, {0, 1, -1, -1, 2, 3, -1, -1, 4, 5, 0, 2, 4, 5, 1, 3});
  const Placement recovered_ = one_layer(6, {0, 1, 4, -1, 2, 3, 5, -1, -1, -1, -1, -1, -1, -1, -1, -1});
  SteadyClock steady_;
  std::vector<std::unique_ptr<PeerCopySource>> sources_;
  std::optional<Cluster> cluster_;
};

TEST_F(RecoveryFromPeers, BringsBackWhatTwoRanksTookWithThem) {
  lose_two();
  const Forward held = cluster_->next(0);
  recover();
  EXPECT_TRUE(cluster_->engine(0).view().lost.empty());
  EXPECT_EQ(cluster_->find_difference(recovered_), "");
  for (const std::size_t rank : {0U, 1U}) {
    EXPECT_EQ(sources_[rank]->counters().bundles_read, 1U) << "each from the other";
    EXPECT_EQ(cluster_->engine(rank).counters().bytes_recovered, sources_[rank]->counters().bytes_read);
  }
  pass(10);
  EXPECT_GT(cluster_->next(0), held) << "they serve on";
}

class RecoveryWithoutCopies : public RecoveryFromPeers {
 protected:
  RecoveryWithoutCopies() : RecoveryFromPeers(false) {}
};

TEST_F(RecoveryWithoutCopies, LeavesExpertsLostAndSaysWhoWasAsked) {
  lose_two();
  recover();
  EXPECT_EQ(cluster_->engine(0).view().lost.size(), 2U);
  const auto failed = cluster_->engine(0).health().last_failure;
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->code, Errc::not_found);
  const auto pattern =
      testing::AllOf(HasSubstr("expert 4: rank 2 is gone"), HasSubstr("expert 4: rank 1 has no copy"));
  const auto other = HasSubstr("expert 5: rank 0 has no copy");
  EXPECT_THAT(failed->message, testing::AnyOf(pattern, other));
}

}  // namespace
}  // namespace trimtab::test
