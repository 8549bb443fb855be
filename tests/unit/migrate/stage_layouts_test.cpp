// SPDX-License-Identifier: Apache-2.0
#include "migrate/stage_pieces.hpp"
#include "migrate/stage_run.hpp"
#include "migrate/staging.hpp"
#include "support/placements.hpp"
#include "verify/layout_weights.hpp"
#include "verify/virtual_clock.hpp"

#include <trimtab/transport/decorator.hpp>
#include <trimtab/transport/inproc.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace trimtab::test {
namespace {

using verify::Arrangement;
using verify::BundleShape;
using verify::LayoutWeights;
using verify::SlotContents;
using verify::VirtualClock;

constexpr std::int32_t num_slots = 6;  ///< Of each of two ranks.
const BundleShape bundle{{"w13", ElementType::int8, 530, 1000},
                         {"scale", ElementType::float32, 1, 530},
                         {"w2", ElementType::bfloat16, 100, 500}};
/// Of one slot: its matrices.
constexpr std::size_t converted = 530 * 1000 + 100 * 500 * 2;

/// Slots hold the expert of their number in every layer; the first six are of rank 0.
Move move(std::int32_t layer, std::int32_t source, std::int32_t destination, MoveKind kind,
          std::int32_t round = 0) {
  return {LayerId{layer}, ExpertId{source}, SlotId{source}, SlotId{destination}, kind, round};
}

/// One that does not say when it reads: all of a bundle is then posted before any of it is taken.
class SilentTransport final : public TransportDecorator {
 public:
  explicit SilentTransport(std::unique_ptr<Transport> end)
      : TransportDecorator(std::move(end)), capabilities_(inner().capabilities()) {
    capabilities_.tells_watchers = false;
  }

  [[nodiscard]] const Capabilities& capabilities() const noexcept override { return capabilities_; }

  Result<Ticket> post(std::span<const Leg> legs) override {
    std::vector<Leg> silent(legs.begin(), legs.end());
    for (Leg& leg : silent) leg.watcher = nullptr;
    return inner().post(silent);
  }

 private:
  Capabilities capabilities_;
};

/// Two ranks in the middle of a step, over layers of 4 MB.
class StageLayouts {
 public:
  StageLayouts(std::int32_t num_layers, Arrangement arrangement, std::vector<Move> moves,
               const BundleShape& shape = bundle) {
    step_.moves = std::move(moves);
    const std::vector<BundleShape> layers(static_cast<std::size_t>(num_layers), shape);
    const auto identity = *Placement::identity(num_layers, 2 * num_slots, 2 * num_slots);
    for (auto& end : channels_) end = std::make_unique<SilentTransport>(std::move(end));
    for (Rank rank : ids<Rank>(2)) {
      const IdRange<SlotId> slots = topology_.slots_of(rank);
      auto& weights = *ranks_.emplace_back(std::make_unique<LayoutWeights>(
          LayoutWeights::Options{.layers = layers, .arrangement = arrangement}, slots));
      contents_.emplace_back(identity, slots);
      weights.fill(contents_.back());
      const StageRun::Context context{*channels_[rank.index()], weights.store(), topology_, Tag{7}};
      staging_.emplace_back(StageRun::staging_need(step_, topology_, rank, weights.store()));
      runs_.push_back(std::make_unique<StageRun>(context, step_, staging_.back()));
    }
  }

  [[nodiscard]] ExpertStore& store(std::size_t rank) { return ranks_[rank]->store(); }
  [[nodiscard]] StageRun& run(std::size_t rank) { return *runs_[rank]; }
  /// One piece of work. @return what it converted.
  std::uint64_t progress(std::size_t rank) {
    const std::uint64_t before = store(rank).bytes_converted();
    const Result<bool> worked = run(rank).progress(clock_, clock_.now());
    EXPECT_TRUE(worked) << worked.error().message;
    return store(rank).bytes_converted() - before;
  }
  void stage() {
    for (std::size_t call = 0; !is_complete(); ++call) {
      progress(call % 2);
      ASSERT_LT(call, 1000U);
    }
  }
  /// @return what it converted on `rank`.
  std::uint64_t exchange(std::size_t rank) {
    const std::uint64_t before = store(rank).bytes_converted();
    run(rank).exchange();
    return store(rank).bytes_converted() - before;
  }
  [[nodiscard]] bool is_complete() const {
    return std::ranges::all_of(runs_, [](const auto& run) { return run->is_complete(); });
  }
  /// Against what was there before, or with `step` done.
  void check(bool is_done) {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      if (is_done) contents_[rank].apply(step_);
      const auto found = ranks_[rank]->first_difference(contents_[rank]);
      EXPECT_FALSE(found) << to_string(*found);
    }
  }

 private:
  Topology topology_ = uniform(2, 1, 2 * num_slots);
  std::vector<std::unique_ptr<Transport>> channels_ = *make_inproc_transports(2);
  VirtualClock clock_;
  Step step_;
  std::vector<std::unique_ptr<LayoutWeights>> ranks_;
  std::vector<SlotContents> contents_;
  std::vector<std::vector<std::byte>> staging_;
  std::vector<std::unique_ptr<StageRun>> runs_;
};

class StageOverLayouts : public testing::TestWithParam<Arrangement> {};

TEST_P(StageOverLayouts, ConvertsOnePieceAtATimeWithoutABudget) {
  StageLayouts ranks(1, GetParam(),
                     {move(0, 7, 0, MoveKind::transfer), move(0, 2, 1, MoveKind::displaced),
                      move(0, 1, 2, MoveKind::local_copy), move(0, 0, 6, MoveKind::transfer)});
  for (std::size_t call = 0; !ranks.is_complete(); ++call) {
    ASSERT_LE(ranks.progress(call % 2), piece_bytes);
    ASSERT_LT(call, 1000U);
  }
  ranks.check(false);
  ranks.exchange(0);
  ranks.exchange(1);
  ranks.check(true);
  for (std::size_t rank = 0; rank < 2; ++rank) EXPECT_TRUE(ranks.run(rank).verify_exchanged(100, 0));
}

/// What was read for the vote is not read again, nor are slots that stay as they are.
TEST_P(StageOverLayouts, ConvertsWhatIsReadOrExchangedAndNoMore) {
  StageLayouts ranks(1, GetParam(), {move(0, 7, 0, MoveKind::transfer), move(0, 1, 2, MoveKind::local_copy)});
  ranks.stage();
  EXPECT_EQ(ranks.store(0).bytes_converted(), 3 * converted);  // From slot 1, and where bundles come to.
  EXPECT_EQ(ranks.store(1).bytes_converted(), converted);
  EXPECT_EQ(ranks.exchange(0), 2 * converted);  // Back.
  EXPECT_EQ(ranks.exchange(1), 0U);
  ranks.check(true);
  EXPECT_TRUE(ranks.run(0).verify_exchanged(1, 0));
  EXPECT_EQ(ranks.store(0).bytes_converted(), (3 + 2 + 1) * converted);
}

TEST_P(StageOverLayouts, ExchangesTheLayerThatIsOpenFirst) {
  StageLayouts ranks(2, GetParam(),
                     {move(0, 1, 2, MoveKind::local_copy), move(0, 2, 1, MoveKind::displaced),
                      move(1, 1, 2, MoveKind::local_copy), move(1, 2, 1, MoveKind::displaced)});
  ranks.stage();
  EXPECT_EQ(ranks.store(0).bytes_converted(), 4 * converted);
  EXPECT_EQ(ranks.exchange(0), 6 * converted);  // Two layers back, one there.
  ranks.check(true);
}

/// Copies of a layer go along with its sends, whose order is that of the rounds.
TEST_P(StageOverLayouts, OpensALayerOnceForSendsAndCopies) {
  StageLayouts ranks(2, GetParam(),
                     {move(0, 0, 1, MoveKind::local_copy), move(0, 0, 6, MoveKind::transfer, 1),
                      move(1, 0, 1, MoveKind::local_copy), move(1, 0, 6, MoveKind::transfer, 0)});
  ranks.stage();
  EXPECT_EQ(ranks.store(0).bytes_converted(), 3 * converted);  // A source of each layer, slot 1 of the last.
  ranks.exchange(0);
  ranks.exchange(1);
  ranks.check(true);
}

TEST_P(StageOverLayouts, FinishesTheCopiesOfALayerBeforeItOpensAnother) {
  StageLayouts ranks(2, GetParam(),
                     {move(0, 0, 1, MoveKind::local_copy), move(1, 0, 1, MoveKind::local_copy),
                      move(1, 0, 2, MoveKind::local_copy), move(1, 0, 3, MoveKind::local_copy),
                      move(1, 0, 4, MoveKind::local_copy), move(1, 0, 5, MoveKind::local_copy),
                      move(1, 0, 6, MoveKind::transfer)});
  ranks.stage();
  EXPECT_EQ(ranks.store(0).bytes_converted(), 3 * converted);  // A source of each layer, slot 1 of the last.
}

TEST_P(StageOverLayouts, KeepsALayerOpenAsLongAsItIsCopied) {
  std::vector<Move> moves{move(1, 0, 6, MoveKind::transfer, 0), move(0, 0, 6, MoveKind::transfer, 1)};
  for (const std::int32_t slot : {1, 2, 3, 4, 5}) moves.push_back(move(1, 0, slot, MoveKind::local_copy));
  StageLayouts ranks(2, GetParam(), std::move(moves));
  ranks.stage();
  ranks.exchange(0);
  ranks.exchange(1);
  ranks.check(true);
}

/// Two bundles that are sent in one piece each, to a rank that does not take the first for a while.
TEST_P(StageOverLayouts, KeepsALayerOpenAsLongAsItIsSent) {
  StageLayouts ranks(2, GetParam(),
                     {move(0, 0, 6, MoveKind::transfer, 0), move(1, 0, 6, MoveKind::transfer, 1)},
                     {{"w13", ElementType::int8, 100, 50}});
  for (int i = 0; i < 20; ++i) ranks.progress(0);
  EXPECT_EQ(ranks.store(0).bytes_converted(), 100 * 50U);
  ranks.stage();
  ranks.exchange(1);
  ranks.check(true);
}

INSTANTIATE_TEST_SUITE_P(OfHostMemory, StageOverLayouts,
                         testing::Values(Arrangement::nz, Arrangement::padded_rows), [](const auto& tested) {
                           return tested.param == Arrangement::nz ? "Nz" : "PaddedRows";
                         });

/// A whole storage is read for all slots, once per opening.
TEST(StageOverWholeStorages, ReadsThemBeforeTheVoteAndOnlyWritesThemInTheExchange) {
  StageLayouts ranks(1, Arrangement::poisoning_nz,
                     {move(0, 7, 0, MoveKind::transfer), move(0, 1, 2, MoveKind::local_copy)});
  ranks.stage();
  const std::uint64_t whole = (num_slots + 2) * converted;  // With two fused experts.
  EXPECT_EQ(ranks.store(0).bytes_converted(), whole);
  EXPECT_EQ(ranks.exchange(0), whole);
  EXPECT_EQ(ranks.exchange(1), 0U);
  ranks.check(true);
}

}  // namespace
}  // namespace trimtab::test
