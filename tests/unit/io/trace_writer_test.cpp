// SPDX-License-Identifier: Apache-2.0
#include "io/trace_writer.hpp"

#include "io/spool_file.hpp"
#include "io/trace_file.hpp"
#include "unit/io/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace trimtab::test {
namespace {

TraceInfo info_of(std::int32_t num_experts) {
  return {.model = "tiny",
          .domain = "c++",
          .num_experts = num_experts,
          .num_groups = 1,
          .top_k = 2,
          .num_layers = 3,
          .layers = {LayerId{1}, LayerId{2}}};
}

/// Token i of a long trace, and its choices.
TraceToken token(std::uint32_t i) {
  return {i % 3 == 0 ? TracePhase::prefill : TracePhase::decode, i / 100, i};
}
std::vector<ExpertId> choice(std::uint32_t i, std::int32_t num_experts) {
  const auto at = static_cast<std::int32_t>(i) % num_experts;
  const auto next = (at + 1) % num_experts;
  return {ExpertId{at}, ExpertId{next}, ExpertId{num_experts - 1}, ExpertId{0}};
}

void append(TraceWriter& writer, std::uint32_t first, std::uint32_t last, std::int32_t num_experts) {
  std::vector<TraceToken> tokens;
  std::vector<ExpertId> experts;
  for (std::uint32_t i = first; i < last; ++i) {
    const auto chosen = choice(i, num_experts);
    tokens.push_back(token(i));
    experts.insert(experts.end(), chosen.begin(), chosen.end());
  }
  const Status done = writer.append(tokens, experts);
  ASSERT_TRUE(done) << done.error().message;
}

void expect_tokens(const std::string& path, std::uint32_t num_tokens, std::int32_t num_experts) {
  const auto trace = TraceFile::open(path);
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->info(), info_of(num_experts));
  EXPECT_EQ(trace->num_tokens(), num_tokens);
  std::uint32_t at = 0;
  const Status done = trace->scan([&](const TraceBatch& batch) {
    for (std::size_t i = 0; i < batch.tokens.size(); ++i, ++at) {
      ASSERT_EQ(batch.tokens[i], token(at));
      const auto chosen = batch.experts.subspan(4 * i, 4);
      ASSERT_EQ(std::vector<ExpertId>(chosen.begin(), chosen.end()), choice(at, num_experts));
    }
  });
  EXPECT_TRUE(done) << done.error().message;
  EXPECT_EQ(at, num_tokens);
}

TEST(TraceWriter, WritesWhatTheReaderReadsInBatchesOfAnySize) {
  for (std::int32_t num_experts : {7, 256, 257, 65536}) {
    const TemporaryFolder folder;
    auto writer = TraceWriter::create(folder.file("a.trace"), info_of(num_experts));
    ASSERT_TRUE(writer) << writer.error().message;
    append(*writer, 0, 1, num_experts);
    append(*writer, 1, 1, num_experts);
    append(*writer, 1, 50, num_experts);
    EXPECT_EQ(writer->num_tokens(), 50U);
    ASSERT_TRUE(writer->commit());
    expect_tokens(folder.file("a.trace"), 50, num_experts);
  }
}

TEST(TraceWriter, KeepsMoreThanItsBuffersHold) {
  const TemporaryFolder folder;
  auto writer = TraceWriter::create(folder.file("a.trace"), info_of(300));
  ASSERT_TRUE(writer);
  constexpr std::uint32_t num_tokens = 3 * SpoolFile::piece_bytes / 8 + 5;  // 8 bytes of ids each.
  for (std::uint32_t i = 0; i < num_tokens; i += 999) append(*writer, i, std::min(i + 999, num_tokens), 300);
  EXPECT_EQ(folder.num_entries(), 0U);
  ASSERT_TRUE(writer->commit());
  expect_tokens(folder.file("a.trace"), num_tokens, 300);
  EXPECT_EQ(folder.num_entries(), 1U);
}

TEST(TraceWriter, TakesAByteForAnIdOfUpTo256Experts) {
  const TemporaryFolder folder;
  const auto size_with = [&](std::int32_t num_experts) {
    auto writer = TraceWriter::create(folder.file("a.trace"), info_of(num_experts));
    append(*writer, 0, 1000, num_experts);
    EXPECT_TRUE(writer->commit());
    return folder.read("a.trace").size();
  };
  constexpr double header = 1000.0;
  EXPECT_NEAR(static_cast<double>(size_with(256)), 1000 * (9 + 4) + header / 2, header / 2);
  EXPECT_NEAR(static_cast<double>(size_with(257)), 1000 * (9 + 8) + header / 2, header / 2);
}

TEST(TraceWriter, LeavesNothingWithoutCommit) {
  const TemporaryFolder folder;
  folder.write("a.trace", "old");
  {
    auto writer = TraceWriter::create(folder.file("a.trace"), info_of(7));
    append(*writer, 0, 10, 7);
  }
  EXPECT_EQ(folder.read("a.trace"), "old");
  EXPECT_EQ(folder.num_entries(), 1U);
}

TEST(TraceWriter, RefusesATraceWithoutTokens) {
  const TemporaryFolder folder;
  auto writer = TraceWriter::create(folder.file("a.trace"), info_of(7));
  const Status done = writer->commit();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, folder.file("a.trace") + ": no tokens");
  EXPECT_EQ(folder.num_entries(), 0U);
}

TEST(TraceWriter, RefusedTokensAreNotInTheTrace) {
  const TemporaryFolder folder;
  auto writer = TraceWriter::create(folder.file("a.trace"), info_of(7));
  append(*writer, 0, 10, 7);
  const std::vector<TraceToken> two(2);
  const auto refused = [&](std::vector<std::int32_t> numbers) {
    std::vector<ExpertId> experts;
    for (std::int32_t number : numbers) experts.emplace_back(number);
    const Status done = writer->append(two, experts);
    return done ? "taken" : done.error().message.substr(folder.file("a.trace").size());
  };
  EXPECT_EQ(refused({0, 1, 0, 1, 0, 1, 7, 1}), ": token 11, layer 2: expert 7 is not in 0..6");
  EXPECT_EQ(refused({0, 1, -1, 1, 0, 1, 0, 1}), ": token 10, layer 2: expert -1 is not in 0..6");
  EXPECT_EQ(refused({3, 3, 0, 1, 0, 1, 0, 1}), ": token 10, layer 1: expert 3 is chosen twice");
  EXPECT_EQ(refused({0, 1, 0, 1}), ": token 10: 4 experts for 2 tokens that choose 4 each");
  append(*writer, 10, 20, 7);
  ASSERT_TRUE(writer->commit());
  expect_tokens(folder.file("a.trace"), 20, 7);
}

TEST(TraceWriter, RefusesAPhaseThatIsNone) {
  const TemporaryFolder folder;
  auto writer = TraceWriter::create(folder.file("a.trace"), info_of(7));
  const TraceToken strange{static_cast<TracePhase>(2), 0, 0};
  const Status done = writer->append(std::span(&strange, 1), choice(0, 7));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message,
            folder.file("a.trace") + ": token 0: phase 2 is not 0 (prefill) or 1 (decode)");
}

TEST(TraceWriter, RefusesAModelThatCannotBe) {
  const TemporaryFolder folder;
  TraceInfo info = info_of(7);
  info.domain = "a/b";
  const auto writer = TraceWriter::create(folder.file("a.trace"), info);
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, Errc::invalid_argument);
  EXPECT_NE(writer.error().message.find("a.trace: domain 'a/b' is not"), std::string::npos);
}

TEST(TraceWriter, SaysAtOnceThatAFolderIsMissing) {
  const TemporaryFolder folder;
  const auto writer = TraceWriter::create(folder.file("none/a.trace"), info_of(7));
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, Errc::io);
  EXPECT_EQ(writer.error().message,
            folder.file("none/a.trace") + ": cannot be written: No such file or directory");
}

}  // namespace
}  // namespace trimtab::test
