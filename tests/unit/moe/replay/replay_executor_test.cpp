// SPDX-License-Identifier: Apache-2.0
#include "moe/replay/replay_executor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "unit/moe/rank_threads.hpp"

namespace trimtab::moe {
namespace {

/// Forwards of `counts[forward][rank]` tokens with one executor per rank, each compared with the reference.
void expect_reference(const ModelConfig& config, const Placement& placement,
                      const std::vector<std::vector<std::size_t>>& counts,
                      WeightLayout layout = WeightLayout::dense) {
  const auto ranks = static_cast<std::int32_t>(counts[0].size());
  std::size_t most = 0;
  for (const auto& of_forward : counts) most = std::max(most, std::ranges::max(of_forward));
  RankThreads cluster(config, ranks, placement.num_slots(), layout);
  cluster.load(placement);
  const Reals bias = some_bias(config);
  cluster.on_all([&](Rank rank) {
    const auto executor = cluster.make_replay(rank, most);
    for (std::uint64_t f = 0; f < counts.size(); ++f) {
      Reals states = tokens_of(config, rank, Forward{f}, counts[f][rank.index()]);
      const Reals expected = reference_of(config, states);
      const Status done = executor->forward(Forward{f}, states, bias, cluster.table(rank));
      ASSERT_TRUE(done.has_value()) << done.error().message;
      EXPECT_EQ(states, expected) << ranks << " ranks, rank " << rank.value() << ", forward " << f;
    }
  });
}

// The largest first, so that padding holds tokens of other forwards.
const std::vector<std::vector<std::size_t>> sizes{{33}, {0}, {1}, {2}, {3}, {4}, {5}, {17}, {32}, {31}, {33}};

TEST(ReplayExecutor, EqualsReferenceForEveryBatchSize) {
  expect_reference(small, identity(small, 8), sizes);
  expect_reference(small, shuffled(small, 12, 4), sizes);
}

TEST(ReplayExecutor, EqualsReferenceFromFractalNz) {
  const ModelConfig odd{.num_layers = 2, .num_experts = 5, .top_k = 2, .hidden = 37, .intermediate = 19};
  expect_reference(odd, shuffled(odd, 7, 1), sizes, WeightLayout::nz);
}

TEST(ReplayExecutor, EqualsReferenceOnTwoAndFourRanks) {
  for (const WeightLayout layout : {WeightLayout::dense, WeightLayout::nz}) {
    expect_reference(small, shuffled(small, 12, 0), {{9, 12}, {12, 1}, {0, 3}, {0, 0}, {5, 0}}, layout);
    expect_reference(small, shuffled(small, 15, 2), {{3, 5, 4, 7}, {0, 7, 0, 2}, {1, 1, 1, 1}}, layout);
  }
}

TEST(ReplayExecutor, EqualsReferenceInLargeBatches) {
  const ModelConfig narrow{.num_layers = 1, .num_experts = 2, .top_k = 2, .hidden = 16, .intermediate = 8};
  expect_reference(narrow, identity(narrow, 2), {{300, 77}, {2, 290}});
}

TEST(ReplayExecutor, ServesNobodyWithoutTokens) { expect_reference(small, identity(small, 8), {{0}, {0}}); }

TEST(ReplayExecutor, TakesTheSmallestForwardThatFits) {
  RankThreads cluster(small, 1, 8);
  cluster.load(identity(small, 8));
  const auto executor = cluster.make_replay(Rank{0}, 12);
  EXPECT_EQ(executor->report().sizes, (std::vector<std::int64_t>{1, 2, 4, 8, 12}));
  std::vector<std::int64_t> padded;
  for (const std::size_t count : {0U, 1U, 2U, 3U, 8U, 9U, 12U}) {
    Reals states = tokens_of(small, Rank{0}, Forward{0}, count);
    ASSERT_TRUE(executor->forward(Forward{0}, states, some_bias(small), cluster.table(Rank{0})).has_value());
    padded.push_back(executor->report().padded_rows);
  }
  EXPECT_EQ(padded, (std::vector<std::int64_t>{1, 1, 1, 2, 2, 5, 5}));
  EXPECT_EQ(executor->report().replays, 7);
  EXPECT_EQ(executor->report().tokens, 35);
  EXPECT_EQ(executor->report().tables, 1);
}

TEST(ReplayExecutor, CountsNoPadding) {
  RankThreads cluster(small, 2, 12);
  const Placement placement = shuffled(small, 12, 5);
  cluster.load(placement);
  cluster.record(12);
  std::vector<std::int64_t> rows(small.layers() * 12, 0);
  cluster.on_all([&](Rank rank) {
    const auto executor = cluster.make_replay(rank, 32);
    Reals states = tokens_of(small, rank, Forward{0}, 17 + 3 * rank.index());
    ASSERT_TRUE(executor->forward(Forward{0}, states, some_bias(small), cluster.table(rank)).has_value());
    for (const LayerId layer : ids<LayerId>(small.num_layers)) {
      const auto local = executor->rows(layer);
      const std::size_t first = layer.index() * 12 + cluster.topology().slots_of(rank).first().index();
      std::ranges::copy(local, rows.begin() + static_cast<std::ptrdiff_t>(first));
    }
  });
  std::vector<std::int64_t> recorded(rows.size(), 0);
  for (const Rank rank : ids<Rank>(2)) {
    const std::vector<SlotCounts> window = cluster.recorder(rank).take_window({});
    ASSERT_EQ(window.size(), 1u);
    EXPECT_EQ(window[0].expected, std::vector<std::int64_t>(small.layers(), (17 + 3 * rank.value()) * 3));
    EXPECT_TRUE(fold_counts(window[0], placement).has_value());
    for (std::size_t i = 0; i < recorded.size(); ++i) recorded[i] += window[0].counts[i];
  }
  EXPECT_EQ(rows, recorded);
}

/// Expert by slot, with those in slots 0 and 7 of every layer exchanged.
Placement exchanged(const ModelConfig& config) {
  std::vector<ExpertId> map;
  for (std::int32_t layer = 0; layer < config.num_layers; ++layer) {
    for (std::int32_t slot = 0; slot < 8; ++slot) map.emplace_back(slot == 0 ? 7 : slot == 7 ? 0 : slot);
  }
  return *Placement::make(config.num_layers, 8, config.num_experts, map);
}

/// As a commit does it: bundles swap through the store, in the storage that is registered.
void exchange_in_place(ExpertMemory& memory) {
  ExpertStore store(small.num_layers, memory.slots());
  ASSERT_TRUE(memory.register_in(store).has_value());
  for (const LayerId layer : ids<LayerId>(small.num_layers)) {
    std::vector<std::byte> bundle(store.bundle_bytes(layer));
    store.begin_layer(layer);
    store.read_bundle(layer, SlotId{0}, bundle);
    store.exchange_bundle(layer, SlotId{7}, bundle);
    store.exchange_bundle(layer, SlotId{0}, bundle);
    store.end_layer(layer);
  }
}

class ReplayAfterMigration : public testing::TestWithParam<WeightLayout> {
 protected:
  ReplayAfterMigration() : cluster_(small, 1, 8, GetParam()) { cluster_.load(identity(small, 8)); }

  Reals serve(ForwardRunner& executor, const RoutingTable& table) {
    Reals states = tokens_of(small, Rank{0}, Forward{0}, 20);
    const Status done = executor.forward(Forward{0}, states, some_bias(small), table);
    EXPECT_TRUE(done.has_value()) << done.error().message;
    return states;
  }
  [[nodiscard]] RoutingTable next_table() const {
    return *RoutingTable::compile(exchanged(small), cluster_.topology(), {Epoch{1}, 0});
  }

  RankThreads cluster_;
  const Reals expected_ = reference_of(small, tokens_of(small, Rank{0}, Forward{0}, 20));
};

TEST_P(ReplayAfterMigration, IsRightWhenWeightsAndTableAreWrittenInPlace) {
  const auto executor = cluster_.make_replay(Rank{0}, 32);
  EXPECT_EQ(serve(*executor, cluster_.table(Rank{0})), expected_);
  exchange_in_place(cluster_.memory(Rank{0}));
  EXPECT_EQ(serve(*executor, next_table()), expected_);
  EXPECT_EQ(executor->report().tables, 2);
}

// What an engine does that gives a layer a new parameter instead of copying into the one it has.
TEST_P(ReplayAfterMigration, IsWrongWhenWeightsAreInNewStorageUntilItIsRecordedAgain) {
  ExpertMemory replacement(small, cluster_.memory(Rank{0}).slots(), GetParam());
  ASSERT_TRUE(replacement.load(exchanged(small)).has_value());
  const auto executor = cluster_.make_replay(Rank{0}, 32);
  EXPECT_EQ(serve(*executor, cluster_.table(Rank{0})), expected_);
  EXPECT_NE(serve(*executor, next_table()), expected_);
  EXPECT_EQ(serve(*cluster_.make_replay(Rank{0}, 32, replacement), next_table()), expected_);
}

TEST_P(ReplayAfterMigration, ReadsTheAddressesOfRecording) {
  const auto executor = cluster_.make_replay(Rank{0}, 2);
  exchange_in_place(cluster_.memory(Rank{0}));
  const std::byte* const table = executor->table_memory().data();
  EXPECT_EQ(serve(*cluster_.make_replay(Rank{0}, 32), next_table()), expected_);
  std::size_t num_experts = 0;
  for (const RecordedForward& recorded : executor->recorded()) {
    std::size_t at = 0;
    for (const replay::Operation& operation : recorded.operations()) {
      const auto* run = std::get_if<replay::RunExpert>(&operation);
      if (run == nullptr) continue;
      const LayerId layer{static_cast<std::int32_t>(at++ / 8)};
      const std::vector<TensorSpec> now = cluster_.memory(Rank{0}).tensors(layer);
      EXPECT_EQ(run->bundle.w13.at, now[0].base + run->slot * now[0].stride_bytes);
      EXPECT_EQ(reinterpret_cast<const std::byte*>(run->bundle.w2_offset),
                now[5].base + run->slot * now[5].stride_bytes);
      ++num_experts;
    }
  }
  EXPECT_EQ(num_experts, 2 * 3 * 8U);
  EXPECT_EQ(executor->table_memory().data(), table);
}

INSTANTIATE_TEST_SUITE_P(Layouts, ReplayAfterMigration,
                         testing::Values(WeightLayout::dense, WeightLayout::nz));

}  // namespace
}  // namespace trimtab::moe
