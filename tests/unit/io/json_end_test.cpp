// SPDX-License-Identifier: Apache-2.0
#include "io/json_end.hpp"

#include <gtest/gtest.h>

namespace trimtab::test {
namespace {

using Indices = std::vector<std::size_t>;

TEST(JsonEnd, CountsEntriesOfOpenLists) {
  const JsonEnd end = find_json_end(R"({"a": [[1, 2, 3], [4, 5)");
  EXPECT_FALSE(end.is_complete);
  EXPECT_EQ(end.key, "a");
  EXPECT_EQ(end.indices, (Indices{1, 1}));
  EXPECT_EQ(end.deepest, 2U);
}

TEST(JsonEnd, IsNotMisledByStrings) {
  const JsonEnd end = find_json_end(R"({"x": ["],],\"", {"y": 1}], "b": [[[1], [2)");
  EXPECT_EQ(end.key, "b");
  EXPECT_EQ(end.indices, (Indices{0, 1, 0}));
  EXPECT_EQ(end.deepest, 3U);
}

TEST(JsonEnd, FindsWhereACompleteTextEnds) {
  const JsonEnd end = find_json_end(R"({"a": [1]} tail)");
  EXPECT_TRUE(end.is_complete);
  EXPECT_EQ(end.end_bytes, 10U);
}

TEST(JsonEnd, SurvivesACutBehindABackslash) {
  const JsonEnd end = find_json_end("{\"a\\");
  EXPECT_FALSE(end.is_complete);
  EXPECT_EQ(end.end_bytes, 4U);
}

}  // namespace
}  // namespace trimtab::test
