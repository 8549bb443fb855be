// SPDX-License-Identifier: Apache-2.0
#include "io/placement_file.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace trimtab::test {
namespace {

Result<Placement> parse(std::string_view text, std::optional<std::int32_t> num_experts = {}) {
  return parse_placement(JsonText::copy_of("p.json", text), num_experts);
}

// SGLang passes every key of the file on as an argument: one key more and it does not start.
TEST(PlacementFile, HoldsTheMapAlone) {
  const auto placement = Placement::identity(2, 3, 2);
  EXPECT_EQ(format_placement(*placement), "{\"physical_to_logical_map\": [[0,1,0],\n[0,1,0]]}\n");
}

TEST(PlacementFile, ReadsBackWhatWasWritten) {
  const auto written =
      Placement::make(1, 5, 3, {ExpertId{2}, ExpertId{0}, no_expert, ExpertId{1}, ExpertId{2}});
  const auto read = parse(format_placement(*written));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, *written);
}

TEST(PlacementFile, TakesTheNumberOfExpertsWhenItIsGiven) {
  const std::string text = R"({"physical_to_logical_map": [[0, 1, 2]]})";
  EXPECT_EQ(parse(text)->num_experts(), 3);
  const auto too_few = parse(text, 2);
  ASSERT_FALSE(too_few);
  EXPECT_EQ(too_few.error().message, "p.json: layer 0, slot 2: expert 2 is not in 0..1");
}

struct BadInput {
  const char* name;
  std::string map;
  std::string message;
};

void PrintTo(const BadInput& bad, std::ostream* out) { *out << bad.name; }

class BadPlacement : public testing::TestWithParam<BadInput> {};

TEST_P(BadPlacement, IsRefusedWithItsPlace) {
  const auto placement = parse("{\"physical_to_logical_map\": " + GetParam().map + "}");
  ASSERT_FALSE(placement);
  EXPECT_EQ(placement.error().message, "p.json: " + GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadPlacement,
    testing::Values(
        BadInput{"uncovered", "[[0, 1, 2], [0, 2, 2]]", "layer 1: expert 1 has no slot"},
        BadInput{"ragged", "[[0, 1], [0, 1, 1]]", "layer 1: 3 slots, but layer 0 has 2"},
        BadInput{"fraction", "[[0, 1.0]]",
                 "layer 0, slot 1: '1.0' is not an expert in 0..2147483646 or -1 for a vacant slot"},
        BadInput{"below_vacant", "[[0, -2]]",
                 "layer 0, slot 1: '-2' is not an expert in 0..2147483646 or -1 for a vacant slot"},
        BadInput{"word", "[[0, x]]",
                 "layer 0, slot 1: 'x' is not an expert in 0..2147483646 or -1 for a vacant slot"},
        BadInput{"far_beyond_the_slots", "[[0, 2000000000]]",
                 "2 slots < 2000000001 experts: every expert needs a slot"},
        BadInput{"only_vacant", "[[-1, -1]]", "1 layers x 0 experts: both must be at least 1"},
        BadInput{"one_axis", "[0, 1]", "layer 0: '0' is not a list of experts (expected [layers][slots])"},
        BadInput{"empty", "[]", "\"physical_to_logical_map\" is an empty list"},
        BadInput{"empty_layer", "[[]]", "layer 0: no slots (an empty list)"},
        BadInput{"no_list", "7", "\"physical_to_logical_map\" is '7', not a list of layers"}),
    [](const auto& bad) { return std::string(bad.param.name); });

}  // namespace
}  // namespace trimtab::test
