// SPDX-License-Identifier: Apache-2.0
#include "support/cluster.hpp"
#include "support/placements.hpp"

#include <gtest/gtest.h>

namespace trimtab::test {
namespace {

const Placement before = one_layer(2, {0, 1, 1, 0});
const Placement after = one_layer(2, {1, 0, 1, 0});

/// Tables that leave the last rank out, so that they cannot be taken for even shares; or none at all.
class SomeTables final : public TableCompiler {
 public:
  explicit SomeTables(std::uint64_t fingerprint, bool fails = false)
      : fingerprint_(fingerprint), fails_(fails) {}

  Result<RoutingTable> compile(const Placement& placement, const Topology& topology,
                               TableIdentity identity) const override {
    if (fails_) return failure(Errc::infeasible, "no table");
    std::vector<RankInfo> ranks;
    for (Rank rank : ids<Rank>(topology.num_ranks())) ranks.push_back(topology.rank(rank));
    ranks.back().is_alive = false;
    return RoutingTable::compile(placement, *Topology::make(std::move(ranks)), identity);
  }
  std::uint64_t fingerprint() const noexcept override { return fingerprint_; }

 private:
  std::uint64_t fingerprint_;
  bool fails_;
};

EngineOptions options() {
  EngineOptions options;
  options.staging_budget_bytes = 1 << 20;
  options.deadline = std::chrono::seconds(5);
  return options;
}

/// Begins the same program on both ranks, each with tables of its own.
void begin(Cluster& cluster, SomeTables first, SomeTables second) {
  const Program program = cluster.make_program(after);
  ASSERT_TRUE(cluster.engine(0).begin(program, std::make_shared<SomeTables>(first)));
  ASSERT_TRUE(cluster.engine(1).begin(program, std::make_shared<SomeTables>(second)));
}

std::size_t num_replicas(Cluster& cluster, std::size_t rank) {
  TableReader reader = cluster.publisher(rank).make_reader();
  return reader.acquire()->replicas(LayerId{0}, ExpertId{0}).size();
}

TEST(TableCompiler, MakesTheTableThatACommitPublishes) {
  Cluster cluster(uniform(2, 1, 4), before, options());
  ASSERT_EQ(num_replicas(cluster, 0), 2U);
  begin(cluster, SomeTables(7), SomeTables(7));
  ASSERT_TRUE(cluster.run_until_idle());
  for (std::size_t rank : {0U, 1U}) {
    EXPECT_EQ(cluster.publisher(rank).identity(), (TableIdentity{Epoch{1}, 0}));
    EXPECT_EQ(num_replicas(cluster, rank), 1U);
  }
}

TEST(TableCompiler, OfThePreviousProgramIsNotUsedAgain) {
  Cluster cluster(uniform(2, 1, 4), before, options());
  begin(cluster, SomeTables(7), SomeTables(7));
  ASSERT_TRUE(cluster.run_until_idle());
  cluster.begin(before);
  ASSERT_TRUE(cluster.run_until_idle());
  EXPECT_EQ(num_replicas(cluster, 0), 2U);
}

TEST(TableCompiler, RanksWithDifferentTablesDoNotAgree) {  // M6
  Cluster cluster(uniform(2, 1, 4), before, options());
  begin(cluster, SomeTables(7), SomeTables(8));
  ASSERT_TRUE(cluster.run_until_idle());
  EXPECT_EQ(cluster.find_difference(before), "");
  for (std::size_t rank : {0U, 1U}) {
    EXPECT_EQ(cluster.publisher(rank).identity().epoch, Epoch{0});
    EXPECT_EQ(cluster.engine(rank).health().last_failure->code, Errc::version_mismatch);
  }
}

TEST(TableCompiler, ThatFailsOnOneRankRollsTheStepBackOnAll) {
  Cluster cluster(uniform(2, 1, 4), before, options());
  begin(cluster, SomeTables(7), SomeTables(7, true));
  ASSERT_TRUE(cluster.run_until_idle());
  EXPECT_EQ(cluster.find_difference(before), "");
  for (std::size_t rank : {0U, 1U}) {
    EXPECT_EQ(cluster.publisher(rank).identity().epoch, Epoch{0});
    EXPECT_EQ(cluster.engine(rank).health().last_failure->code, Errc::infeasible);
  }
}

}  // namespace
}  // namespace trimtab::test
