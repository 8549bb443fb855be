// SPDX-License-Identifier: Apache-2.0
//
// What both arms do wrong alike only the reference can tell.
#include "moe/workload.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "moe/reference.hpp"
#include "unit/moe/text/some_model.hpp"

namespace trimtab::moe {
namespace {

constexpr std::array both{ArmId::off, ArmId::on};

ServiceOptions generated_options() {
  constexpr ModelConfig model{
      .num_layers = 2, .num_experts = 8, .top_k = 2, .hidden = 40, .intermediate = 24};
  std::vector<float> bias(model.layers() * model.experts());
  ServiceOptions options{.model = model,
                         .topology = *Topology::make_uniform(2, 1, 8),
                         .schedule = *GateSchedule::make(model, bias, 1)};
  options.tokens_per_rank = 5;
  options.num_quads = 1;
  options.block_forwards = 4;
  options.reference_batches = 8;
  return options;
}

/// Has the reference itself serve, and spoils one number of one forward in the arms that are named.
std::unique_ptr<Workload> serve_block(const ServiceOptions& options, std::span<const Rank> members,
                                      std::span<const ArmId> spoilt,
                                      std::optional<std::uint64_t> repeated = std::nullopt) {
  auto workload = make_workload(options, Rank{1});
  const std::vector<float> bias(options.model.layers() * options.model.experts());
  for (const ArmId arm : both) {
    workload->load(members, 0, options.block_forwards);
    for (std::uint64_t forward = 0; forward < options.block_forwards; ++forward) {
      const std::span<float> states = workload->begin(arm, forward);
      run_reference(options.model, bias, states);
      if (forward == 2 && std::ranges::find(spoilt, arm) != spoilt.end())
        states.back() = std::nextafter(states.back(), 2.0f * states.back());
      workload->finish(arm, forward);
    }
    workload->end_block(arm, 0, options.block_forwards, repeated);
  }
  return workload;
}

constexpr std::array members{Rank{0}, Rank{1}};
const ServiceOptions generated = generated_options();  // A workload borrows its options.

TEST(GeneratedTokens, AreServedAsByTheReference) {
  const auto workload = serve_block(generated, members, {});
  EXPECT_TRUE(workload->arms_agree());
  EXPECT_TRUE(workload->equals_reference());
  EXPECT_EQ(workload->num_checked(), 4);
  EXPECT_EQ(workload->take(ArmId::on).tokens, 4 * 5);
}

TEST(GeneratedTokens, OneArmThatErrsDisagreesWithTheOther) {
  const auto workload = serve_block(generated, members, std::array{ArmId::on});
  EXPECT_FALSE(workload->arms_agree());
}

TEST(GeneratedTokens, ArmsThatErrAlikeDifferFromTheReference) {
  const auto workload = serve_block(generated, members, both);
  EXPECT_TRUE(workload->arms_agree());
  EXPECT_FALSE(workload->equals_reference());
}

TEST(GeneratedTokens, TheFirstForwardServedAgainIsASample) {
  ServiceOptions options = generated_options();
  options.reference_batches = 0;
  const auto workload = serve_block(options, std::array{Rank{1}}, {}, 2);
  EXPECT_EQ(workload->num_checked(), 1);
  EXPECT_TRUE(workload->equals_reference());
  EXPECT_EQ(workload->tokens_taken_over(), 2 * 4 * 5);
  const auto spoilt = serve_block(options, std::array{Rank{1}}, both, 2);
  EXPECT_FALSE(spoilt->equals_reference());  // In the other rank's tokens.
}

TEST(TextWorkload, ArmsThatErrAlikeDifferFromTheReference) {
  auto text = std::make_shared<TextService>();
  text->model = some_text_model();
  text->traffic = some_traffic();
  ServiceOptions options = generated_options();
  options.model = text->model.config.experts;
  options.text = text;
  const auto workload = make_workload(options, Rank{0});
  for (const ArmId arm : both) {
    for (std::uint64_t forward = 0; forward < 3; ++forward) {
      static_cast<void>(workload->begin(arm, forward));  // No layer is computed.
      workload->finish(arm, forward);
    }
  }
  EXPECT_TRUE(workload->arms_agree());
  EXPECT_FALSE(workload->equals_reference());
  EXPECT_GT(workload->num_checked(), 0);
}

}  // namespace
}  // namespace trimtab::moe
