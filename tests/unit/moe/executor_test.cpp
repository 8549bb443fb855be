// SPDX-License-Identifier: Apache-2.0
#include "moe/executor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "unit/moe/rank_threads.hpp"

namespace trimtab::moe {
namespace {

void expect_reference(const ModelConfig& config, std::int32_t ranks, const Placement& placement,
                      const std::vector<std::size_t>& counts, WeightLayout layout = WeightLayout::dense) {
  RankThreads cluster(config, ranks, placement.num_slots(), layout);
  cluster.load(placement);
  const std::vector<Reals> outputs = cluster.forward(counts);
  for (const Rank rank : ids<Rank>(ranks)) {
    const Reals expected = reference_of(config, tokens_of(config, rank, Forward{0}, counts[rank.index()]));
    EXPECT_EQ(outputs[rank.index()], expected) << ranks << " ranks, rank " << rank.value();
  }
}

TEST(RankExecutor, EqualsReferenceForEveryBatchSize) {
  for (const std::size_t count : {1U, 2U, 3U, 5U, 17U, 33U}) {
    expect_reference(small, 1, identity(small, 8), {count});
  }
}

TEST(RankExecutor, EqualsReferenceOnTwoAndFourRanks) {
  expect_reference(small, 2, identity(small, 8), {9, 12});
  expect_reference(small, 4, identity(small, 10), {3, 1, 4, 7});
}

TEST(RankExecutor, EqualsReferenceUnderShuffledReplicas) {
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    expect_reference(small, 2, shuffled(small, 12, seed), {9, 12});
    expect_reference(small, 4, shuffled(small, 15, seed), {3, 5, 4, 7});
  }
}

TEST(RankExecutor, EqualsReferenceForOddShapes) {
  const ModelConfig odd{.num_layers = 2, .num_experts = 5, .top_k = 2, .hidden = 37, .intermediate = 19};
  expect_reference(odd, 2, shuffled(odd, 7, 1), {6, 11});
}

TEST(RankExecutor, EqualsReferenceInLargeBatches) {
  // More than one block of rows per expert.
  const ModelConfig narrow{.num_layers = 1, .num_experts = 2, .top_k = 2, .hidden = 16, .intermediate = 8};
  expect_reference(narrow, 2, identity(narrow, 2), {300, 77});
}

// sgl-project/sglang#17676, #29424: experts in fractal NZ came out wrong.
TEST(RankExecutor, EqualsReferenceFromFractalNz) {
  const ModelConfig odd{.num_layers = 2, .num_experts = 5, .top_k = 2, .hidden = 37, .intermediate = 19};
  expect_reference(odd, 2, shuffled(odd, 7, 1), {6, 11}, WeightLayout::nz);
  expect_reference(small, 4, shuffled(small, 15, 2), {3, 5, 4, 7}, WeightLayout::nz);
}

// sgl-project/sglang test_lplb_distributed: a rank without tokens skipped its part and the others hung.
TEST(RankExecutor, RanksWithoutTokensTakePart) {
  expect_reference(small, 4, shuffled(small, 12, 3), {0, 5, 0, 2});
  expect_reference(small, 2, identity(small, 8), {0, 1});
}

TEST(RankExecutor, ManyForwardsWithOneExecutorEqualReference) {
  RankThreads cluster(small, 2, 12);
  const Placement placement = shuffled(small, 12, 7);
  cluster.load(placement);
  const Reals bias = some_bias(small);
  cluster.on_all([&](Rank rank) {
    const auto executor = cluster.make(rank, 8);
    for (std::uint64_t f = 0; f < 6; ++f) {
      Reals states = tokens_of(small, rank, Forward{f}, 1 + (f * 3 + rank.index()) % 8);
      const Reals expected = reference_of(small, states);
      const Status done = executor->forward(Forward{f}, states, bias, cluster.table(rank));
      ASSERT_TRUE(done.has_value()) << done.error().message;
      EXPECT_EQ(states, expected) << "forward " << f;
    }
  });
}

TEST(RankExecutor, OutputDoesNotDependOnReplicaOrRank) {
  std::optional<std::vector<Reals>> first;
  for (std::uint32_t seed = 0; seed < 3; ++seed) {
    RankThreads cluster(small, 2, 16);
    cluster.load(shuffled(small, 16, seed));
    const std::vector<Reals> outputs = cluster.forward({10, 10});
    if (!first) first = outputs;
    EXPECT_EQ(outputs, *first);
  }
}

// vllm-project/vllm#34646 and others: weights moved, scales did not. The comparison must see it.
TEST(RankExecutor, WrongTensorInOneSlotChangesOutputs) {
  const Placement placement = identity(small, 8);
  const std::vector<std::function<void(Bundle)>> mutations{
      [](Bundle b) { b.w13[3] = static_cast<std::int8_t>(b.w13[3] > 0 ? -60 : 60); },
      [](Bundle b) { b.w13_scale[1] *= 1.5f; },
      [](Bundle b) { b.w13_offset[2] += 3; },
      [](Bundle b) { b.w2[5] = static_cast<std::int8_t>(b.w2[5] > 0 ? -60 : 60); },
      [](Bundle b) { b.w2_scale[0] *= 1.5f; },
      [](Bundle b) { b.w2_offset[4] -= 3; }};
  for (std::size_t i = 0; i < mutations.size(); ++i) {
    RankThreads cluster(small, 2, 8);
    cluster.load(placement);
    mutations[i](cluster.memory(Rank{1}).bundle(LayerId{0}, SlotId{6}));
    const std::vector<Reals> outputs = cluster.forward({20, 20});
    EXPECT_NE(outputs[0], reference_of(small, tokens_of(small, Rank{0}, Forward{0}, 20))) << "mutation " << i;
  }
}

TEST(RankExecutor, ReportsRowsOfEachSlotAsRecorded) {
  RankThreads cluster(small, 2, 12);
  const Placement placement = shuffled(small, 12, 5);
  cluster.load(placement);
  cluster.record(12);
  const Reals bias = some_bias(small);
  std::vector<std::int64_t> rows(small.layers() * 12, 0);
  cluster.on_all([&](Rank rank) {
    const auto executor = cluster.make(rank, 25);
    Reals states = tokens_of(small, rank, Forward{0}, 25);
    ASSERT_TRUE(executor->forward(Forward{0}, states, bias, cluster.table(rank)).has_value());
    for (const LayerId layer : ids<LayerId>(small.num_layers)) {
      const auto local = executor->rows(layer);
      const std::size_t first = layer.index() * 12 + cluster.topology().slots_of(rank).first().index();
      std::copy(local.begin(), local.end(), rows.begin() + static_cast<std::ptrdiff_t>(first));
    }
  });
  std::vector<std::int64_t> recorded(rows.size(), 0);
  for (const Rank rank : ids<Rank>(2)) {
    const std::vector<SlotCounts> window = cluster.recorder(rank).take_window({});
    ASSERT_EQ(window.size(), 1u);
    EXPECT_TRUE(fold_counts(window[0], placement).has_value());
    for (std::size_t i = 0; i < recorded.size(); ++i) recorded[i] += window[0].counts[i];
  }
  EXPECT_EQ(rows, recorded);
}

}  // namespace
}  // namespace trimtab::moe
