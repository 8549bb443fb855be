// SPDX-License-Identifier: Apache-2.0
#include "io/load_file.hpp"

#include "io/generate.hpp"
#include "unit/io/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

namespace trimtab::test {
namespace {

Result<LoadFile> parse(std::string_view text) { return parse_loads(JsonText::copy_of("a.json", text)); }

std::vector<double> row(const LoadFile& file, std::int32_t layer) {
  const auto loads = file.loads.layer(LayerId{layer});
  return {loads.begin(), loads.end()};
}

TEST(LoadFile, ReadsLayersAndExperts) {
  const auto file = parse(R"({"logical_count": [[1, 2.5, 3e2], [0, 0.0, 0]]})");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->loads.num_layers(), 2);
  EXPECT_EQ(file->loads.num_experts(), 3);
  EXPECT_EQ(row(*file, 0), (std::vector<double>{1, 2.5, 300}));
  EXPECT_TRUE(file->loads.is_dense(LayerId{1}));
  EXPECT_EQ(file->num_steps, 1);
}

TEST(LoadFile, SumsSteps) {
  const auto file =
      parse(R"({"logical_count": [[[1, 2], [3, 4]], [[10, 20], [30, 40]], [[0, 0], [0, 0.5]]]})");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(row(*file, 0), (std::vector<double>{11, 22}));
  EXPECT_EQ(row(*file, 1), (std::vector<double>{33, 44.5}));
  EXPECT_EQ(file->num_steps, 3);
}

TEST(LoadFile, IgnoresOtherKeysBeforeAndBehind) {
  const auto file = parse(
      R"({"rank": 0, "x": {"logical_count": [7]}, "logical_count": [[1, 2]], "rate": NaN, "l": [[1],]})");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(row(*file, 0), (std::vector<double>{1, 2}));
}

TEST(LoadFile, UnderstandsEscapesInItsKey) { EXPECT_TRUE(parse(R"({"logical\u005fcount": [[1, 2]]})")); }

struct BadInput {
  const char* name;
  std::string text;
  std::string message;  // Without the path.
};

void PrintTo(const BadInput& bad, std::ostream* out) { *out << bad.name; }

class BadLoads : public testing::TestWithParam<BadInput> {};

TEST_P(BadLoads, IsRefusedInOneLineThatNamesPlaceAndValue) {
  const auto file = parse(GetParam().text);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Errc::invalid_argument);
  EXPECT_EQ(file.error().message, "a.json: " + GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadLoads,
    testing::Values(
        BadInput{"nan", R"({"logical_count": [[1, 2], [3, NaN]]})",
                 "layer 1, expert 1: 'NaN' is not a finite number >= 0"},
        BadInput{"infinity", R"({"logical_count": [[1, Infinity]]})",
                 "layer 0, expert 1: 'Infinity' is not a finite number >= 0"},
        BadInput{"minus_infinity", R"({"logical_count": [[-Infinity, 1]]})",
                 "layer 0, expert 0: '-Infinity' is not a finite number >= 0"},
        BadInput{"too_large_for_a_double", R"({"logical_count": [[1, 1e999]]})",
                 "layer 0, expert 1: '1e999' is not a finite number >= 0"},
        BadInput{"negative", R"({"logical_count": [[[1, 2]], [[3, -4]]]})",
                 "step 1, layer 0, expert 1: load -4 is not a finite number >= 0"},
        BadInput{"null", R"({"logical_count": [[1, null]]})",
                 "layer 0, expert 1: 'null' is not a finite number >= 0"},
        BadInput{"string", R"({"logical_count": [["12", 1]]})",
                 "layer 0, expert 0: '\"12\"' is not a finite number >= 0"},
        BadInput{"boolean", R"({"logical_count": [[true, 1]]})",
                 "layer 0, expert 0: 'true' is not a finite number >= 0"},
        BadInput{"octal", R"({"logical_count": [[1, 012]]})",
                 "layer 0, expert 1: '012' is not a finite number >= 0"},
        BadInput{"object", R"({"logical_count": [[1, {"a": 1}]]})",
                 "layer 0, expert 1: an object is not a finite number >= 0"},
        BadInput{"ragged", R"({"logical_count": [[1, 2, 3], [4, 5]]})",
                 "layer 1: 2 experts, but layer 0 has 3"},
        BadInput{"ragged_in_a_later_step", R"({"logical_count": [[[1, 2]], [[1, 2, 3]]]})",
                 "step 1, layer 0: 3 experts, but step 0, layer 0 has 2"},
        BadInput{"steps_with_fewer_layers", R"({"logical_count": [[[1, 2], [3, 4]], [[1, 2]]]})",
                 "step 1: 1 layers, but step 0 has 2"},
        BadInput{"steps_with_more_layers", R"({"logical_count": [[[1, 2]], [[1, 2], [3, 4]]]})",
                 "step 1: 2 layers, but step 0 has 1"},
        BadInput{"one_axis", R"({"logical_count": [1, 2]})",
                 "layer 0: '1' is not a list (expected [layers][experts] or [steps][layers][experts])"},
        BadInput{"four_axes", R"({"logical_count": [[[[1, 2]]]]})",
                 "step 0, layer 0, expert 0: a list is not a finite number >= 0"},
        BadInput{"axes_that_change", R"({"logical_count": [[[1, 2]], [3, 4]]})",
                 "step 1, layer 0: '3' is not a list of loads"},
        BadInput{"no_axis", R"({"logical_count": 7})", "\"logical_count\" is '7', not a list of layers"},
        BadInput{"empty_list", R"({"logical_count": []})", "\"logical_count\" is an empty list"},
        BadInput{"empty_layer", R"({"logical_count": [[]]})", "layer 0: no experts (an empty list)"},
        BadInput{"empty_step", R"({"logical_count": [[[1]], []]})", "step 1: no layers (an empty list)"},
        BadInput{"empty_layer_of_a_step", R"({"logical_count": [[[]]]})",
                 "step 0, layer 0: no experts (an empty list)"},
        BadInput{"sum_over_steps", R"({"logical_count": [[[1, 1e308]], [[1, 1e308]]]})",
                 "step 1, layer 0, expert 1: load 1e+308 makes the sum over the steps inf"},
        BadInput{"sum_over_experts", R"({"logical_count": [[1, 1], [1e308, 1e308]]})",
                 "layer 1: the sum of the loads is inf, not a finite number"},
        BadInput{"missing_key", R"({"counts": [[1]], "rank": 0})",
                 "no key \"logical_count\"; the keys are: 'counts', 'rank'"},
        BadInput{"no_keys", "{}", "no key \"logical_count\"; the keys are: none"},
        BadInput{"key_given_twice", R"({"logical_count": [[1]], "logical_count": [[2]]})",
                 "the key \"logical_count\" is there twice"},
        BadInput{"bare_list", "[[1, 2]]",
                 "not a JSON object with the key \"logical_count\": begins with '[[1, 2]]'"},
        BadInput{"not_json", "layer,expert\n0,1\n",
                 "not a JSON object with the key \"logical_count\": begins with 'layer,expert?0,1?'"},
        BadInput{"white_space", " \n\t ", "not JSON: 4 bytes of white space"},
        BadInput{"not_utf8", "{\"logical_count\": [[1, \xff]]}", "not JSON: the text is not valid UTF-8"},
        BadInput{"missing_comma", R"({"logical_count": [[1 2]]})", "layer 0, expert 1: malformed list"},
        BadInput{"trailing_comma", R"({"logical_count": [[1, ]]})",
                 "layer 0, expert 1: ']' is not a finite number >= 0"},
        BadInput{"text_behind", R"({"logical_count": [[1]]} {})",
                 "text after the end of the JSON object, at byte 25: '{}'"},
        BadInput{"word_behind", R"({"logical_count": [[1]]}  x)",
                 "text after the end of the JSON object, at byte 26: 'x'"},
        BadInput{"truncated_in_a_layer", R"({"logical_count": [[1, 2], [3, 4)",
                 "truncated JSON: the text ends after 32 bytes, in layer 1, entry 1"},
        BadInput{"truncated_in_a_step", R"({"logical_count": [[[1, 2], [3, 4]], [[5, 6], [7)",
                 "truncated JSON: the text ends after 48 bytes, in step 1, layer 1, entry 0"},
        BadInput{"truncated_in_a_key", R"({"logical_co)", "truncated JSON: the text ends after 12 bytes"}),
    [](const auto& bad) { return std::string(bad.param.name); });

TEST(LoadFile, CutAnywhereIsRefused) {
  const std::string whole = R"({"rank": "a\"b", "logical_count": [[[1, 2.5], [3, 4e1]], [[5, 6], [7, 8]]]})";
  ASSERT_TRUE(parse(whole));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto file = parse(std::string_view(whole).substr(0, size));
    ASSERT_FALSE(file) << size;
    EXPECT_EQ(file.error().message.find('\n'), std::string::npos) << size;
  }
}

TEST(LoadFile, WrittenLoadsReadBackAsTheyWere) {
  const auto loads = LoadMatrix::make(2, 3, {0.1, 1e-300, 12345678901.0, 0, 1.0 / 3, 1e300});
  const auto file = parse(format_loads(std::span(&*loads, 1)));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(row(*file, 0), (std::vector<double>{0.1, 1e-300, 12345678901.0}));
  EXPECT_EQ(row(*file, 1), (std::vector<double>{0, 1.0 / 3, 1e300}));
}

TEST(LoadFile, WritesPhasesAsSteps) {
  const auto loads = LoadMatrix::make(1, 2, {1, 2});
  const std::vector<LoadMatrix> phases{*loads, *loads};
  EXPECT_EQ(format_loads(phases), "{\"logical_count\": [[[1,2]],\n[[1,2]]]}\n");
}

// On recorded loads where there are some, and always on generated ones.
TEST(LoadFile, ReadsWholeFilesOfRealSize) {
  const TemporaryFolder folder;
  const auto phases = generate_loads({.num_layers = 61, .num_experts = 256, .num_dense_layers = 3});
  ASSERT_TRUE(phases) << phases.error().message;
  std::vector<std::string> paths{folder.write("generated.json", format_loads(*phases))};
  if (const char* recorded = std::getenv("TRIMTAB_LOADS_DIR")) {
    for (const auto& entry : std::filesystem::directory_iterator(recorded)) {
      if (entry.path().filename().string().starts_with("deepseek-v3_"))
        paths.push_back(entry.path().string());
    }
  }
  for (const std::string& path : paths) {
    const auto file = read_load_file(path);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->loads.num_layers(), 61) << path;
    EXPECT_EQ(file->loads.num_experts(), 256) << path;
    EXPECT_TRUE(file->loads.is_dense(LayerId{2})) << path;
    EXPECT_FALSE(file->loads.is_dense(LayerId{3})) << path;
  }
}

}  // namespace
}  // namespace trimtab::test
