// SPDX-License-Identifier: Apache-2.0
#include <trimtab/plan/compat.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <limits>

#include "support/generated_loads.hpp"
#include "support/threaded_executor.hpp"

namespace trimtab::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

EplbPlan plan_of(const LoadMatrix& loads, const EplbShape& shape) {
  SerialExecutor executor;
  return rebalance_experts(loads, shape, executor).value();
}

Error refusal_of(const LoadMatrix& loads, const EplbShape& shape) {
  SerialExecutor executor;
  const auto plan = rebalance_experts(loads, shape, executor);
  return plan ? Error{Errc::ok, "not refused"} : plan.error();
}

std::vector<std::int32_t> numbers(const std::vector<ExpertId>& experts) {
  std::vector<std::int32_t> result;
  for (ExpertId e : experts) result.push_back(e.value());
  return result;
}

template <class T>
std::vector<T> flat(const nlohmann::json& rows) {
  std::vector<T> result;
  for (const auto& row : rows) {
    for (const auto& value : row) result.push_back(value.get<T>());
  }
  return result;
}

/// [layers][experts][max_copies], as the tensor has it.
std::vector<SlotId> padded(const nlohmann::json& rows, std::size_t max_copies) {
  std::vector<SlotId> result;
  for (const auto& layer : rows) {
    for (const auto& slots : layer) {
      for (std::size_t i = 0; i < max_copies; ++i) {
        result.push_back(i < slots.size() ? SlotId{slots[i].get<std::int32_t>()} : no_slot);
      }
    }
  }
  return result;
}

void expect_golden(const nlohmann::json& golden) {
  const auto& rows = golden["loads"];
  const LoadShape size{static_cast<std::int32_t>(rows.size()), static_cast<std::int32_t>(rows[0].size())};
  const EplbShape shape{golden["slots"], golden["groups"], golden["nodes"], golden["ranks"]};
  const EplbPlan plan = plan_of(loads_of(size, flat<double>(rows)), shape);
  EXPECT_EQ(plan.max_copies, golden["max_copies"].get<std::int32_t>());
  EXPECT_EQ(numbers(plan.physical_to_logical), flat<std::int32_t>(golden["physical_to_logical"]));
  EXPECT_EQ(plan.logical_count, flat<std::int32_t>(golden["logical_count"]));
  EXPECT_EQ(plan.logical_to_physical,
            padded(golden["logical_to_physical"], static_cast<std::size_t>(plan.max_copies)));
}

// Made by tests/golden/make_eplb.py with the reference build: the README's example, ties of every kind, sums
// whose order of addition shows, and the shapes in which nothing is sorted.
TEST(Deepseek, GivesWhatTheReferenceGave) {
  std::ifstream file(TRIMTAB_GOLDEN_DIR "/eplb.json");
  const auto cases = nlohmann::json::parse(file);
  ASSERT_GE(cases.size(), 25U);
  for (const auto& golden : cases) {
    SCOPED_TRACE(golden["name"].get<std::string>());
    expect_golden(golden);
  }
}

TEST(Deepseek, GivesTheWorkedExampleOfEplb) {
  const LoadMatrix loads = loads_of({2, 12}, {90, 132, 40,  61, 104, 165, 39,  4,   73,  56, 183, 86,
                                              20, 107, 104, 64, 19,  197, 187, 157, 172, 86, 16,  27});
  EXPECT_THAT(numbers(plan_of(loads, {16, 4, 2, 8}).physical_to_logical),
              ElementsAre(5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1,  //
                          7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1));
}

TEST(Deepseek, GivesEveryCopyToTheFirstExpertWithoutLoad) {
  const EplbPlan plan = plan_of(uniform_loads({1, 8}, 0.0), {12, 1, 1, 4});
  EXPECT_THAT(numbers(plan.physical_to_logical), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0));
  EXPECT_THAT(plan.logical_count, ElementsAre(5, 1, 1, 1, 1, 1, 1, 1));
  EXPECT_EQ(plan_of(uniform_loads({1, 256}, 0.0), {288, 1, 1, 32}).logical_count[0], 33);
}

TEST(Deepseek, LeavesCopiesAtTheEndWithOneSlotOnEachRank) {
  const EplbPlan plan = plan_of(loads_of({1, 4}, {1, 2, 9, 3}), {6, 1, 1, 6});
  EXPECT_THAT(numbers(plan.physical_to_logical), ElementsAre(0, 1, 2, 3, 2, 2));
}

TEST(Deepseek, CountsInSinglePrecision) {
  // 2^24 + 1 is not a float32: the two are equal, and the first of equals is replicated.
  const EplbPlan plan = plan_of(loads_of({1, 2}, {16777216, 16777217}), {3, 1, 1, 3});
  EXPECT_THAT(plan.logical_count, ElementsAre(2, 1));
}

TEST(Deepseek, PadsToTheLargestCountOfAllLayers) {
  const EplbPlan plan = plan_of(loads_of({2, 3}, {5, 5, 5, 0, 0, 9}), {6, 1, 1, 2});
  EXPECT_EQ(plan.max_copies, 4);
  EXPECT_EQ(plan.logical_to_physical.size(), 2U * 3U * 4U);
  EXPECT_EQ(plan.logical_to_physical[2], no_slot);
}

TEST(Deepseek, IsFlatWhereNodesDoNotDivideGroups) {
  const LoadMatrix loads = lognormal_loads({2, 24}, 1.0, 5);
  const EplbPlan flat = plan_of(loads, {35, 1, 1, 5});
  EXPECT_EQ(plan_of(loads, {35, 4, 3, 5}).logical_to_physical, flat.logical_to_physical);
}

TEST(Deepseek, TakesNegativeZeroForZero) {
  const EplbPlan zero = plan_of(loads_of({1, 3}, {0.0, 0.0, 1.0}), {4, 1, 1, 2});
  EXPECT_EQ(plan_of(loads_of({1, 3}, {-0.0, -0.0, 1.0}), {4, 1, 1, 2}).logical_to_physical,
            zero.logical_to_physical);
}

TEST(Deepseek, GivesTheSameOnAnyNumberOfThreads) {
  const LoadMatrix loads = lognormal_loads({13, 64}, 1.0, 3);
  const EplbShape shape{96, 8, 4, 16};
  const EplbPlan serial = plan_of(loads, shape);
  for (std::size_t threads : {1U, 2U, 7U}) {
    ThreadedExecutor executor(threads);
    const EplbPlan plan = rebalance_experts(loads, shape, executor).value();
    EXPECT_EQ(plan.physical_to_logical, serial.physical_to_logical);
    EXPECT_EQ(plan.logical_to_physical, serial.logical_to_physical);
    EXPECT_EQ(plan.logical_count, serial.logical_count);
  }
}

// sgl-project/sglang#7266: what was refused showed as an AssertionError without a message.
TEST(Deepseek, SaysWhatItRefuses) {
  const LoadMatrix loads = uniform_loads({1, 12}, 1.0);
  const auto expect = [&](const EplbShape& shape, Errc code, const char* text) {
    const Error error = refusal_of(loads, shape);
    EXPECT_EQ(error.code, code) << text;
    EXPECT_EQ(error.message, text);
  };
  expect({11, 1, 1, 1}, Errc::infeasible, "11 slots < 12 experts: every expert needs one");
  expect({16, 1, 1, 5}, Errc::invalid_argument, "5 ranks do not divide 16 slots");
  expect({16, 5, 1, 4}, Errc::invalid_argument, "5 expert groups do not divide 12 experts");
  expect({18, 6, 2, 3}, Errc::invalid_argument,
         "2 nodes do not divide 3 ranks, but they divide 6 expert groups: a plan by group needs both");
  expect({16, 0, 1, 4}, Errc::invalid_argument, "0 expert groups < 1");
  expect({16, 1, 0, 4}, Errc::invalid_argument, "0 nodes < 1");
  expect({16, 1, 1, 0}, Errc::invalid_argument, "0 ranks < 1");
  expect({16, -4, 1, 4}, Errc::invalid_argument, "-4 expert groups < 1");
}

TEST(Deepseek, RefusesLoadsBeyondSinglePrecision) {
  const Error error = refusal_of(loads_of({2, 2}, {1, 1, 1e39, 1}), {2, 1, 1, 2});
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_THAT(error.message, HasSubstr("layer 1: the sum of its loads 1e+39 > 1.7"));
}

}  // namespace
}  // namespace trimtab::test
