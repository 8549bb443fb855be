// SPDX-License-Identifier: Apache-2.0
#include "record/slot_counts.hpp"

#include <gtest/gtest.h>

#include <type_traits>

namespace trimtab::test {
namespace {

using Counts = std::vector<std::int64_t>;

static_assert(std::is_same_v<decltype(SlotCounts::counts), Counts>);
static_assert(std::is_same_v<decltype(SlotCounts::expected), Counts>);

// A window of a busy service (1000 steps of 65536 tokens, top-8) crossed 2^31 and overflowed 32 bits.
TEST(SlotCounts, ForwardsAddUpPastTwoToThe31AndTwoToThe32) {
  constexpr std::int64_t step = (std::int64_t{1} << 30) + 1;
  SlotCounts window = make_zero(2, 3);
  for (std::int64_t steps = 1; steps <= 5; ++steps) {
    SlotCounts forward = make_zero(2, 3);
    forward.counts = {0, 0, 0, 0, step, 1};
    forward.expected = {0, step + 1};
    drain_into(window, forward);
    EXPECT_EQ(window.counts, (Counts{0, 0, 0, 0, steps * step, steps}));
    EXPECT_EQ(window.expected, (Counts{0, steps * (step + 1)}));
    EXPECT_EQ(forward.counts, Counts(6));
    EXPECT_EQ(forward.expected, Counts(2));
  }
}

}  // namespace
}  // namespace trimtab::test
