// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/result.hpp>

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

namespace trimtab::test {
namespace {

Result<int> half_of(int value) {
  if (value % 2 != 0) return failure(Errc::invalid_argument, "odd");
  return value / 2;
}

Result<std::string> describe_half_of(int value) {
  Result<int> half = half_of(value);
  if (!half) return failure(std::move(half));
  return std::to_string(*half);
}

TEST(Result, HoldsAValue) {
  const Result<int> half = half_of(8);
  ASSERT_TRUE(half.has_value());
  EXPECT_EQ(*half, 4);
}

TEST(Result, HoldsAnErrorWithCodeMessageAndPlace) {
  const Result<int> half = half_of(7);
  ASSERT_FALSE(half.has_value());
  EXPECT_EQ(half.error().code, Errc::invalid_argument);
  EXPECT_EQ(half.error().message, "odd");
  EXPECT_TRUE(std::string_view(half.error().where.file_name()).ends_with("result_test.cpp"));
}

TEST(Result, PassesAnErrorUpWhole) {
  const Result<int> below = half_of(7);
  const Result<std::string> above = describe_half_of(7);
  ASSERT_FALSE(above.has_value());
  EXPECT_EQ(above.error().code, below.error().code);
  EXPECT_EQ(above.error().message, below.error().message);
  EXPECT_EQ(above.error().where.line(), below.error().where.line());
}

TEST(Status, IsSuccessByDefault) {
  const Status status;
  EXPECT_TRUE(status.has_value());
}

// The numbers are shared with every binding; a change here breaks them.
TEST(Errc, NumbersAndNamesAreFrozen) {
  const std::pair<Errc, std::string_view> frozen[] = {
      {Errc::ok, "ok"},
      {Errc::invalid_argument, "invalid_argument"},
      {Errc::infeasible, "infeasible"},
      {Errc::not_found, "not_found"},
      {Errc::unavailable, "unavailable"},
      {Errc::timeout, "timeout"},
      {Errc::cancelled, "cancelled"},
      {Errc::closed, "closed"},
      {Errc::peer_lost, "peer_lost"},
      {Errc::io, "io"},
      {Errc::corrupt, "corrupt"},
      {Errc::version_mismatch, "version_mismatch"},
      {Errc::internal, "internal"},
  };
  std::size_t number = 0;
  for (const auto& [code, name] : frozen) {
    EXPECT_EQ(static_cast<std::size_t>(code), number++);
    EXPECT_EQ(to_string(code), name);
  }
}

}  // namespace
}  // namespace trimtab::test
