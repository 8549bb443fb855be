// SPDX-License-Identifier: Apache-2.0
#include "moe/calibrate.hpp"

#include <trimtab/core/imbalance.hpp>
#include <trimtab/core/placement.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "moe/gate.hpp"
#include "moe/token_stream.hpp"

namespace trimtab::moe {
namespace {

/// Lognormal with a few experts near the most that top-k allows.
LoadMatrix lognormal_loads(std::int32_t layers, std::int32_t experts, std::int32_t top_k,
                           std::uint32_t seed) {
  std::mt19937 random(seed);
  std::lognormal_distribution<double> body(0.0, 0.7);
  std::vector<double> loads;
  for (std::int32_t l = 0; l < layers; ++l) {
    std::vector<double> row(static_cast<std::size_t>(experts));
    for (double& load : row) load = body(random);
    double mean = 0.0;
    for (const double load : row) mean += load / experts;
    for (int outlier = 0; outlier < 2; ++outlier) {
      row[random() % row.size()] = mean * std::min(10.0, 0.6 * experts / top_k);
    }
    loads.insert(loads.end(), row.begin(), row.end());
  }
  return *LoadMatrix::make(layers, experts, loads);
}

class TwoThreads final : public Executor {
 public:
  void for_each_index(std::size_t count, const std::function<void(std::size_t)>& work) override {
    const auto odd_or_even = [&](std::size_t first) {
      for (std::size_t i = first; i < count; i += 2) work(i);
    };
    std::thread other(odd_or_even, 1);
    odd_or_even(0);
    other.join();
  }
};

void expect_follows(const ModelConfig& config, const std::vector<LoadMatrix>& phases, std::int32_t ranks) {
  SerialExecutor executor;
  const Topology topology = *Topology::make_uniform(ranks, 1, config.num_experts + 2 * ranks);
  const auto calibration = calibrate(config, phases, topology, {}, executor);
  ASSERT_TRUE(calibration.has_value()) << calibration.error().message;
  ASSERT_EQ(calibration->fits.size(), phases.size() * config.layers());
  EXPECT_EQ(calibration->bias.size(), phases.size() * config.layers() * config.experts());
  for (const LayerFit& fit : calibration->fits) {
    EXPECT_LE(fit.error(), 0.03) << "layer " << fit.layer.value();
    EXPECT_LT(fit.misplaced_share, 0.02) << "layer " << fit.layer.value();
  }
}

TEST(Calibrate, FollowsGeneratedLoads) {
  const ModelConfig config{.num_layers = 3, .num_experts = 32, .top_k = 4, .hidden = 64, .intermediate = 32};
  expect_follows(config, {lognormal_loads(3, 32, 4, 1), lognormal_loads(3, 32, 4, 2)}, 2);
}

TEST(Calibrate, FollowsGeneratedLoadsUnderGroupLimits) {
  const ModelConfig config{.num_layers = 2,
                           .num_experts = 64,
                           .top_k = 4,
                           .hidden = 64,
                           .intermediate = 32,
                           .num_groups = 8,
                           .top_groups = 4};
  expect_follows(config, {lognormal_loads(2, 64, 4, 3)}, 4);
}

TEST(Calibrate, FollowsRealLoads) {
  const char* const folder = std::getenv("TRIMTAB_LOADS_DIR");
  if (folder == nullptr || *folder == '\0')
    GTEST_SKIP() << "TRIMTAB_LOADS_DIR is not set; generated loads are tested above";
  std::ifstream file(std::string(folder) + "/deepseek-v3_decode_in1000out1000.json");
  const auto counts = nlohmann::json::parse(file).at("logical_count");
  std::vector<double> loads;
  for (const std::size_t layer : {3U, 30U}) {
    const auto row = counts.at(layer).get<std::vector<double>>();
    loads.insert(loads.end(), row.begin(), row.end());
  }
  const ModelConfig config{.num_layers = 2,
                           .num_experts = 256,
                           .top_k = 8,
                           .hidden = 64,
                           .intermediate = 32,
                           .num_groups = 8,
                           .top_groups = 4};
  expect_follows(config, {*LoadMatrix::make(2, 256, loads)}, 4);
}

/// Tokens that calibration did not see choose by the target's shares too.
TEST(Calibrate, HoldsForOtherTokens) {
  const ModelConfig config{.num_layers = 1, .num_experts = 32, .top_k = 4, .hidden = 64, .intermediate = 32};
  const LoadMatrix loads = lognormal_loads(1, 32, 4, 5);
  SerialExecutor executor;
  const auto calibration = calibrate(config, {&loads, 1}, *Topology::make_uniform(2, 1, 32), {}, executor);
  ASSERT_TRUE(calibration.has_value());
  constexpr std::size_t num_tokens = 4096;
  const ReplicatedWeights weights(config);
  std::vector<float> tokens(num_tokens * config.width());
  fill_tokens(config, Forward{0}, Rank{0}, 0, tokens);
  for (std::size_t t = 0; t < num_tokens; ++t) {
    const auto token = std::span(tokens).subspan(t * config.width(), config.width());
    rms_norm(std::vector<float>(token.begin(), token.end()), weights.norm(LayerId{0}), token);
  }
  std::vector<float> scores(num_tokens * config.experts());
  gate_scores(config, tokens, weights.gate(LayerId{0}), scores);
  std::vector<double> counts(config.experts(), 0.0);
  ExpertChooser chooser(config);
  std::vector<ExpertId> chosen(config.choices());
  for (std::size_t t = 0; t < num_tokens; ++t) {
    chooser.choose(std::span(scores).subspan(t * config.experts(), config.experts()), calibration->bias,
                   chosen);
    for (const ExpertId expert : chosen) counts[expert.index()] += 1.0;
  }
  for (std::size_t e = 0; e < counts.size(); ++e) {
    const double share = loads.layer(LayerId{0})[e] / loads.total(LayerId{0});
    const double expected = share * num_tokens * config.top_k;
    // Six standard deviations of drawing both samples (this one and the calibration's 2048).
    EXPECT_NEAR(counts[e], expected, 6.0 * std::sqrt(3.0 * expected) + 0.02 * expected) << "expert " << e;
  }
}

TEST(Calibrate, GivesTheSameBitsOnAnyExecutor) {
  const ModelConfig config{.num_layers = 2, .num_experts = 16, .top_k = 2, .hidden = 32, .intermediate = 16};
  const LoadMatrix loads = lognormal_loads(2, 16, 2, 6);
  const Topology topology = *Topology::make_uniform(2, 1, 16);
  SerialExecutor serial;
  TwoThreads threads;
  const auto one = calibrate(config, {&loads, 1}, topology, {}, serial);
  const auto two = calibrate(config, {&loads, 1}, topology, {}, threads);
  ASSERT_TRUE(one.has_value() && two.has_value());
  EXPECT_EQ(one->bias, two->bias);
}

TEST(Calibrate, NamesExpertWithMoreThanOneChoiceOfEveryToken) {
  const ModelConfig config{.num_layers = 1, .num_experts = 8, .top_k = 4, .hidden = 16, .intermediate = 8};
  const LoadMatrix loads = *LoadMatrix::make(1, 8, {1, 1, 1, 13, 1, 1, 1, 1});
  SerialExecutor executor;
  const auto result =
      calibrate(config, {&loads, 1}, *Topology::make_uniform(2, 1, 8), {.first_layer = LayerId{7}}, executor);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Errc::infeasible);
  EXPECT_EQ(
      result.error().message,
      "phase 0, layer 7: expert 3 takes 0.6500 of the load > 0.2500: a token chooses it at most once among "
      "top-4");
}

TEST(Calibrate, FailsLoudlyWhenGroupsCannotFollow) {
  // All load in one group, but each token must spread over experts of two.
  const ModelConfig config{.num_layers = 1,
                           .num_experts = 8,
                           .top_k = 3,
                           .hidden = 16,
                           .intermediate = 8,
                           .num_groups = 4,
                           .top_groups = 2};
  const LoadMatrix loads = *LoadMatrix::make(1, 8, {1, 1, 0, 0, 0.5, 0.5, 0, 0});
  SerialExecutor executor;
  const auto result =
      calibrate(config, {&loads, 1}, *Topology::make_uniform(8, 1, 8), {.tolerance = 0.0}, executor);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Errc::infeasible);
  EXPECT_NE(result.error().message.find("phase 0, layer 0: the gate reaches a rank imbalance of"),
            std::string::npos)
      << result.error().message;
}

TEST(Calibrate, RefusesDenseLayersAndOtherShapes) {
  const ModelConfig config{.num_layers = 2, .num_experts = 2, .top_k = 1, .hidden = 16, .intermediate = 8};
  const Topology topology = *Topology::make_uniform(1, 1, 2);
  SerialExecutor executor;
  const LoadMatrix dense = *LoadMatrix::make(2, 2, {1, 1, 0, 0});
  EXPECT_EQ(calibrate(config, {&dense, 1}, topology, {}, executor).error().message,
            "phase 0, layer 1: no load to follow (a dense layer)");
  const LoadMatrix narrow = *LoadMatrix::make(1, 2, {1, 1});
  EXPECT_EQ(calibrate(config, {&narrow, 1}, topology, {}, executor).error().message,
            "phase 0: loads of 1 layers x 2 experts for a model of 2 x 2");
  EXPECT_EQ(calibrate(config, {}, topology, {}, executor).error().code, Errc::invalid_argument);
}

}  // namespace
}  // namespace trimtab::moe
