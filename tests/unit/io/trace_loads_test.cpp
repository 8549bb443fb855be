// SPDX-License-Identifier: Apache-2.0
#include "io/trace_loads.hpp"

#include "io/load_file.hpp"
#include "unit/io/raw_trace.hpp"
#include "unit/io/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace trimtab::test {
namespace {

using Rows = std::vector<std::vector<double>>;

Rows rows_of(const LoadMatrix& loads) {
  Rows rows;
  for (LayerId layer : ids<LayerId>(loads.num_layers())) {
    rows.emplace_back(loads.layer(layer).begin(), loads.layer(layer).end());
  }
  return rows;
}

Result<TraceLoads> fold(const RawTrace& raw, const TraceFold& how) {
  const TemporaryFolder folder;
  Result<TraceFile> trace = TraceFile::open(folder.write("a.trace", raw.bytes()));
  if (!trace) return failure(std::move(trace));
  Result<TraceLoads> loads = fold_trace(*trace, how);
  if (!loads) loads.error().message.erase(0, folder.file("").size());
  return loads;
}

const std::vector<double> dense(6, 0.0);

TEST(TraceLoads, CountsEveryChoiceInTheRowOfItsLayer) {
  const auto loads = fold(RawTrace::small(), {});
  ASSERT_TRUE(loads) << loads.error().message;
  ASSERT_EQ(loads->steps.size(), 1U);
  EXPECT_EQ(rows_of(loads->steps[0]), (Rows{dense, {3, 2, 1, 0, 0, 0}, dense, {0, 1, 1, 1, 1, 2}}));
  EXPECT_EQ(loads->num_tokens, 3U);
  EXPECT_EQ(loads->num_prefill, 2U);
  EXPECT_EQ(loads->num_requests, 2U);
}

TEST(TraceLoads, CountsOnePhaseOnly) {
  const auto prefill = fold(RawTrace::small(), {.phase = TracePhase::prefill, .window = {}});
  ASSERT_TRUE(prefill);
  EXPECT_EQ(rows_of(prefill->steps[0]), (Rows{dense, {2, 1, 1, 0, 0, 0}, dense, {0, 0, 0, 1, 1, 2}}));
  EXPECT_EQ(prefill->num_requests, 1U);
  const auto decode = fold(RawTrace::small(), {.phase = TracePhase::decode, .window = {}});
  ASSERT_TRUE(decode);
  EXPECT_EQ(rows_of(decode->steps[0]), (Rows{dense, {1, 1, 0, 0, 0, 0}, dense, {0, 1, 1, 0, 0, 0}}));
  EXPECT_EQ(decode->num_prefill, 0U);
}

TEST(TraceLoads, CutsWindowsOfWhichTheLastMayBeShorter) {
  const auto loads = fold(RawTrace::small(), {.phase = {}, .window = 2});
  ASSERT_TRUE(loads) << loads.error().message;
  ASSERT_EQ(loads->steps.size(), 2U);
  EXPECT_EQ(rows_of(loads->steps[0]), (Rows{dense, {2, 1, 1, 0, 0, 0}, dense, {0, 0, 0, 1, 1, 2}}));
  EXPECT_EQ(rows_of(loads->steps[1]), (Rows{dense, {1, 1, 0, 0, 0, 0}, dense, {0, 1, 1, 0, 0, 0}}));
  EXPECT_EQ(rows_of(loads->total()), (Rows{dense, {3, 2, 1, 0, 0, 0}, dense, {0, 1, 1, 1, 1, 2}}));
  EXPECT_EQ(fold(RawTrace::small(), {.phase = {}, .window = 3})->steps.size(), 1U);
  EXPECT_EQ(fold(RawTrace::small(), {.phase = TracePhase::prefill, .window = 1})->steps.size(), 2U);
}

TEST(TraceLoads, APhaseWithoutTokensIsAnError) {
  RawTrace raw = RawTrace::small();
  raw.tensors["phase"].bytes = std::string(3, '\0');
  const auto loads = fold(raw, {.phase = TracePhase::decode, .window = {}});
  ASSERT_FALSE(loads);
  EXPECT_EQ(loads.error().message, "a.trace: none of its 3 tokens is of the phase decode");
}

TEST(TraceLoads, ChecksTokensThatAreNotFolded) {
  RawTrace raw = RawTrace::small();
  raw.tensors["topk_ids"].bytes[11] = 6;  // The last token, the only one of its phase.
  const auto loads = fold(raw, {.phase = TracePhase::prefill, .window = {}});
  ASSERT_FALSE(loads);
  EXPECT_EQ(loads.error().message, "a.trace: token 2, layer 3: expert 6 is not in 0..5");
}

TEST(TraceLoads, RefusesMoreWindowsThanMemoryHolds) {
  RawTrace raw = RawTrace::small();
  raw.metadata["layers"] = "2796202";  // 16,777,212 loads: five windows of that fit.
  raw.tensors["topk_ids"] = {"U8", {6, 2, 2}, {}};
  raw.tensors["request"] = raw.tensors["position"] = {"U32", {6}, std::string(24, '\0')};
  raw.tensors["phase"] = {"U8", {6}, std::string(6, '\0')};
  for (int i = 0; i < 12; ++i) raw.tensors["topk_ids"].bytes += little_endian({0, 1}, 1);
  const auto loads = fold(raw, {.phase = {}, .window = 1});
  ASSERT_FALSE(loads);
  EXPECT_EQ(loads.error().message,
            "a.trace: 6 tokens in windows of 1 are 6 steps of 16777212 loads > 100000000");
}

TEST(LoadFile, ReadsATraceAsLoads) {
  const TemporaryFolder folder;
  const auto file = read_load_file(folder.write("a.json", RawTrace::small().bytes()));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(rows_of(file->loads), (Rows{dense, {3, 2, 1, 0, 0, 0}, dense, {0, 1, 1, 1, 1, 2}}));
  EXPECT_EQ(file->num_steps, 1);
}

TEST(LoadFile, RefusesATraceThatComesThroughAPipe) {
  const auto file = parse_loads(JsonText::copy_of("standard input", RawTrace::small().bytes()));
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message, "standard input: a trace can be read from a file only, not from a pipe");
}

}  // namespace
}  // namespace trimtab::test
