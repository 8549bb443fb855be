// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "moe/service.hpp"
#include "unit/moe/serve_ranks.hpp"
#include "unit/moe/text/some_model.hpp"

namespace trimtab::moe {
namespace {

ServiceOptions options_for(std::int32_t ranks) {
  auto text = std::make_shared<TextService>();
  text->model = some_text_model();
  text->traffic = some_traffic();
  const ModelConfig& model = text->model.config.experts;
  ServiceOptions options{.model = model,
                         .topology = *Topology::make_uniform(ranks, 1, 12),
                         .schedule = *GateSchedule::make(model, text->model.gate_bias(), 1)};
  options.tokens_per_rank = 12;
  options.num_quads = 2;
  options.block_forwards = 10;
  options.rebalance_every = 2;
  options.migration_deadline = std::chrono::seconds(20);
  text->traffic.num_forwards = options.forwards();
  options.text = std::move(text);
  return options;
}

/// Counts what rank 0 is told of.
struct Watching final : ServiceObserver {
  void on_forward(ArmId, std::uint64_t, std::uint64_t) override {}
  void on_block(const BlockReport& block) override {
    tokens[static_cast<std::size_t>(block.arm)] += block.tokens;
  }
  void on_text(ArmId arm, const TextSession& session) override {
    ++forwards[static_cast<std::size_t>(arm)];
    has_spoken = has_spoken || session.being_said() != nullptr;
  }

  std::array<std::int64_t, 2> tokens{};
  std::array<std::int64_t, 2> forwards{};
  bool has_spoken = false;
};

TEST(TextServing, SaysTheSameInBothArmsWhileExpertsMove) {
  for (const std::int32_t ranks : {2, 3}) {
    Watching watching;
    const std::vector<ServiceReport> reports = serve(options_for(ranks), &watching);
    for (const ServiceReport& report : reports) {
      EXPECT_TRUE(report.outputs_identical);
      EXPECT_GT(report.slots_moved, 0);
      EXPECT_GT(report.rows_on_moved_slots, 0);
      EXPECT_EQ(report.unchanged_slots_written, 0);
      EXPECT_EQ(report.reference_checked, 4 * ranks);
      ASSERT_TRUE(report.text.has_value());
      EXPECT_EQ(report.text->bits_per_byte[0], report.text->bits_per_byte[1]);
      EXPECT_EQ(report.text->prefilled + report.text->decoded, watching.tokens[0]);
      EXPECT_EQ(report.text->domains.size(), 3U);
      for (const DomainReport& domain : report.text->domains) {
        EXPECT_GT(domain.requests, 0) << domain.name;
        EXPECT_EQ(domain.bits_per_byte[0], domain.bits_per_byte[1]) << domain.name;
      }
    }
    EXPECT_EQ(watching.tokens[0], watching.tokens[1]);
    EXPECT_EQ(watching.forwards, (std::array<std::int64_t, 2>{40, 40}));
    EXPECT_TRUE(watching.has_spoken);
  }
}

TEST(TextServing, ReportsWhatWasAskedAndSaid) {
  const TextReport report = *serve(options_for(2))[0].text;
  ASSERT_FALSE(report.samples.empty());
  for (const TextSample& sample : report.samples) {
    EXPECT_EQ(sample.prompt.size(), 9U);
    EXPECT_EQ(sample.said.size(), 6U);
  }
  EXPECT_GT(report.model_bytes, 0);
  EXPECT_GT(report.cache_bytes, 0);
}

TEST(TextServing, RecordsEveryRowOfAllRanks) {
  ServiceOptions options = options_for(3);
  auto text = std::make_shared<TextService>(*options.text);
  text->is_recorded = true;
  options.text = text;
  for (const ServiceReport& report : serve(options)) {
    const RecordedRows& rows = report.text->recorded;
    ASSERT_EQ(rows.origins.size(), static_cast<std::size_t>(report.text->prefilled + report.text->decoded));
    EXPECT_EQ(rows.choice_size(), 2U * 2);
    EXPECT_EQ(std::ranges::count(rows.origins, true, &RowOrigin::is_prompt), report.text->prefilled);
    EXPECT_EQ(rows.origins.back().request >> 32, 2U);  // Of the last rank.
    for (std::size_t i = 0; i < rows.choices.size(); i += 2) {
      EXPECT_NE(rows.choices[i], rows.choices[i + 1]);
      EXPECT_LT(rows.choices[i].value(), options.model.num_experts);
    }
  }
}

TEST(TextServing, RecordsWhatRowsChose) {
  RecordedRows rows;
  rows.origins = {{(std::uint64_t{7} << 32) | 5, 2, 70000, true}, {1, 0, 3, false}};
  for (std::int32_t i = 0; i < 10; ++i) rows.choices.emplace_back(65535 - 7 * i);
  RecordedRows again;
  again.unpack(rows.pack(100), 5);
  EXPECT_EQ(again.choices, rows.choices);
  ASSERT_EQ(again.origins.size(), 2U);
  EXPECT_EQ(again.origins[0].request, rows.origins[0].request);
  EXPECT_EQ(again.origins[0].domain, 2U);
  EXPECT_EQ(again.origins[0].position, 70000U);
  EXPECT_TRUE(again.origins[0].is_prompt);
  EXPECT_FALSE(again.origins[1].is_prompt);
  EXPECT_EQ(rows.pack(0).size(), rows.packed_size());
}

// vllm-project/vllm#34646: scales stayed behind when weights moved, and nothing noticed.
TEST(TextServing, NoticesMutants) {
  for (const Mutant mutant : {Mutant::wrong_scale, Mutant::table_before_weights}) {
    ServiceOptions options = options_for(2);
    options.mutant = mutant;
    const ServiceReport report = serve(options)[0];
    EXPECT_FALSE(report.outputs_identical) << to_string(mutant);
    EXPECT_NE(report.text->bits_per_byte[0], report.text->bits_per_byte[1]) << to_string(mutant);
  }
}

TEST(TextServing, ServesAlikeInFractalNz) {
  ServiceOptions options = options_for(2);
  const double dense = serve(options)[0].text->bits_per_byte[1];
  options.layout = WeightLayout::nz;
  const ServiceReport nz = serve(options)[0];
  EXPECT_TRUE(nz.outputs_identical);
  EXPECT_GT(nz.slots_moved, 0);
  EXPECT_EQ(nz.text->bits_per_byte[1], dense);
}

}  // namespace
}  // namespace trimtab::moe
