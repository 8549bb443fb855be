// SPDX-License-Identifier: Apache-2.0
#include "moe/transfer_faults.hpp"

#include "support/cluster.hpp"
#include "support/placements.hpp"

#include <trimtab/transport/inproc.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trimtab::moe {
namespace {

using testing::HasSubstr;

constexpr auto deadline = std::chrono::seconds(5);
constexpr std::size_t bundle_bytes = 192;  ///< Of the cluster's weights.

/// Tells the faults of a rank what its engine starts.
class StartObserver final : public EngineObserver {
 public:
  explicit StartObserver(TransferFaults& faults) : faults_(faults) {}
  void on_begin(const Step& step) override { faults_.on_begin(step); }
  void on_commit(const Step& /*step*/, Epoch /*epoch*/) override {}

 private:
  TransferFaults& faults_;
};

/// Engines on a virtual clock with the same faults on every rank.
class FaultyCluster {
 public:
  FaultyCluster(const Topology& topology, const Placement& placement,
                const std::vector<TransferFault>& faults, std::size_t staging_budget = 1 << 20) {
    for (const Rank rank : ids<Rank>(topology.num_ranks()))
      faults_.push_back(std::make_unique<TransferFaults>(faults, topology, rank,
                                                         std::vector<std::size_t>(2, bundle_bytes)));
    EngineOptions options;
    options.staging_budget_bytes = staging_budget;
    options.deadline = deadline;
    cluster_.emplace(topology, placement, options, [&](Rank rank, std::unique_ptr<Transport> channel) {
      return faults_[rank.index()]->wrap(std::move(channel), clock_);
    });
    for (std::size_t r = 0; r < faults_.size(); ++r) {
      observers_.push_back(std::make_unique<StartObserver>(*faults_[r]));
      cluster_->engine(r).set_observer(observers_[r].get());
    }
  }

  /// Runs to `to` or back; the faults' clock goes with the cluster's.
  void migrate(const Placement& to, Clock::duration per_tick = {}) {
    cluster_->begin(to);
    for (int i = 0; i < 1000 && !is_idle(); ++i) {
      cluster_->tick();
      cluster_->clock().advance(per_tick);
      clock_.advance(per_tick);
    }
    ASSERT_TRUE(is_idle());
  }

  [[nodiscard]] bool is_idle() {
    for (std::size_t r = 0; r < cluster_->num_ranks(); ++r) {
      if (!cluster_->engine(r).is_idle()) return false;
    }
    return true;
  }
  [[nodiscard]] test::Cluster& cluster() { return *cluster_; }
  /// How many ranks say that fault `i` struck.
  [[nodiscard]] int num_struck(std::size_t i) const {
    int count = 0;
    for (const auto& faults : faults_) count += faults->struck()[i] ? 1 : 0;
    return count;
  }
  [[nodiscard]] std::uint64_t num_rolled_back() { return cluster_->engine(0).counters().steps_rolled_back; }
  /// Why the ranks took a step back: what each says, one after another.
  [[nodiscard]] std::string failures() {
    std::string all;
    for (std::size_t r = 0; r < cluster_->num_ranks(); ++r) {
      const std::optional<Error> failure = cluster_->engine(r).health().last_failure;
      if (failure) all += failure->message + "\n";
    }
    return all;
  }

 private:
  test::VirtualClock clock_;
  std::vector<std::unique_ptr<TransferFaults>> faults_;
  std::vector<std::unique_ptr<StartObserver>> observers_;
  std::optional<test::Cluster> cluster_;
};

std::string name_of(const Move& move) {
  return "layer " + std::to_string(move.layer.value()) + ": expert " + std::to_string(move.expert.value()) +
         " from slot " + std::to_string(move.source.value()) + " for slot " +
         std::to_string(move.destination.value()) + ":";
}

std::vector<Move> transfers_of(const Program& program) {
  std::vector<Move> transfers;
  for (const Step& step : program.steps) {
    std::ranges::copy_if(step.moves, std::back_inserter(transfers),
                         [](const Move& move) { return is_remote(move.kind); });
  }
  return transfers;
}

struct Case {
  const char* name;
  std::int32_t ranks;
  std::int32_t nodes;
  std::int32_t num_slots;
  std::int32_t num_experts;
  std::size_t staging_budget;
  bool has_relays;
  bool has_steps;  ///< Several.
};

class EachTransfer : public testing::TestWithParam<Case> {
 protected:
  Topology topology_ = test::uniform(GetParam().ranks, GetParam().nodes, GetParam().num_slots);
  Placement from_ = test::random_placement(2, GetParam().num_slots, GetParam().num_experts, 3);
  Placement to_ = test::random_placement(2, GetParam().num_slots, GetParam().num_experts, 4);
};

/// Whichever is to be corrupted, the engine names that one: numbers mean what the document says, relays and
/// steps included, and what is hit is a tensor, since a damaged checksum would be another number.
TEST_P(EachTransfer, IsTheOneThatIsCorrupted) {
  const std::size_t budget = GetParam().staging_budget;
  FaultyCluster sound(topology_, from_, {}, budget);
  const Program program = sound.cluster().make_program(to_);
  const std::vector<Move> transfers = transfers_of(program);
  ASSERT_EQ(std::ranges::count(transfers, MoveKind::relay, &Move::kind) > 0, GetParam().has_relays);
  ASSERT_EQ(program.steps.size() > 1, GetParam().has_steps);
  for (std::size_t n = 0; n < transfers.size(); ++n) {
    FaultyCluster faulty(topology_, from_, {{FaultAction::corrupt, n}}, budget);
    faulty.migrate(to_);
    EXPECT_EQ(faulty.num_struck(0), 1);
    EXPECT_EQ(faulty.num_rolled_back(), 1U);
    EXPECT_THAT(faulty.failures(), HasSubstr(name_of(transfers[n]))) << "transfer " << n;
    faulty.migrate(to_);
    EXPECT_EQ(faulty.cluster().find_difference(to_), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Transfers, EachTransfer,
                         testing::Values(Case{"TwoRanks", 2, 1, 12, 6, 1 << 20, false, false},
                                         Case{"Relays", 6, 2, 24, 16, 1 << 20, true, false},
                                         Case{"ManySteps", 3, 1, 12, 6, 256, false, true}),
                         [](const auto& chosen) { return std::string(chosen.param.name); });

/// Two slots on each of two ranks change places: transfers 0 and 1 to rank 0, 2 and 3 to rank 1.
class FourTransfers : public testing::Test {
 protected:
  Topology topology_ = test::uniform(2, 1, 4);
  Placement before_ = test::one_layer(4, {0, 1, 2, 3});
  Placement after_ = test::one_layer(4, {2, 3, 0, 1});
};

TEST_F(FourTransfers, ADroppedTransferWithOthersBehindItFailsAtOnce) {
  FaultyCluster faulty(topology_, before_, {{FaultAction::drop, 0}});
  faulty.migrate(after_);
  EXPECT_EQ(faulty.num_rolled_back(), 1U);
  EXPECT_EQ(faulty.cluster().engine(0).health().last_failure->code, Errc::corrupt);
  EXPECT_EQ(faulty.cluster().find_difference(before_), "");
  faulty.migrate(after_);
  EXPECT_EQ(faulty.cluster().find_difference(after_), "");
}

TEST_F(FourTransfers, ADroppedLastTransferFailsAtTheDeadline) {
  FaultyCluster faulty(topology_, before_, {{FaultAction::drop, 3}});
  faulty.migrate(after_, std::chrono::milliseconds(100));
  EXPECT_EQ(faulty.num_struck(0), 1);
  EXPECT_EQ(faulty.cluster().engine(0).health().last_failure->code, Errc::timeout);
  EXPECT_EQ(faulty.cluster().find_difference(before_), "");
  faulty.migrate(after_);
  EXPECT_EQ(faulty.cluster().find_difference(after_), "");
}

TEST_F(FourTransfers, AShortDelayIsWaitedForInOrder) {
  FaultyCluster faulty(topology_, before_, {{FaultAction::delay, 0, deadline / 2}});
  faulty.migrate(after_, std::chrono::milliseconds(100));
  EXPECT_EQ(faulty.num_struck(0), 1);
  EXPECT_EQ(faulty.num_rolled_back(), 0U) << faulty.failures();
  EXPECT_EQ(faulty.cluster().find_difference(after_), "");
}

TEST_F(FourTransfers, ALongDelayFailsAtTheDeadline) {
  FaultyCluster faulty(topology_, before_, {{FaultAction::delay, 0, 2 * deadline}});
  faulty.migrate(after_, std::chrono::milliseconds(100));
  EXPECT_EQ(faulty.num_rolled_back(), 1U);
  EXPECT_EQ(faulty.cluster().find_difference(before_), "");
  faulty.migrate(after_, std::chrono::milliseconds(100));
  EXPECT_EQ(faulty.cluster().find_difference(after_), "");
}

TEST_F(FourTransfers, NumbersGoOnFromStepToStep) {
  FaultyCluster faulty(topology_, before_, {{FaultAction::corrupt, 3}, {FaultAction::corrupt, 6}});
  faulty.migrate(after_);
  EXPECT_EQ(faulty.num_struck(0), 1);
  EXPECT_EQ(faulty.num_struck(1), 0);
  faulty.migrate(after_);  // Transfers 4 to 7.
  EXPECT_EQ(faulty.num_struck(1), 1);
  EXPECT_EQ(faulty.num_rolled_back(), 2U);
  faulty.migrate(after_);
  EXPECT_EQ(faulty.cluster().find_difference(after_), "");
}

TEST_F(FourTransfers, WhatNoTransferReachesDoesNotStrike) {
  FaultyCluster faulty(topology_, before_, {{FaultAction::corrupt, 4}});
  faulty.migrate(after_);
  EXPECT_EQ(faulty.num_struck(0), 0);
  EXPECT_EQ(faulty.num_rolled_back(), 0U);
}

/// Rank 0 sends two bundles of 20 bytes to rank 1, each in two pieces, the second with the checksum.
class TwoPieces : public testing::Test {
 protected:
  void spoil(const TransferFault& fault) {
    auto ends = std::move(*make_inproc_transports(2));
    const Topology topology = test::uniform(2, 1, 4);
    faults_.emplace(std::vector<TransferFault>{fault}, topology, Rank{0}, std::vector<std::size_t>{20});
    sender_ = faults_->wrap(std::move(ends[0]), clock_);
    receiver_ = std::move(ends[1]);
    Step step;
    for (const std::int32_t slot : {0, 1})
      step.moves.push_back({LayerId{0}, ExpertId{slot}, SlotId{slot}, SlotId{slot + 2}, MoveKind::transfer});
    faults_->on_begin(step);
    for (std::int32_t bundle = 0; bundle < 2; ++bundle) {
      send({std::span(first_)});
      send({std::span(second_), std::span(checksum_)});
    }
  }

  /// Every leg that arrives, one after another.
  std::vector<std::vector<std::byte>> arrived() {
    std::vector<std::vector<std::byte>> all;
    for (;;) {
      std::vector<std::byte> memory(12);
      const Leg leg = receive_leg(Rank{0}, tag, memory);
      const Ticket ticket = *receiver_->post({&leg, 1});
      if (*receiver_->poll(ticket, std::chrono::nanoseconds(0)) != Progress::done) {
        receiver_->cancel(ticket);
        return all;
      }
      all.push_back(memory);
    }
  }
  static constexpr Tag tag{7};

  void send(std::initializer_list<std::span<const std::byte>> parts) {
    std::vector<Leg> legs;
    for (const auto part : parts) legs.push_back(send_leg(Rank{1}, tag, part));
    last_ = *sender_->post(legs);
  }

  const std::vector<std::byte> first_ = std::vector<std::byte>(12, std::byte{1});
  const std::vector<std::byte> second_ = std::vector<std::byte>(8, std::byte{2});
  const std::vector<std::byte> checksum_ = std::vector<std::byte>(8, std::byte{3});
  test::VirtualClock clock_;
  std::optional<TransferFaults> faults_;
  std::unique_ptr<Transport> sender_;
  std::unique_ptr<Transport> receiver_;
  Ticket last_;
};

TEST_F(TwoPieces, OnlyTheFirstPieceIsCorrupted) {
  spoil({FaultAction::corrupt, 1});
  const auto legs = arrived();
  ASSERT_EQ(legs.size(), 6U);
  const std::vector<std::size_t> damaged = [&] {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < legs.size(); ++i) {
      if (std::ranges::find(legs[i], std::byte{0xfe}) != legs[i].end()) found.push_back(i);
    }
    return found;
  }();
  EXPECT_EQ(damaged, std::vector<std::size_t>{3});
}

TEST_F(TwoPieces, AllPiecesOfADroppedTransferAreLost) {
  spoil({FaultAction::drop, 0});
  EXPECT_EQ(arrived().size(), 3U);
}

TEST_F(TwoPieces, ADelayHoldsAllPiecesAndWhatFollows) {
  spoil({FaultAction::delay, 1, std::chrono::milliseconds(5)});
  EXPECT_EQ(arrived().size(), 3U);
  clock_.advance(std::chrono::milliseconds(5));
  EXPECT_EQ(*sender_->poll(last_, std::chrono::nanoseconds(0)), Progress::pending);
  EXPECT_EQ(arrived().size(), 3U);
}

}  // namespace
}  // namespace trimtab::moe
