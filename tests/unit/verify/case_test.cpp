// SPDX-License-Identifier: Apache-2.0
#include "verify/case.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace trimtab::verify {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint64_t num_seeds = 2000;

std::vector<CaseFault> faults_of(std::uint64_t seed, const CaseOptions& options) {
  return draw_case(seed, options).value().faults;
}

TEST(Case, DependsOnTheSeedAlone) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Case a = draw_case(seed, {}).value();
    const Case b = draw_case(seed, {}).value();
    EXPECT_EQ(describe(a), describe(b));
    EXPECT_EQ(a.topology, b.topology);
    EXPECT_EQ(a.first, b.first);
    EXPECT_EQ(a.targets, b.targets);
    EXPECT_EQ(a.pace.tick, b.pace.tick);
    EXPECT_NE(describe(a), describe(draw_case(seed + 1, {}).value()));
  }
}

TEST(Case, HasEveryKindOfFaultOnBothSidesAndBothKindsOfMessage) {
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < num_seeds; ++seed) {
    for (const CaseFault& fault : faults_of(seed, {})) {
      const bool is_of_messages = fault.kind < FaultKind::pause;
      const std::string what = is_of_messages ? fault.is_control ? " control" : " payload" : "";
      seen.insert(std::string(to_string(fault.kind)) + what +
                  (fault.side == Side::receive ? " receive" : ""));
    }
  }
  EXPECT_EQ(seen.size(), 2U * 6 + 2 * 3 + 2 + 3);  // Receives are delayed, reordered or fail.
}

TEST(Case, HasOnlyFaultsThatWereAskedFor) {
  CaseOptions options;
  options.faults = {FaultKind::corrupt};
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    for (const CaseFault& fault : faults_of(seed, options)) EXPECT_EQ(fault.kind, FaultKind::corrupt);
  }
  options.faults.clear();
  for (std::uint64_t seed = 0; seed < 200; ++seed) EXPECT_TRUE(faults_of(seed, options).empty());
}

struct Shapes {
  bool uneven = false, vacant = false, one_bundle = false, stall = false, no_stall = false,
       several_targets = false;
  std::set<Arrangement> arrangements;
  std::set<std::int32_t> nodes, ranks, layers;
  std::set<std::size_t> bundles;

  void add(const Case& drawn) {
    const Topology& topology = drawn.topology;
    for (Rank rank : ids<Rank>(topology.num_ranks()))
      uneven = uneven || topology.rank(rank).num_slots != topology.rank(Rank{0}).num_slots;
    for (SlotId slot : ids<SlotId>(topology.num_slots()))
      vacant = vacant || drawn.first.expert_at(LayerId{0}, slot) == no_expert;
    const std::vector<std::size_t> bytes = drawn.bundle_bytes();
    const std::size_t largest = *std::ranges::max_element(bytes);
    one_bundle = one_bundle || drawn.engine.staging_budget_bytes < 2 * largest;
    (drawn.stall_budget_bytes ? stall : no_stall) = true;
    several_targets = several_targets || drawn.targets.size() > 1;
    arrangements.insert(drawn.arrangement);
    nodes.insert(topology.num_nodes());
    ranks.insert(topology.num_ranks());
    layers.insert(static_cast<std::int32_t>(drawn.layers.size()));
    bundles.insert(bytes.begin(), bytes.end());
  }
};

TEST(Case, HasEveryShape) {
  Shapes seen;
  for (std::uint64_t seed = 0; seed < num_seeds; ++seed) seen.add(draw_case(seed, {}).value());
  EXPECT_TRUE(seen.uneven && seen.vacant && seen.one_bundle && seen.stall && seen.no_stall &&
              seen.several_targets);
  EXPECT_EQ(seen.arrangements.size(), std::size(all_arrangements));
  EXPECT_EQ(seen.nodes, (std::set{1, 2, 3}));
  EXPECT_EQ(seen.ranks, (std::set{2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(seen.layers, (std::set{1, 2, 3}));
  EXPECT_EQ(seen.bundles.size(), 7U);
}

TEST(Case, KeepsToWhatIsGiven) {
  CaseOptions options;
  options.ranks = 5;
  options.nodes = 2;
  options.layout = LayoutFamily::strided;
  options.stall_budget_bytes = 100;
  options.staging_budget_bytes = 1 << 20;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Case drawn = draw_case(seed, options).value();
    EXPECT_EQ(drawn.topology.num_ranks(), 5);
    EXPECT_EQ(drawn.topology.num_nodes(), 2);
    EXPECT_TRUE(drawn.arrangement == Arrangement::padded_slots ||
                drawn.arrangement == Arrangement::padded_rows);
    EXPECT_EQ(drawn.stall_budget_bytes, 100U);
    EXPECT_LE(drawn.engine.staging_budget_bytes, std::size_t{1} << 20);
  }
}

TEST(Case, RefusesABudgetBelowOneBundleWithTheNumberThatWouldDo) {
  CaseOptions options;
  options.layout = LayoutFamily::dense;
  options.staging_budget_bytes = 50;
  const Error error = draw_case(1, options).error();
  EXPECT_EQ(error.code, Errc::infeasible);
  ASSERT_THAT(error.message, StartsWith("--staging-budget 50: one bundle takes "));
  options.staging_budget_bytes =
      std::stoul(error.message.substr(std::string("--staging-budget 50: one bundle takes ").size()));
  EXPECT_TRUE(draw_case(1, options));
  --*options.staging_budget_bytes;
  EXPECT_FALSE(draw_case(1, options));
}

TEST(Case, CountsWorkspacesInTheBudget) {
  CaseOptions options;
  options.layout = LayoutFamily::nz;
  options.staging_budget_bytes = 50;
  const Error error = draw_case(1, options).error();
  ASSERT_THAT(error.message, HasSubstr("beside workspaces of"));
  const std::size_t colon = error.message.rfind(": ");
  options.staging_budget_bytes = std::stoul(error.message.substr(colon + 2));
  EXPECT_TRUE(draw_case(1, options));
  --*options.staging_budget_bytes;
  EXPECT_FALSE(draw_case(1, options));
}

TEST(Case, RefusesMoreNodesThanRanks) {
  CaseOptions options;
  options.ranks = 2;
  options.nodes = 3;
  EXPECT_EQ(draw_case(1, options).error().message, "3 nodes for 2 ranks");
}

}  // namespace
}  // namespace trimtab::verify
