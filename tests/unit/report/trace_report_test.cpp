// SPDX-License-Identifier: Apache-2.0
#include "report/trace_report.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace trimtab::test {
namespace {

constexpr std::int32_t num_experts = 8;

using ExpertLoads = std::vector<std::pair<std::size_t, double>>;

/// Layer 0 is dense; in layers 1 and 2 each listed expert gets so much.
LoadMatrix loads_of(const ExpertLoads& first, const ExpertLoads& second) {
  std::vector<double> loads(3 * num_experts, 0.0);
  for (const auto& [expert, load] : first) loads[num_experts + expert] = load;
  for (const auto& [expert, load] : second) loads[2 * num_experts + expert] = load;
  return *LoadMatrix::make(3, num_experts, std::move(loads));
}

TraceSummary english() {
  return {"en.trace", "english", 100,
          60,         3,         loads_of({{0, 90}, {1, 70}, {4, 40}}, {{2, 50}, {3, 50}, {6, 100}})};
}

TraceSummary chinese() {
  return {"zh.trace", "chinese", 100, 100, 1, loads_of({{1, 60}, {2, 70}, {7, 70}}, {{3, 80}, {6, 120}})};
}

TraceReport report_of(std::vector<TraceSummary> traces) {
  TraceReport report{.model = "tiny",
                     .num_groups = 2,
                     .top_k = 2,
                     .num_ranks = 0,
                     .num_slots = 0,
                     .placement = {},
                     .traces = std::move(traces),
                     .loads = {},
                     .noise_floors = {},
                     .hot_overlap = {},
                     .cross_imbalance = {}};
  spread_traces(report, *Placement::identity(3, 8, num_experts), *Topology::make_uniform(4, 1, 8));
  return report;
}

TEST(TraceReport, AQuarterOfTheExpertsIsHot) {
  EXPECT_EQ(num_hot_experts(32), 8);
  EXPECT_EQ(num_hot_experts(7), 1);
  EXPECT_EQ(num_hot_experts(2), 1);
}

// Hot in layer 1: english 0 and 1, chinese 2 and 7. In layer 2: english 6 and 2 (before 3), chinese 3 and 6.
TEST(TraceReport, OverlapIsTheMeanShareOfHotExpertsInCommon) {
  const std::vector<TraceSummary> traces{english(), chinese()};
  EXPECT_EQ(compute_hot_overlap(traces), (TraceMatrix{{1.0, 0.25}, {0.25, 1.0}}));
}

TEST(TraceReport, OverlapPassesOverLayersWithoutLoad) {
  const TraceSummary sparse{"x", "x", 1, 1, 1, loads_of({{0, 1}, {1, 1}}, {})};
  const std::vector<TraceSummary> traces{english(), sparse};
  EXPECT_EQ(compute_hot_overlap(traces), (TraceMatrix{{1.0, 1.0}, {1.0, 1.0}}));
}

TEST(TraceReport, APlanServesItsOwnTraceBest) {
  const std::vector<TraceSummary> traces{english(), chinese()};
  SerialExecutor executor;
  const auto topology = Topology::make_uniform(4, 1, 12);
  const auto cross = compute_cross_imbalance(traces, *topology, {}, executor);
  ASSERT_TRUE(cross) << cross.error().message;
  EXPECT_LT((*cross)[0][0], (*cross)[1][0]);
  EXPECT_LT((*cross)[1][1], (*cross)[0][1]);
  for (std::size_t t : {0U, 1U}) {  // The diagonal is what the planner says of its plan.
    const auto plan = plan_rebalance(traces[t].loads, *topology, {}, executor);
    EXPECT_DOUBLE_EQ((*cross)[t][t], (plan->layers[1].imbalance + plan->layers[2].imbalance) / 2);
  }
}

TEST(TraceReport, APlanThatCannotBeNamesTheTrace) {
  const std::vector<TraceSummary> traces{english()};
  SerialExecutor executor;
  const auto cross = compute_cross_imbalance(traces, *Topology::make_uniform(4, 1, 7), {}, executor);
  ASSERT_FALSE(cross);
  EXPECT_EQ(cross.error().code, Errc::infeasible);
  EXPECT_EQ(cross.error().message, "en.trace: 7 live slots < 8 experts: every expert needs one");
}

TEST(TraceReport, ShowsTracesBesideEachOther) {
  TraceReport report = report_of({english(), chinese()});
  report.cross_imbalance = TraceMatrix{{1.0, 1.5}, {1.75, 1.25}};
  EXPECT_EQ(trace_text(report, {}),
            "2 traces of tiny: 3 layers (1 dense), 8 experts in 2 groups, top-2\n"
            "4 ranks with 8 slots under the identity placement\n"
            "trace    tokens  prefill  decode  requests  imbalance   worst  layer  noise floor\n"
            "english     100       60      40         3     2.6000  3.2000      1       1.1456\n"
            "chinese     100      100       0         1     1.9000  2.4000      2       1.1456\n"
            "\n"
            "imbalance by layer\n"
            "layer    english  chinese\n"
            "1         3.2000   1.4000\n"
            "2         2.0000   2.4000\n"
            "-------  -------  -------\n"
            "average   2.6000   1.9000\n"
            "\n"
            "share of the 2 hottest experts in common, mean over layers (chance: 0.25)\n"
            "trace    english  chinese\n"
            "english     1.00     0.25\n"
            "chinese     0.25     1.00\n"
            "\n"
            "imbalance under a plan of 8 slots made for one trace and serving another\n"
            "made for  english  chinese\n"
            "english    1.0000   1.5000\n"
            "chinese    1.7500   1.2500\n"
            "on average 1.1250 under its own plan, 1.6250 under another's\n");
}

TEST(TraceReport, ShowsTheLoadsOfASingleTrace) {
  const std::string text = trace_text(report_of({english()}), {});
  EXPECT_NE(text.find("1 trace of tiny"), std::string::npos);
  EXPECT_NE(text.find(load_text(report_of({english()}).loads[0], {})), std::string::npos);
  EXPECT_EQ(text.find("in common"), std::string::npos);
}

TEST(TraceReport, TopListsTheWorstLayersOfAnyTraceFirst) {
  const std::string text = trace_text(report_of({chinese(), english()}), 1);
  EXPECT_NE(text.find("\n1         1.4000   3.2000\n---"), std::string::npos) << text;
}

TEST(TraceReport, NumbersTracesOfOneDomain) {
  const std::string text = trace_text(report_of({english(), english(), chinese()}), {});
  EXPECT_NE(text.find("\n2:english "), std::string::npos) << text;
}

TEST(TraceReport, StaysWithin100ColumnsWhateverTheNumberAndNamesOfTraces) {
  std::vector<TraceSummary> traces;
  for (int i = 0; i < 9; ++i) {
    traces.push_back(english());
    traces.back().domain = std::to_string(i) + std::string(50, 'x');
  }
  TraceReport report = report_of(std::move(traces));
  report.cross_imbalance = report.hot_overlap;
  const std::string text = trace_text(report, {});
  for (std::size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
    EXPECT_LE(text.find('\n', begin) - begin, 100U) << text.substr(begin, 120);
  }
  for (int i = 0; i < 9; ++i) {  // In the summary, and as column and row of two matrices, and of the layers.
    const std::string label = std::to_string(i) + std::string(17, 'x') + "..";
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find(label, at)) != std::string::npos; ++at) ++count;
    EXPECT_GE(count, 6U) << label;
  }
}

TEST(TraceReport, DocumentHoldsTheNumbersOfEveryTrace) {
  TraceReport report = report_of({english(), chinese()});
  const auto document = trace_document(report, 1);
  EXPECT_EQ(document["schema"], "trimtab.inspect/1");
  EXPECT_EQ(document["kind"], "traces");
  EXPECT_EQ(document["dense_layers"], (std::vector<int>{0}));
  EXPECT_EQ(document["ranks"], 4);
  EXPECT_TRUE(document["placement"].is_null());
  EXPECT_FALSE(document.contains("cross_imbalance"));
  const auto& second = document["traces"][1];
  EXPECT_EQ(second["file"], "zh.trace");
  EXPECT_EQ(second["decode_tokens"], 0);
  EXPECT_EQ(second["layers"].size(), 1U);
  EXPECT_EQ(second["layers"][0]["layer"], 2);
  EXPECT_EQ(second["summary"]["layers"], 2);
  EXPECT_DOUBLE_EQ(second["summary"]["imbalance_mean"].get<double>(), 1.9);
  EXPECT_EQ(document["hot_overlap"][0][1], 0.25);
  report.cross_imbalance = TraceMatrix{{1, 2}, {3, 4}};
  report.placement = "p.json";
  EXPECT_EQ(trace_document(report, {})["cross_imbalance"][1][0], 3.0);
  EXPECT_EQ(trace_document(report, {})["placement"], "p.json");
}

}  // namespace
}  // namespace trimtab::test
