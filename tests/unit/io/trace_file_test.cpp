// SPDX-License-Identifier: Apache-2.0
#include "io/trace_file.hpp"

#include "unit/io/raw_trace.hpp"
#include "unit/io/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace trimtab::test {
namespace {

struct Scanned {
  std::vector<TraceToken> tokens;
  std::vector<std::int32_t> experts;
};

Result<Scanned> scan(const TraceFile& trace) {
  Scanned scanned;
  Status done = trace.scan([&](const TraceBatch& batch) {
    scanned.tokens.insert(scanned.tokens.end(), batch.tokens.begin(), batch.tokens.end());
    for (ExpertId expert : batch.experts) scanned.experts.push_back(expert.value());
  });
  if (!done) return failure(std::move(done));
  return scanned;
}

/// Opens and reads all.
Result<Scanned> read(const std::string& path) {
  Result<TraceFile> trace = TraceFile::open(path);
  if (!trace) return failure(std::move(trace));
  return scan(*trace);
}

TEST(TraceFile, ReadsWhatTheFormatSays) {
  const TemporaryFolder folder;
  const auto trace = TraceFile::open(folder.write("a.trace", RawTrace::small().bytes()));
  ASSERT_TRUE(trace) << trace.error().message;
  const TraceInfo expected{.model = "tiny",
                           .domain = "english",
                           .num_experts = 6,
                           .num_groups = 2,
                           .top_k = 2,
                           .num_layers = 4,
                           .layers = {LayerId{1}, LayerId{3}}};
  EXPECT_EQ(trace->info(), expected);
  EXPECT_EQ(trace->num_tokens(), 3U);
  const auto scanned = scan(*trace);
  ASSERT_TRUE(scanned) << scanned.error().message;
  EXPECT_EQ(scanned->tokens,
            (std::vector<TraceToken>{
                {TracePhase::prefill, 7, 0}, {TracePhase::prefill, 7, 1}, {TracePhase::decode, 9, 70000}}));
  EXPECT_EQ(scanned->experts, (std::vector<std::int32_t>{0, 1, 5, 4, 0, 2, 5, 3, 1, 0, 2, 1}));
}

TEST(TraceFile, PassesOverWhatItDoesNotKnow) {
  const TemporaryFolder folder;
  RawTrace raw = RawTrace::small();
  raw.metadata["seed"] = "7";
  raw.tensors["weights"] = {"F32", {1}, "abcd"};
  EXPECT_TRUE(read(folder.write("a.trace", raw.bytes())));
}

struct BadTrace {
  const char* name;
  std::function<void(RawTrace&)> spoil;
  std::string message;  // Without the path.
};

void PrintTo(const BadTrace& bad, std::ostream* out) { *out << bad.name; }

class BadTraces : public testing::TestWithParam<BadTrace> {};

TEST_P(BadTraces, AreRefusedInOneLineThatNamesPlaceValueAndLimit) {
  const TemporaryFolder folder;
  RawTrace raw = RawTrace::small();
  GetParam().spoil(raw);
  const std::string path = folder.write("a.trace", raw.bytes());
  const auto scanned = read(path);
  ASSERT_FALSE(scanned);
  EXPECT_EQ(scanned.error().code, Errc::invalid_argument);
  EXPECT_EQ(scanned.error().message, path + ": " + GetParam().message);
}

/// One metadata entry replaced, or with null left out.
std::function<void(RawTrace&)> metadata(const char* key, const char* value) {
  return [=](RawTrace& raw) {
    if (value == nullptr) raw.metadata.erase(key);
    if (value != nullptr) raw.metadata[key] = value;
  };
}

std::function<void(RawTrace&)> without(const char* tensor) {
  return [=](RawTrace& raw) { raw.tensors.erase(tensor); };
}

std::function<void(RawTrace&)> tensor(const char* name, RawTrace::Tensor value) {
  return [=](RawTrace& raw) { raw.tensors[name] = value; };
}

/// One byte of the ids replaced; they are [3][2][2].
std::function<void(RawTrace&)> id(std::size_t at, char value) {
  return [=](RawTrace& raw) { raw.tensors["topk_ids"].bytes[at] = value; };
}

INSTANTIATE_TEST_SUITE_P(
    All, BadTraces,
    testing::Values(
        BadTrace{"no_format", metadata("format", nullptr), "not a trace: no metadata \"format\""},
        BadTrace{"a_model", metadata("format", "trimtab.model/1"),
                 "not a trace: its format is 'trimtab.model/1', not trimtab.trace/1"},
        BadTrace{"no_domain", metadata("domain", nullptr), "not a trace: no metadata \"domain\""},
        BadTrace{"domain_that_leads_elsewhere", metadata("domain", "../x"),
                 "domain '../x' is not 1 to 60 letters, digits and ._+- that begin with no point"},
        BadTrace{"hidden_domain", metadata("domain", ".x"),
                 "domain '.x' is not 1 to 60 letters, digits and ._+- that begin with no point"},
        BadTrace{"empty_model", metadata("model", ""),
                 "model '' is not 1 to 60 letters, digits and ._+- that begin with no point"},
        BadTrace{"no_experts", metadata("experts", nullptr), "not a trace: no metadata \"experts\""},
        BadTrace{"experts_in_words", metadata("experts", "6x"),
                 "metadata \"experts\": '6x' is not a number below 2^31"},
        BadTrace{"too_many_experts", metadata("experts", "65537"), "experts 65537 is not in 1..65536"},
        BadTrace{"negative_experts", metadata("experts", "-6"), "experts -6 is not in 1..65536"},
        BadTrace{"too_many_layers", metadata("layers", "2796203"), "layers 2796203 is not in 1..2796202"},
        BadTrace{"top_k_above_experts", metadata("experts", "1"), "top_k 2 is not in 1..1"},
        BadTrace{"groups_that_do_not_divide", metadata("groups", "4"), "4 groups do not divide 6 experts"},
        BadTrace{"no_groups", metadata("groups", "0"), "groups 0 is not in 1..6"},
        BadTrace{"no_tensor_of_layers", without("layers"), "not a trace: no tensor \"layers\""},
        BadTrace{"layers_of_another_type", tensor("layers", {"I32", {2}, little_endian({1, 3}, 4)}),
                 "tensor \"layers\": I32 where U32 is expected"},
        BadTrace{"more_rows_than_layers", tensor("layers", {"U32", {5}, little_endian({0, 1, 2, 3, 4}, 4)}),
                 "tensor \"layers\": 5 rows > 4 layers"},
        BadTrace{"no_rows", tensor("layers", {"U32", {0}, ""}), "no layer has experts"},
        BadTrace{"layer_beyond_the_model", tensor("layers", {"U32", {2}, little_endian({1, 4}, 4)}),
                 "row 1: layer 4 is not in 0..3"},
        BadTrace{"layer_beyond_an_int", tensor("layers", {"U32", {2}, little_endian({1, 0xffffffff}, 4)}),
                 "row 1: layer 4294967295 is not in 0..3"},
        BadTrace{"layers_that_do_not_ascend", tensor("layers", {"U32", {2}, little_endian({3, 3}, 4)}),
                 "row 1: layer 3 is not above 3, that of row 0"},
        BadTrace{"no_ids", without("topk_ids"), "not a trace: no tensor \"topk_ids\""},
        BadTrace{"ids_with_two_axes", tensor("topk_ids", {"U8", {3, 4}, std::string(12, '\0')}),
                 "tensor \"topk_ids\": 2 axes, not 3"},
        BadTrace{"ids_with_a_row_too_few",
                 tensor("topk_ids", {"U8", {3, 1, 2}, little_endian({0, 1, 0, 1, 0, 1}, 1)}),
                 "tensor \"topk_ids\": [3, 1, 2] where [3, 2, 2] is expected"},
        BadTrace{"ids_wider_than_needed",
                 tensor("topk_ids", {"U16", {1, 2, 2}, little_endian({0, 1, 0, 1}, 2)}),
                 "tensor \"topk_ids\": U16 where U8 is expected"},
        BadTrace{"no_choice", tensor("topk_ids", {"U8", {3, 2, 0}, ""}), "top_k 0 is not in 1..6"},
        BadTrace{"no_tokens", tensor("topk_ids", {"U8", {0, 2, 2}, ""}), "no tokens"},
        BadTrace{"no_phases", without("phase"), "not a trace: no tensor \"phase\""},
        BadTrace{"a_phase_too_few", tensor("phase", {"U8", {2}, std::string(2, '\0')}),
                 "tensor \"phase\": [2] where [3] is expected"},
        BadTrace{"requests_of_another_type", tensor("request", {"U16", {3}, std::string(6, '\0')}),
                 "tensor \"request\": U16 where U32 is expected"},
        BadTrace{"a_position_too_many", tensor("position", {"U32", {4}, std::string(16, '\0')}),
                 "tensor \"position\": [4] where [3] is expected"},
        BadTrace{"unknown_phase", tensor("phase", {"U8", {3}, little_endian({0, 1, 2}, 1)}),
                 "token 2: phase 2 is not 0 (prefill) or 1 (decode)"},
        BadTrace{"expert_out_of_range", id(6, 6), "token 1, layer 3: expert 6 is not in 0..5"},
        BadTrace{"expert_255", id(11, '\xff'), "token 2, layer 3: expert 255 is not in 0..5"},
        BadTrace{"expert_twice", id(5, 0), "token 1, layer 1: expert 0 is chosen twice"}),
    [](const auto& bad) { return std::string(bad.param.name); });

TEST(TraceFile, CutAnywhereIsRefused) {
  const TemporaryFolder folder;
  const std::string whole = RawTrace::small().bytes();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto scanned = read(folder.write("cut.trace", whole.substr(0, size)));
    ASSERT_FALSE(scanned) << size;
    EXPECT_EQ(scanned.error().message.find('\n'), std::string::npos) << size;
  }
}

TEST(TraceFile, CutOffWhileItIsOpenIsAnError) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.trace", RawTrace::small().bytes());
  const auto trace = TraceFile::open(path);
  ASSERT_TRUE(trace);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  const auto scanned = scan(*trace);
  ASSERT_FALSE(scanned);
  EXPECT_EQ(scanned.error().code, Errc::io);
}

TEST(TraceFile, MissingIsToldApart) {
  const TemporaryFolder folder;
  const auto trace = TraceFile::open(folder.file("none"));
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code, Errc::not_found);
}

}  // namespace
}  // namespace trimtab::test
