// SPDX-License-Identifier: Apache-2.0
#include "io/generate.hpp"

#include "io/load_file.hpp"

#include <trimtab/core/checksum.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace trimtab::test {
namespace {

std::vector<LoadMatrix> generate(const GenerateOptions& options) {
  auto phases = generate_loads(options);
  EXPECT_TRUE(phases) << phases.error().message;
  return std::move(*phases);
}

std::uint64_t checksum_of_text(const GenerateOptions& options) {
  const std::string text = format_loads(generate(options));
  return checksum_of(std::as_bytes(std::span(text)));
}

double hottest_over_mean(const LoadMatrix& loads, LayerId layer) {
  const auto row = loads.layer(layer);
  return *std::max_element(row.begin(), row.end()) * loads.num_experts() / loads.total(layer);
}

double sigma_of_log(const LoadMatrix& loads, LayerId layer) {
  double sum = 0.0;
  double squares = 0.0;
  for (const double load : loads.layer(layer)) {
    sum += std::log(load);
    squares += std::log(load) * std::log(load);
  }
  const double count = loads.num_experts();
  return std::sqrt(squares / count - sum / count * sum / count);
}

double correlation_of_logs(std::span<const double> a, std::span<const double> b) {
  double ab = 0, aa = 0, bb = 0, a1 = 0, b1 = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = std::log(a[i] + 1), y = std::log(b[i] + 1);
    ab += x * y, aa += x * x, bb += y * y, a1 += x, b1 += y;
  }
  const auto n = static_cast<double>(a.size());
  return (ab - a1 * b1 / n) / std::sqrt((aa - a1 * a1 / n) * (bb - b1 * b1 / n));
}

TEST(GenerateLoads, TotalsAreExactAndNoExpertHasMoreThanTheTokens) {
  for (const Distribution distribution : {Distribution::lognormal, Distribution::zipf}) {
    for (std::int32_t experts : {1, 2, 3, 8, 33, 256}) {
      for (std::int32_t top_k : {1, 2, 8}) {
        for (std::int64_t tokens : {1, 7, 4096, 1000003}) {
          if (top_k > experts) continue;
          const GenerateOptions options{.num_layers = 2,
                                        .num_experts = experts,
                                        .distribution = distribution,
                                        .sigma = 2.0,
                                        .exponent = 2.0,
                                        .num_outliers = std::min(experts, 2),
                                        .num_phases = 3,
                                        .tokens = tokens,
                                        .top_k = top_k};
          for (const LoadMatrix& phase : generate(options)) {
            for (LayerId layer : ids<LayerId>(2)) {
              EXPECT_EQ(phase.total(layer), static_cast<double>(tokens * top_k));
              for (const double load : phase.layer(layer)) {
                EXPECT_LE(load, static_cast<double>(tokens));
                EXPECT_EQ(load, std::floor(load));
              }
            }
          }
        }
      }
    }
  }
}

TEST(GenerateLoads, SameSeedSameBytesOnEveryMachine) {
  const GenerateOptions lognormal{
      .num_layers = 4, .num_experts = 64, .num_outliers = 2, .num_phases = 3, .seed = 7};
  const GenerateOptions zipf{
      .num_layers = 4, .num_experts = 64, .distribution = Distribution::zipf, .seed = 7};
  EXPECT_EQ(checksum_of_text(lognormal), 13393127336133457449U);
  EXPECT_EQ(checksum_of_text(zipf), 9346154322721378267U);
}

TEST(GenerateLoads, AnotherSeedGivesOtherLoads) {
  EXPECT_NE(checksum_of_text({.seed = 1}), checksum_of_text({.seed = 2}));
}

TEST(GenerateLoads, ALayerDoesNotDependOnTheOthersNorAPhaseOnLaterOnes) {
  const auto few = generate({.num_layers = 2, .num_phases = 2});
  const auto many = generate({.num_layers = 5, .num_phases = 4});
  for (std::size_t phase = 0; phase < few.size(); ++phase) {
    for (LayerId layer : ids<LayerId>(2)) {
      EXPECT_TRUE(std::ranges::equal(few[phase].layer(layer), many[phase].layer(layer)));
    }
  }
}

TEST(GenerateLoads, LognormalHasTheSpreadThatWasAskedFor) {
  const auto phases = generate({.num_layers = 4,
                                .num_experts = 1024,
                                .sigma = 0.65,
                                .num_phases = 6,
                                .drift = 0.5,
                                .tokens = 1 << 20});
  for (const LoadMatrix& phase : phases) {
    for (LayerId layer : ids<LayerId>(4)) EXPECT_NEAR(sigma_of_log(phase, layer), 0.65, 0.06);
  }
}

TEST(GenerateLoads, OutliersAreTenToThirteenTimesTheMean) {
  const auto phases =
      generate({.num_layers = 20, .num_experts = 256, .num_outliers = 2, .num_phases = 3, .tokens = 1 << 20});
  for (const LoadMatrix& phase : phases) {
    for (LayerId layer : ids<LayerId>(20)) {
      EXPECT_GE(hottest_over_mean(phase, layer), 9.99);
      EXPECT_LE(hottest_over_mean(phase, layer), 13.01);
    }
  }
}

TEST(GenerateLoads, ZipfFollowsItsPowerLaw) {
  const auto loads = generate({.num_layers = 1,
                               .num_experts = 16,
                               .distribution = Distribution::zipf,
                               .exponent = 1.0,
                               .tokens = 1 << 30,
                               .top_k = 1});
  std::vector<double> row(loads[0].layer(LayerId{0}).begin(), loads[0].layer(LayerId{0}).end());
  std::ranges::sort(row, std::greater<>());
  for (std::size_t place = 1; place < row.size(); ++place) {
    EXPECT_NEAR(row[0] / row[place], static_cast<double>(place + 1), 1e-6);
  }
}

TEST(GenerateLoads, DriftSaysHowMuchChanges) {
  const GenerateOptions base{.num_layers = 1, .num_experts = 1024, .num_phases = 2, .tokens = 1 << 20};
  const auto correlation = [&](double drift) {
    GenerateOptions options = base;
    options.drift = drift;
    const auto phases = generate(options);
    return correlation_of_logs(phases[0].layer(LayerId{0}), phases[1].layer(LayerId{0}));
  };
  EXPECT_NEAR(correlation(0.0), 1.0, 1e-12);
  EXPECT_NEAR(correlation(0.6), 0.8, 0.05);  // sqrt(1 - 0.6^2)
  EXPECT_NEAR(correlation(1.0), 0.0, 0.1);
}

TEST(GenerateLoads, OutliersMoveWithFullDrift) {
  const auto phases =
      generate({.num_layers = 1, .num_experts = 256, .num_outliers = 1, .num_phases = 2, .drift = 1});
  const auto hottest = [&](std::size_t phase) {
    const auto row = phases[phase].layer(LayerId{0});
    return std::max_element(row.begin(), row.end()) - row.begin();
  };
  EXPECT_NE(hottest(0), hottest(1));
}

TEST(GenerateLoads, DenseRowsAreZero) {
  const auto phases = generate({.num_layers = 4, .num_dense_layers = 3});
  for (LayerId layer : ids<LayerId>(3)) EXPECT_TRUE(phases[0].is_dense(layer));
  EXPECT_FALSE(phases[0].is_dense(LayerId{3}));
}

TEST(GenerateLoads, RefusesWhatIsOutOfRange) {
  const auto message = [](const GenerateOptions& options) { return generate_loads(options).error().message; };
  EXPECT_EQ(message({.num_layers = 0}), "layers 0 is not in 1..1048576");
  EXPECT_EQ(message({.num_experts = 4, .top_k = 5}), "top-k 5 is not in 1..4");
  EXPECT_EQ(message({.drift = 1.5}), "drift 1.5 is not in 0..1");
  EXPECT_EQ(message({.sigma = std::nan("")}), "sigma nan is not in 0..5");
  EXPECT_EQ(message({.num_layers = 1 << 20, .num_experts = 1 << 20}),
            "layers x experts x steps 1099511627776 is not in 1..536870912");
}

}  // namespace
}  // namespace trimtab::test
