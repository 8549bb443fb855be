// SPDX-License-Identifier: Apache-2.0
#include <trimtab/plan/planner.hpp>
#include <trimtab/plan/scenarios.hpp>

#include <gtest/gtest.h>

#include <span>

#include "support/generated_loads.hpp"
#include "support/plan_checks.hpp"

namespace trimtab::test {
namespace {

TEST(SampleScenarios, DrawsWithTheGivenMeanAndVariance) {
  const auto mean = uniform_loads({1, 2}, 1000.0);
  const auto variance = loads_of({1, 2}, {0.0, 400.0});
  const auto scenarios = sample_scenarios(mean, variance, 4001).value();
  ASSERT_EQ(scenarios.size(), 4001U);
  EXPECT_EQ(scenarios[0].layer(LayerId{0})[1], 1000.0);
  double sum = 0.0;
  double squares = 0.0;
  for (std::size_t i = 1; i < scenarios.size(); ++i) {
    EXPECT_EQ(scenarios[i].layer(LayerId{0})[0], 1000.0);
    const double deviation = scenarios[i].layer(LayerId{0})[1] - 1000.0;
    sum += deviation;
    squares += deviation * deviation;
  }
  EXPECT_NEAR(sum / 4000, 0.0, 1.5);  // five standard errors
  EXPECT_NEAR(squares / 4000, 400.0, 45.0);
}

TEST(SampleScenarios, NeverDrawsNegativeLoads) {
  const auto scenarios =
      sample_scenarios(uniform_loads({1, 8}, 1.0), uniform_loads({1, 8}, 100.0), 50).value();
  for (const LoadMatrix& scenario : scenarios) {
    for (double load : scenario.layer(LayerId{0})) EXPECT_GE(load, 0.0);
  }
}

TEST(SampleScenarios, RefusesAnotherSizeAndNoScenario) {
  const auto loads = uniform_loads({2, 4}, 1.0);
  EXPECT_EQ(sample_scenarios(loads, uniform_loads({2, 5}, 1.0), 3).error().message,
            "a variance of 2 layers of 5 experts for loads of 2 layers of 4");
  EXPECT_EQ(sample_scenarios(loads, loads, 0).error().code, Errc::invalid_argument);
}

// Judged on draws that the plan has not seen.
TEST(SampleScenarios, MakeAPlanThatStandsTheErrorBetter) {
  const auto mean = lognormal_loads({4, 64}, 0.5, 1);
  std::vector<double> values;
  for (LayerId layer : ids<LayerId>(4)) {
    for (std::size_t e = 0; e < 64; ++e)
      values.push_back(e % 4 == 0 ? 4e6 * mean.layer(layer)[e] / 1e4 : 0.0);
  }
  const auto draws = sample_scenarios(mean, loads_of({4, 64}, std::move(values)), 140).value();
  const std::span known = std::span(draws).first(40);
  const auto topology = Topology::make_uniform(16, 1, 80).value();
  SerialExecutor executor;
  const Plan robust =
      plan_rebalance(known, topology, {.objective = Objective::weighted_mean}, executor).value();
  const Plan for_mean = plan_of(mean, topology);
  double with = 0.0;
  double without = 0.0;
  for (const LoadMatrix& unseen : std::span(draws).subspan(40)) {
    for (LayerId layer : ids<LayerId>(4)) {
      with += imbalance_of(unseen, robust.placement, layer, topology) / 400;
      without += imbalance_of(unseen, for_mean.placement, layer, topology) / 400;
    }
  }
  EXPECT_LT(with - 1.0, 0.9 * (without - 1.0));
}

}  // namespace
}  // namespace trimtab::test
