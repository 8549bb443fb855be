// SPDX-License-Identifier: Apache-2.0
#include "moe/gate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "moe/rng.hpp"
#include "moe/token_stream.hpp"
#include "moe/weights.hpp"

namespace trimtab::moe {
namespace {

using Reals = std::vector<float>;

/// Every set of groups and every set of experts is tried; the best sum wins, the lexically first on a tie.
std::vector<std::size_t> best_subset(const Reals& values, std::size_t count, std::uint32_t allowed) {
  std::vector<std::size_t> best;
  Reals best_sorted;
  for (std::uint32_t mask = 0; mask < (1u << values.size()); ++mask) {
    if ((mask & ~allowed) != 0 || static_cast<std::size_t>(__builtin_popcount(mask)) != count) continue;
    std::vector<std::size_t> members;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if ((mask >> i) & 1u) members.push_back(i);
    }
    Reals sorted;
    for (const std::size_t i : members) sorted.push_back(values[i]);
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    const bool is_better = best.empty() || sorted > best_sorted || (sorted == best_sorted && members < best);
    if (!is_better) continue;
    best = members;
    best_sorted = sorted;
  }
  return best;
}

std::vector<std::size_t> brute_force(const ModelConfig& config, const Reals& biased) {
  const auto groups = static_cast<std::size_t>(config.num_groups);
  const std::size_t size = biased.size() / groups;
  Reals sums(groups, 0.0f);
  for (std::size_t g = 0; g < groups; ++g) {
    Reals members(biased.begin() + static_cast<std::ptrdiff_t>(g * size),
                  biased.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
    std::sort(members.begin(), members.end(), std::greater<>());
    for (std::size_t i = 0; i < std::min<std::size_t>(2, size); ++i) sums[g] += members[i];
  }
  std::uint32_t allowed = 0;
  for (const std::size_t g :
       best_subset(sums, static_cast<std::size_t>(config.top_groups), (1u << groups) - 1)) {
    allowed |= ((1u << size) - 1) << (g * size);
  }
  return best_subset(biased, config.choices(), allowed);
}

void expect_brute_force(const ModelConfig& config, std::uint64_t steps) {
  ExpertChooser chooser(config);
  Reals bias(config.experts());
  Reals scores(config.experts());
  std::vector<ExpertId> chosen(config.choices());
  Reals weights(config.choices());
  for (std::uint64_t round = 0; round < 50; ++round) {
    const RandomStream random(round, Use::gate, 0, 0);
    for (std::size_t e = 0; e < scores.size(); ++e) {
      // Few distinct values, so that ties happen; sums of eighths are exact.
      scores[e] = static_cast<float>(1 + random.bits(e) % steps) / 8.0f;
      bias[e] = static_cast<float>(random.bits(100 + e) % steps) / 8.0f;
    }
    chooser.choose(scores, bias, chosen, weights);
    Reals biased(scores.size());
    for (std::size_t e = 0; e < scores.size(); ++e) biased[e] = scores[e] + bias[e];
    std::vector<std::size_t> sorted;
    float sum = 0.0f;
    for (std::size_t k = 0; k < chosen.size(); ++k) {
      sorted.push_back(chosen[k].index());
      sum += scores[chosen[k].index()];
      if (k == 0) continue;
      const float before = biased[chosen[k - 1].index()];
      const float here = biased[chosen[k].index()];
      EXPECT_TRUE(before > here || (before == here && chosen[k - 1] < chosen[k]));
    }
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, brute_force(config, biased)) << "round " << round;
    for (std::size_t k = 0; k < chosen.size(); ++k) EXPECT_EQ(weights[k], scores[chosen[k].index()] / sum);
  }
}

TEST(ExpertChooser, EqualsBruteForceWithoutGroups) {
  expect_brute_force({.num_experts = 10, .top_k = 4}, 6);
  expect_brute_force({.num_experts = 5, .top_k = 5}, 3);
  expect_brute_force({.num_experts = 7, .top_k = 1}, 1000);
}

TEST(ExpertChooser, EqualsBruteForceWithGroups) {
  expect_brute_force({.num_experts = 12, .top_k = 4, .num_groups = 4, .top_groups = 2}, 6);
  expect_brute_force({.num_experts = 12, .top_k = 3, .num_groups = 3, .top_groups = 1}, 1000);
  expect_brute_force({.num_experts = 6, .top_k = 2, .num_groups = 6, .top_groups = 3}, 4);
}

TEST(ExpertChooser, ChoosesValidExpertsEvenAmongNans) {
  const ModelConfig config{.num_experts = 8, .top_k = 3, .num_groups = 4, .top_groups = 2};
  ExpertChooser chooser(config);
  std::vector<ExpertId> chosen(3, ExpertId{-7});
  chooser.choose(Reals(8, std::nanf("")), Reals(8, 0.0f), chosen);
  for (const ExpertId expert : chosen) EXPECT_TRUE(ids<ExpertId>(8).contains(expert));
}

TEST(GateScores, AreTheSameInEveryBatch) {
  const ModelConfig config{.num_experts = 21, .hidden = 37};
  const ReplicatedWeights weights(config);
  Reals tokens(11 * config.width());
  fill_tokens(config, Forward{3}, Rank{1}, 0, tokens);
  Reals together(11 * config.experts());
  gate_scores(config, tokens, weights.gate(LayerId{1}), together);
  Reals plain(config.width() * config.experts());
  generate_gate(config, LayerId{1}, plain);
  for (std::size_t t = 0; t < 11; ++t) {
    const auto token = std::span(tokens).subspan(t * config.width(), config.width());
    Reals alone(config.experts());
    gate_scores(config, token, weights.gate(LayerId{1}), alone);
    for (std::size_t e = 0; e < config.experts(); ++e) {
      float logit = 0.0f;
      for (std::size_t h = 0; h < config.width(); ++h) logit += token[h] * plain[h * config.experts() + e];
      EXPECT_EQ(alone[e], 1.0f / (1.0f + std::exp(-logit)));
      EXPECT_EQ(alone[e], together[t * config.experts() + e]);
    }
  }
}

TEST(TokenStream, IsAFunctionOfForwardRankAndToken) {
  const ModelConfig config{.hidden = 16};
  Reals all(4 * 16);
  Reals third(16);
  fill_tokens(config, Forward{3}, Rank{1}, 0, all);
  fill_tokens(config, Forward{3}, Rank{1}, 2, third);
  EXPECT_TRUE(std::equal(third.begin(), third.end(), all.begin() + 2 * 16));
  Reals other(16);
  fill_tokens(config, Forward{4}, Rank{1}, 2, other);
  EXPECT_NE(other, third);
  fill_tokens(config, Forward{3}, Rank{2}, 2, other);
  EXPECT_NE(other, third);
}

}  // namespace
}  // namespace trimtab::moe
