// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/load_matrix.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trimtab::test {
namespace {

using ::testing::HasSubstr;

void expect_refused(const Result<LoadMatrix>& loads, const char* message) {
  ASSERT_FALSE(loads.has_value());
  EXPECT_EQ(loads.error().code, Errc::invalid_argument);
  EXPECT_THAT(loads.error().message, HasSubstr(message));
}

TEST(LoadMatrix, GivesRowsAndTheirTotals) {
  const auto loads = LoadMatrix::make(2, 3, {1, 2, 3, 4, 5, 6}).value();
  EXPECT_EQ(loads.layer(LayerId{1})[0], 4.0);
  EXPECT_EQ(loads.layer(LayerId{1}).size(), 3U);
  EXPECT_EQ(loads.total(LayerId{0}), 6.0);
  EXPECT_EQ(loads.total(LayerId{1}), 15.0);
}

TEST(LoadMatrix, CallsOnlyAllZeroRowsDense) {
  const auto loads = LoadMatrix::make(2, 2, {0, 0, 0, 1e-300}).value();
  EXPECT_TRUE(loads.is_dense(LayerId{0}));
  EXPECT_FALSE(loads.is_dense(LayerId{1}));
}

// I5: other planners run into undefined sorts or place everything on one rank when given these.
TEST(LoadMatrix, RefusesNumbersThatAreNoLoads) {
  expect_refused(LoadMatrix::make(2, 2, {0, 0, 0, std::nan("")}), "layer 1, expert 1: load nan");
  expect_refused(LoadMatrix::make(1, 2, {1, -3}), "layer 0, expert 1: load -3");
  expect_refused(LoadMatrix::make(1, 1, {std::numeric_limits<double>::infinity()}), "load inf");
}

TEST(LoadMatrix, RefusesARowWhoseSumOverflows) {
  const double most = std::numeric_limits<double>::max();
  expect_refused(LoadMatrix::make(2, 2, {1, 1, most, most}), "layer 1: the sum of the loads is inf");
}

TEST(LoadMatrix, RefusesAWrongShape) {
  expect_refused(LoadMatrix::make(2, 3, {1, 2, 3, 4, 5}), "5 loads for 2 layers x 3 experts");
  expect_refused(LoadMatrix::make(0, 3, {}), "0 layers");
  expect_refused(LoadMatrix::make(1, 0, {}), "0 experts");
}

}  // namespace
}  // namespace trimtab::test
