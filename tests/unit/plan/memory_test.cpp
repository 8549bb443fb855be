// SPDX-License-Identifier: Apache-2.0
//
// What planning needs beside its result grows with slots and experts, not with ranks times experts.
#include <trimtab/plan/compat.hpp>
#include <trimtab/plan/planner.hpp>

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "support/generated_loads.hpp"

namespace {

std::size_t held_bytes = 0;
std::size_t peak_bytes = 0;

// Not inlined: g++ otherwise sees new meet free.
[[gnu::noinline]] void* take(std::size_t size) {
  void* const memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  held_bytes += malloc_usable_size(memory);
  peak_bytes = std::max(peak_bytes, held_bytes);
  return memory;
}

[[gnu::noinline]] void give_back(void* memory) noexcept {
  held_bytes -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) { return take(size); }
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t) noexcept { give_back(memory); }

namespace trimtab::test {
namespace {

/// Bytes held at the most while `plan` runs, beyond what was held before.
template <class Plan>
double peak_of(Plan plan) {
  const std::size_t before = held_bytes;
  peak_bytes = held_bytes;
  const auto made = plan();
  EXPECT_TRUE(made.has_value());
  return static_cast<double>(peak_bytes - before);
}

struct Size {
  std::int32_t experts, slots, ranks;
};

double peak_of_planning(const Size& size, const PlanOptions& options) {
  const auto loads = zipf_loads({1, size.experts}, 1.0, 1);  // steep: the search has work to do
  const auto topology = Topology::make_uniform(size.ranks, 1, size.slots).value();
  SerialExecutor executor;
  return peak_of([&] { return plan_rebalance(loads, topology, options, executor); });
}

double peak_like(CompatPlanner planner, const Size& size) {
  const auto loads = zipf_loads({1, size.experts}, 1.0, 1);
  const auto topology = Topology::make_uniform(size.ranks, 1, size.slots).value();
  SerialExecutor executor;
  return peak_of([&] { return plan_like(planner, loads, topology, {}, executor); });
}

constexpr Size small = {512, 640, 128};
constexpr Size large = {2048, 2560, 512};
constexpr double times_larger = 4.0;
/// A table of ranks times experts would make it sixteen times.
constexpr double allowed = times_larger * 1.3;

TEST(PlanMemory, GrowsWithSlotsAndExperts) {
  for (Effort effort : {Effort::fast, Effort::standard}) {
    for (ShareMode shares : {ShareMode::even, ShareMode::exact}) {
      const PlanOptions options{.effort = effort, .shares = shares};
      const double peak = peak_of_planning(large, options);
      EXPECT_LT(peak, allowed * peak_of_planning(small, options))
          << to_string(effort) << (shares == ShareMode::exact ? ", exact" : ", even");
      EXPECT_LT(peak, 400.0 * (large.slots + large.experts)) << to_string(effort);
    }
  }
}

TEST(PlanMemory, GrowsWithSlotsAndExpertsUnderOtherPlannersToo) {
  for (CompatPlanner planner : {CompatPlanner::deepseek, CompatPlanner::trtllm, CompatPlanner::vllm}) {
    EXPECT_LT(peak_like(planner, large), allowed * peak_like(planner, small)) << to_string(planner);
  }
}

}  // namespace
}  // namespace trimtab::test
