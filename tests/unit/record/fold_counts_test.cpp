// SPDX-License-Identifier: Apache-2.0
#include <trimtab/record/recorder.hpp>

#include <gtest/gtest.h>

#include <limits>

namespace trimtab::test {
namespace {

using Counts = std::vector<std::int64_t>;

constexpr std::int64_t max_count = std::numeric_limits<std::int64_t>::max();

Placement make_placement(std::int32_t num_layers, std::int32_t num_experts,
                         const std::vector<std::int32_t>& experts) {
  std::vector<ExpertId> map;
  for (std::int32_t expert : experts) map.push_back(ExpertId{expert});
  return Placement::make(num_layers, static_cast<std::int32_t>(experts.size()) / num_layers, num_experts,
                         std::move(map))
      .value();
}

/// Two layers of four slots for three experts; slot 3 of layer 1 is vacant.
Placement placement() { return make_placement(2, 3, {0, 1, 2, 0, 2, 1, 0, -1}); }

SlotCounts window_of(Counts counts, Counts expected) {
  SlotCounts window;
  window.num_layers = static_cast<std::int32_t>(expected.size());
  window.num_slots = static_cast<std::int32_t>(counts.size() / expected.size());
  window.counts = std::move(counts);
  window.expected = std::move(expected);
  return window;
}

void expect_refused(const SlotCounts& window, Errc code, const std::string& message) {
  const auto folded = fold_counts(window, placement());
  ASSERT_FALSE(folded);
  EXPECT_EQ(folded.error().code, code);
  EXPECT_EQ(folded.error().message, message);
}

TEST(FoldCounts, AddsTheReplicasOfEachExpert) {
  const ExpertCounts folded =
      fold_counts(window_of({1, 2, 4, 8, 16, 32, 64, 0}, {15, 112}), placement()).value();
  EXPECT_EQ(folded.num_layers, 2);
  EXPECT_EQ(folded.num_experts, 3);
  EXPECT_EQ(folded.counts, (Counts{9, 2, 4, 64, 32, 16}));
}

// RTP-LLM 0c6756cca, vllm-project/vllm#22167: planning went on with counts that were partly or wholly
// missing.
TEST(FoldCounts, RefusesAWindowThatLostCounts) {
  expect_refused(window_of({1, 2, 4, 8, 16, 32, 63, 0}, {15, 112}), Errc::corrupt,
                 "layer 1: 111 assignments counted, 112 expected (valid tokens x top-k)");
  expect_refused(window_of({0, 0, 0, 0, 0, 0, 0, 0}, {15, 112}), Errc::corrupt,
                 "layer 0: 0 assignments counted, 15 expected (valid tokens x top-k)");
}

TEST(FoldCounts, RefusesAWindowThatInventedCounts) {
  expect_refused(window_of({2, 2, 4, 8, 16, 32, 64, 0}, {15, 112}), Errc::corrupt,
                 "layer 0: 16 assignments counted, 15 expected (valid tokens x top-k)");
}

TEST(FoldCounts, RefusesCountsOnAVacantSlot) {
  expect_refused(window_of({1, 2, 4, 8, 16, 32, 63, 1}, {15, 112}), Errc::invalid_argument,
                 "layer 1, slot 3: vacant, but counted 1 times");
}

TEST(FoldCounts, RefusesNegativeCountsThoughTheSumFits) {
  expect_refused(window_of({-1, 4, 4, 8, 16, 32, 64, 0}, {15, 112}), Errc::corrupt,
                 "layer 0, slot 0: count -1 < 0");
}

TEST(FoldCounts, RefusesSumsBeyond64Bits) {
  expect_refused(window_of({max_count, max_count, 1, 8, 16, 32, 64, 0}, {15, 112}), Errc::corrupt,
                 "layer 0: 9223372036854775807 assignments counted, 15 expected (valid tokens x top-k)");
}

TEST(FoldCounts, RefusesShapesThatDoNotFit) {
  expect_refused(window_of({1, 2, 4, 8}, {15}), Errc::invalid_argument,
                 "counts of 1 layers x 4 slots under a placement of 2 x 4");
  expect_refused(window_of({1, 2, 4, 8, 16, 32}, {7, 56}), Errc::invalid_argument,
                 "counts of 2 layers x 3 slots under a placement of 2 x 4");
  SlotCounts torn = window_of({1, 2, 4, 8, 16, 32, 64, 0}, {15, 112});
  torn.counts.pop_back();
  expect_refused(torn, Errc::invalid_argument, "7 counts and 2 expectations for 2 layers x 4 slots");
  torn = window_of({1, 2, 4, 8, 16, 32, 64, 0}, {15, 112});
  torn.expected.push_back(0);
  expect_refused(torn, Errc::invalid_argument, "8 counts and 3 expectations for 2 layers x 4 slots");
}

// vllm-project/vllm-ascend#12154: a dummy run without tokens turned hotness into NaN.
TEST(FoldCounts, FoldsAnAllZeroLayerToZeros) {
  const ExpertCounts folded =
      fold_counts(window_of({0, 0, 0, 0, 16, 32, 64, 0}, {0, 112}), placement()).value();
  EXPECT_EQ(folded.counts, (Counts{0, 0, 0, 64, 32, 16}));
}

TEST(FoldCounts, KeepsCountsBeyond32Bits) {
  constexpr std::int64_t two31 = std::int64_t{1} << 31;
  constexpr std::int64_t two32 = std::int64_t{1} << 32;
  const ExpertCounts folded =
      fold_counts(window_of({two31, two32, two31 - 1, two32 + 1, 0, 0, 0, 0}, {2 * two31 + 2 * two32, 0}),
                  placement())
          .value();
  EXPECT_EQ(folded.counts, (Counts{two31 + two32 + 1, two32, two31 - 1, 0, 0, 0}));
}

// xLLM, ATOM and SGLang folded a whole window by the newest map, although part of it was routed by an older
// one.
TEST(FoldCounts, EachPartOfAWindowIsFoldedByThePlacementOfItsEpoch) {
  const Placement before = make_placement(1, 2, {0, 0, 1});
  const Placement after = make_placement(1, 2, {1, 0, 1});
  Recorder recorder(1, 3, 1);
  const std::vector<SlotId> first{SlotId{0}, SlotId{1}, SlotId{0},
                                  SlotId{2}};  // Expert 0 three times, 1 once.
  const std::vector<SlotId> second{SlotId{0}, SlotId{2}, SlotId{0},
                                   SlotId{1}};  // Expert 1 three times, 0 once.
  ASSERT_TRUE(recorder.record({}, Epoch{1}, LayerId{0}, first, 4));
  recorder.commit_forward();
  ASSERT_TRUE(recorder.record({}, Epoch{2}, LayerId{0}, second, 4));
  recorder.commit_forward();
  const std::vector<SlotCounts> window = recorder.take_window({});
  ASSERT_EQ(window.size(), 2U);
  EXPECT_EQ(fold_counts(window[0], before).value().counts, (Counts{3, 1}));
  EXPECT_EQ(fold_counts(window[1], after).value().counts, (Counts{1, 3}));
  EXPECT_EQ(fold_counts(window[0], after).value().counts, (Counts{1, 3}));  // What the wrong map would say.
}

// vllm-project/vllm#22167, #21883: loads counted on other ranks were left out of the sum.
TEST(FoldCounts, CountsOfAllRanksTogetherAreConserved) {
  const Placement shared = make_placement(1, 2, {0, 1, 0});
  std::vector<SlotCounts> ranks;
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    Recorder recorder(1, 3, 2);
    const std::vector<SlotId> slots{SlotId{rank}, SlotId{2}, SlotId{1}, SlotId{rank}};
    ASSERT_TRUE(recorder.record({}, Epoch{1}, LayerId{0}, slots, 2));
    recorder.commit_forward();
    ranks.push_back(recorder.take_window({}).at(0));
  }
  SlotCounts sum = ranks[0];
  sum.expected[0] += ranks[1].expected[0];
  ASSERT_FALSE(fold_counts(sum, shared));  // The tokens of both, the counts of one.
  for (std::size_t slot = 0; slot < 3; ++slot) sum.counts[slot] += ranks[1].counts[slot];
  EXPECT_EQ(fold_counts(sum, shared).value().counts, (Counts{4, 4}));
}

TEST(FoldCounts, RefusesPaddingInsideTheRowsAnnouncedAsValid) {
  Recorder recorder(1, 2, 2);
  const std::vector<SlotId> slots{SlotId{0}, SlotId{1}, no_slot, no_slot};
  ASSERT_TRUE(recorder.record({}, Epoch{1}, LayerId{0}, slots, 2));
  recorder.commit_forward();
  const auto folded = fold_counts(recorder.take_window({}).at(0), make_placement(1, 2, {0, 1}));
  ASSERT_FALSE(folded);
  EXPECT_EQ(folded.error().message, "layer 0: 2 assignments counted, 4 expected (valid tokens x top-k)");
}

}  // namespace
}  // namespace trimtab::test
