// SPDX-License-Identifier: Apache-2.0
#include "moe/service.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <vector>

#include "unit/moe/serve_ranks.hpp"

namespace trimtab::moe {
namespace {

using testing::HasSubstr;

constexpr ModelConfig model{
    .num_layers = 2, .num_experts = 8, .top_k = 2, .hidden = 40, .intermediate = 24, .seed = 3};

/// A few experts are hot, others after half of the run.
std::vector<float> hot_bias() {
  std::vector<float> bias(2 * model.layers() * model.experts(), 0.0f);
  for (std::size_t phase = 0; phase < 2; ++phase) {
    for (std::size_t layer = 0; layer < model.layers(); ++layer) {
      for (std::size_t e = 0; e < 3; ++e)
        bias[(phase * model.layers() + layer) * model.experts() + 4 * phase + e] = 0.4f;
    }
  }
  return bias;
}

ServiceOptions options_for(std::int32_t ranks) {
  ServiceOptions options{.model = model,
                         .topology = *Topology::make_uniform(ranks, 1, 5 * ranks),
                         .schedule = *GateSchedule::make(model, hot_bias(), 32)};
  options.tokens_per_rank = 24;
  options.num_quads = 2;
  options.block_forwards = 8;
  options.rebalance_every = 2;
  options.reference_batches = 2;
  options.migration_deadline = std::chrono::seconds(20);
  return options;
}

TEST(Service, ServesAlikeInEveryLayout) {
  ServiceOptions options = options_for(2);
  const ServiceReport dense = serve(options)[0];
  options.layout = WeightLayout::nz;
  const ServiceReport nz = serve(options)[0];
  for (const ServiceReport& report : {dense, nz}) {
    EXPECT_TRUE(report.outputs_identical);
    EXPECT_EQ(report.unchanged_slots_written, 0);
    EXPECT_GT(report.slots_moved, 0);
    EXPECT_GT(report.rows_on_moved_slots, 0);
    EXPECT_EQ(report.rolled_back, 0) << report.last_problem;
    EXPECT_GT(report.migration.buffers.staging_peak_bytes, 0U);
    EXPECT_LE(report.migration.buffers.staging_peak_bytes, report.migration.buffers.staging_budget_bytes);
    EXPECT_EQ(report.migration.engine.state, StepState::idle);
    EXPECT_TRUE(report.migration.engine.last_commit_age.has_value());
  }
  EXPECT_EQ(dense.migration.buffers.workspace_bytes, 0U);
  // One workspace per shape: 5 slots of w13 (48 rows of 40 bytes) and of w2 (40 rows of 24).
  EXPECT_EQ(nz.migration.buffers.workspace_bytes, 5U * (48 * 40 + 40 * 24));
}

TEST(Service, GoesOnAfterACorruptedTransfer) {
  for (const WeightLayout layout : {WeightLayout::dense, WeightLayout::nz}) {
    ServiceOptions options = options_for(3);
    options.layout = layout;
    options.faults = {{FaultAction::corrupt, 2}, {FaultAction::drop, 1'000'000}};
    const std::vector<ServiceReport> reports = serve(options);
    for (const ServiceReport& report : reports) {
      EXPECT_TRUE(report.outputs_identical);
      EXPECT_EQ(report.rolled_back, 1);
      EXPECT_GT(report.epochs, 0);
      EXPECT_EQ(report.migration.struck, (std::vector<bool>{true, false}));
      ASSERT_EQ(report.migration.rollbacks.size(), 1U);
      // As the receiving rank tells it, not as the others were told.
      EXPECT_EQ(report.migration.rollbacks[0].code, Errc::corrupt);
      EXPECT_THAT(report.migration.rollbacks[0].why, HasSubstr("in staging"));
      EXPECT_TRUE(report.migration.rollbacks[0].is_cause);
    }
  }
}

// vllm-project/vllm#34646: scales stayed behind when weights moved, and nothing noticed.
TEST(Service, NoticesMutants) {
  for (const Mutant mutant : {Mutant::wrong_scale, Mutant::table_before_weights}) {
    ServiceOptions options = options_for(2);
    options.mutant = mutant;
    options.block_forwards = 16;
    EXPECT_FALSE(serve(options)[0].outputs_identical) << to_string(mutant);
  }
}

TEST(Service, ServesAlikeByReplayInEveryLayout) {
  for (const WeightLayout layout : {WeightLayout::dense, WeightLayout::nz}) {
    ServiceOptions options = options_for(2);
    options.layout = layout;
    options.graph_replay = true;
    for (const ServiceReport& report : serve(options)) {
      EXPECT_TRUE(report.outputs_identical);
      EXPECT_EQ(report.unchanged_slots_written, 0);
      EXPECT_GT(report.migrations, 0);
      EXPECT_GT(report.rows_on_moved_slots, 0);
      EXPECT_EQ(report.rolled_back, 0) << report.last_problem;
      EXPECT_EQ(report.windows_refused, 0);
      // Two arms on two ranks.
      EXPECT_EQ(report.replays.replays, static_cast<std::int64_t>(4 * options.forwards()));
      EXPECT_EQ(report.replays.tokens, 24 * report.replays.replays);
      // The first table of each arm and rank, and on both ranks one for each epoch that a forward followed.
      EXPECT_GT(report.replays.tables, 4);
      EXPECT_LE(report.replays.tables, 4 + 2 * report.epochs);
    }
  }
}

TEST(Service, ReplaysWhatIsLeftWhenARankIsLost) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "trimtab_replay_survival";
  std::filesystem::create_directories(folder);
  ServiceOptions options = options_for(3);
  options.topology = *Topology::make_uniform(3, 1, 21);
  options.graph_replay = true;
  options.survival.emplace().checkpoint = folder;
  options.rank_fault.emplace();
  options.rank_fault->rank = Rank{1};
  options.rank_fault->forward = 20;
  options.rank_fault->ends_rank = true;
  options.rank_fault->strike = [] {};
  const std::vector<ServiceReport> reports = serve(options, nullptr, Rank{1});
  for (const Rank rank : {Rank{0}, Rank{2}}) {
    const ServiceReport& report = reports[rank.index()];
    EXPECT_TRUE(report.outputs_identical);
    ASSERT_TRUE(report.death);
    EXPECT_GT(report.death->tokens_taken_over, 0);
    // Room for a lost rank's tokens is padding as long as it lives.
    EXPECT_GT(report.replays.padded_rows, 0);
  }
  std::filesystem::remove_all(folder);
}

// Migrations into other storage than was captured: what runs operation by operation looks where weights are
// now.
TEST(Service, OnlyReplayNoticesWeightsInNewStorage) {
  ServiceOptions options = options_for(2);
  options.mutant = Mutant::new_storage;
  options.block_forwards = 16;
  const ServiceReport plain = serve(options)[0];
  EXPECT_TRUE(plain.outputs_identical);
  EXPECT_GT(plain.rows_on_moved_slots, 0);
  for (const WeightLayout layout : {WeightLayout::dense, WeightLayout::nz}) {
    options.layout = layout;
    options.graph_replay = true;
    EXPECT_FALSE(serve(options)[0].outputs_identical);
  }
}

}  // namespace
}  // namespace trimtab::moe
