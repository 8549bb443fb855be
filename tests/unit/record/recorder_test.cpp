// SPDX-License-Identifier: Apache-2.0
#include <trimtab/record/recorder.hpp>

#include "unit/weights/allocation_count.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace trimtab::test {
namespace {

using Counts = std::vector<std::int64_t>;
using Slots = std::vector<SlotId>;

constexpr LayerId layer0{0};
constexpr LayerId layer1{1};
constexpr RecordContext prefill{};
constexpr std::array<RecordContext, 4> all_contexts{{{ModelRole::target, Phase::prefill},
                                                     {ModelRole::target, Phase::decode},
                                                     {ModelRole::draft, Phase::prefill},
                                                     {ModelRole::draft, Phase::decode}}};

Slots slots_of(std::initializer_list<std::int32_t> values) {
  Slots slots;
  for (std::int32_t value : values) slots.push_back(SlotId{value});
  return slots;
}

std::int64_t num_rows(const Slots& slots) { return static_cast<std::int64_t>(slots.size()) / 2; }

/// Two layers, four slots, top-2.
class RecorderTest : public testing::Test {
 protected:
  void record(LayerId layer, const Slots& slots, std::uint64_t epoch = 1, RecordContext context = prefill) {
    const Status status = recorder.record(context, Epoch{epoch}, layer, slots, num_rows(slots));
    ASSERT_TRUE(status) << status.error().message;
  }

  /// The one entry of the window taken.
  SlotCounts take(RecordContext context = prefill) {
    std::vector<SlotCounts> window = recorder.take_window(context);
    EXPECT_EQ(window.size(), 1U);
    return window.empty() ? SlotCounts{} : std::move(window[0]);
  }

  Recorder recorder{2, 4, 2};
};

TEST_F(RecorderTest, CountsEachSlotOfEachLayer) {
  record(layer0, slots_of({0, 1, 3, 1}));
  record(layer1, slots_of({2, 3}));
  record(layer0, slots_of({1, 0}), 1);
  recorder.commit_forward();
  const SlotCounts window = take();
  EXPECT_EQ(window.epoch, Epoch{1});
  EXPECT_EQ(window.num_layers, 2);
  EXPECT_EQ(window.num_slots, 4);
  EXPECT_EQ(window.counts, (Counts{2, 3, 0, 1, 0, 0, 1, 1}));
  EXPECT_EQ(window.expected, (Counts{6, 2}));
}

TEST_F(RecorderTest, AddsForwardsUntilTheWindowIsTaken) {
  for (int forward = 0; forward < 10; ++forward) {
    record(layer0, slots_of({0, 2}));
    recorder.commit_forward();
  }
  EXPECT_EQ(take().counts, (Counts{10, 0, 10, 0, 0, 0, 0, 0}));
  EXPECT_TRUE(recorder.take_window(prefill).empty());
  record(layer1, slots_of({1, 1}));
  recorder.commit_forward();
  EXPECT_EQ(take().counts, (Counts{0, 0, 0, 0, 0, 2, 0, 0}));
}

TEST_F(RecorderTest, GivesOnlyCommittedForwards) {
  record(layer0, slots_of({0, 2}));
  recorder.commit_forward();
  record(layer0, slots_of({1, 3}));
  EXPECT_EQ(take().counts, (Counts{1, 0, 1, 0, 0, 0, 0, 0}));
  recorder.commit_forward();
  EXPECT_EQ(take().counts, (Counts{0, 1, 0, 1, 0, 0, 0, 0}));
}

TEST_F(RecorderTest, AnAbandonedForwardLeavesNoTrace) {
  record(layer0, slots_of({0, 2}), 3);
  recorder.commit_forward();
  for (RecordContext context : all_contexts) record(layer0, slots_of({1, 1}), 8, context);
  record(layer1, slots_of({3, 3}), 9);
  recorder.abandon_forward();
  record(layer1, slots_of({1, 0}), 3);  // Nor does its epoch count as recorded.
  recorder.commit_forward();
  const SlotCounts window = take();
  EXPECT_EQ(window.epoch, Epoch{3});
  EXPECT_EQ(window.counts, (Counts{1, 0, 1, 0, 1, 1, 0, 0}));
  EXPECT_EQ(window.expected, (Counts{2, 2}));
  for (RecordContext context : all_contexts) EXPECT_TRUE(recorder.take_window(context).empty());
}

// sgl-project/sglang#16044, #28982: a draft model recorded into its target. sgl-project/sglang#7266: one of
// the recording modes could not be dumped; here every context can.
TEST_F(RecorderTest, KeepsModelsAndPhasesApart) {
  for (std::size_t c = 0; c < all_contexts.size(); ++c) {
    for (std::size_t i = 0; i <= c; ++i)
      record(layer0, slots_of({0, static_cast<int>(c)}), 10 - c, all_contexts[c]);
  }
  recorder.commit_forward();
  for (std::size_t c = 0; c < all_contexts.size(); ++c) {
    const SlotCounts window = take(all_contexts[c]);
    const auto times = static_cast<std::int64_t>(c) + 1;
    Counts counts(8);
    counts[0] += times;
    counts[c] += times;
    EXPECT_EQ(window.counts, counts);
    EXPECT_EQ(window.expected, (Counts{2 * times, 0}));
    EXPECT_EQ(window.epoch, Epoch{10 - c});
  }
}

TEST_F(RecorderTest, TakingOneContextLeavesTheOthers) {
  for (RecordContext context : all_contexts) record(layer0, slots_of({0, 1}), 1, context);
  recorder.commit_forward();
  take(all_contexts[2]);
  for (std::size_t c : {0U, 1U, 3U}) EXPECT_EQ(take(all_contexts[c]).expected, (Counts{2, 0}));
}

TEST_F(RecorderTest, GivesOneEntryPerEpochOldestFirst) {
  record(layer0, slots_of({0, 1}), 4);
  recorder.commit_forward();
  record(layer0, slots_of({2, 2}), 4);
  record(layer0, slots_of({3, 3}), 5);  // Within one forward.
  recorder.commit_forward();
  record(layer0, slots_of({0, 3}), 7);
  recorder.commit_forward();
  const std::vector<SlotCounts> window = recorder.take_window(prefill);
  ASSERT_EQ(window.size(), 3U);
  EXPECT_EQ(window[0].epoch, Epoch{4});
  EXPECT_EQ(window[0].counts, (Counts{1, 1, 2, 0, 0, 0, 0, 0}));
  EXPECT_EQ(window[1].epoch, Epoch{5});
  EXPECT_EQ(window[1].counts, (Counts{0, 0, 0, 2, 0, 0, 0, 0}));
  EXPECT_EQ(window[2].epoch, Epoch{7});
  EXPECT_EQ(window[2].expected, (Counts{2, 0}));
}

TEST_F(RecorderTest, RefusesAnEpochOlderThanOneRecorded) {
  const auto refuses = [&](std::uint64_t epoch, const std::string& newest) {
    const Status status = recorder.record(prefill, Epoch{epoch}, layer1, slots_of({0, 1}), 1);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Errc::version_mismatch);
    EXPECT_EQ(status.error().message,
              "layer 1: epoch " + std::to_string(epoch) + " is older than recorded epoch " + newest);
  };
  record(layer0, slots_of({0, 1}), 5);
  refuses(4, "5");  // In the same forward,
  recorder.commit_forward();
  refuses(4, "5");  // committed,
  EXPECT_EQ(take().expected, (Counts{2, 0}));
  refuses(4, "5");  // and taken.
  record(layer0, slots_of({0, 1}), 4, all_contexts[1]);
}

// vllm-project/vllm#38128: rows that only fill a captured graph were counted.
// sgl-project/sglang#28188: what the padded region holds is not defined, so it may hold anything.
TEST_F(RecorderTest, PaddedRowsDoNotChangeTheCounts) {
  const Slots valid = slots_of({0, 1, 3, 2, 1, 0});
  Slots padded = valid;
  for (std::int32_t garbage : {-1, -1, 3, 3, 99, -7}) padded.push_back(SlotId{garbage});
  record(layer0, valid);
  recorder.commit_forward();
  const SlotCounts plain = take();
  ASSERT_TRUE(recorder.record(prefill, Epoch{1}, layer0, padded, 3));
  recorder.commit_forward();
  const SlotCounts with_padding = take();
  EXPECT_EQ(with_padding.counts, plain.counts);
  EXPECT_EQ(with_padding.expected, plain.expected);
}

TEST_F(RecorderTest, ABatchOfPaddingAloneCountsNothing) {
  ASSERT_TRUE(recorder.record(prefill, Epoch{1}, layer0, slots_of({-1, -1, -1, -1}), 0));
  ASSERT_TRUE(recorder.record(prefill, Epoch{1}, layer1, {}, 0));
  recorder.commit_forward();
  const SlotCounts window = take();
  EXPECT_EQ(window.counts, Counts(8));
  EXPECT_EQ(window.expected, Counts(2));
}

struct BadRecord {
  const char* name;
  LayerId layer;
  Slots slots;
  std::int64_t num_valid_tokens;
  const char* message;
};

class RecorderRefusal : public RecorderTest, public testing::WithParamInterface<BadRecord> {};

TEST_P(RecorderRefusal, NamesTheValueAndCountsNothing) {
  record(layer1, slots_of({0, 3}));
  const BadRecord& bad = GetParam();
  const Status status = recorder.record(prefill, Epoch{2}, bad.layer, bad.slots, bad.num_valid_tokens);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::invalid_argument);
  EXPECT_EQ(status.error().message, bad.message);
  recorder.commit_forward();
  const SlotCounts window = take();
  EXPECT_EQ(window.epoch, Epoch{1});
  EXPECT_EQ(window.counts, (Counts{0, 0, 0, 0, 1, 0, 0, 1}));
  EXPECT_EQ(window.expected, (Counts{0, 2}));
}

INSTANTIATE_TEST_SUITE_P(
    All, RecorderRefusal,
    testing::Values(BadRecord{"LayerTooHigh", LayerId{2}, slots_of({0, 1}), 1, "layer 2 is not in 0..1"},
                    BadRecord{"LayerNegative", LayerId{-1}, slots_of({0, 1}), 1, "layer -1 is not in 0..1"},
                    // sgl-project/sglang#22525: a fused shared expert's column points past the slots.
                    BadRecord{"SlotTooHigh", layer1, slots_of({0, 1, 2, 4}), 2,
                              "layer 1, index 3: slot 4 is not in 0..3"},
                    BadRecord{"SlotNegative", layer0, slots_of({0, -2}), 1,
                              "layer 0, index 1: slot -2 is not in 0..3"},
                    BadRecord{"RaggedRows", layer1, slots_of({0, 1, 2}), 1,
                              "layer 1: 3 slots are no multiple of top-k 2"},
                    BadRecord{"MoreTokensThanRows", layer1, slots_of({0, 1}), 2,
                              "layer 1: 2 valid tokens are not in 0..1 (the rows)"},
                    BadRecord{"NegativeTokens", layer0, slots_of({0, 1}), -1,
                              "layer 0: -1 valid tokens are not in 0..1 (the rows)"}),
    [](const auto& test) { return test.param.name; });

// sgl-project/sglang#6967: recording and dumping ran out of memory.
TEST_F(RecorderTest, SteadyCountingAllocatesNothing) {
  const Slots slots = slots_of({0, 1, 2, 3});
  const std::size_t before = num_allocations();
  for (int forward = 0; forward < 10; ++forward) {
    for (RecordContext context : all_contexts) record(layer0, slots, 1, context);
    recorder.commit_forward();
  }
  EXPECT_EQ(num_allocations(), before);
}

// Sums over ranks and windows of 1000 steps of 65536 tokens overflowed when they were made in 32 bits.
TEST(Recorder, WindowsOfOneHotSlotAddUpPastTwoToThe32) {
  constexpr std::int64_t batch = std::int64_t{1} << 20;
  constexpr std::int64_t num_windows = (std::int64_t{1} << 12) + 1;
  Recorder recorder(1, 4, 8);
  const Slots slots(batch, SlotId{2});
  ASSERT_TRUE(recorder.record(prefill, Epoch{1}, layer0, slots, batch / 8));
  recorder.commit_forward();
  const SlotCounts window = recorder.take_window(prefill).at(0);
  SlotCounts sum = window;
  for (std::int64_t i = 1; i < num_windows; ++i) {
    for (std::size_t slot = 0; slot < 4; ++slot) sum.counts[slot] += window.counts[slot];
    sum.expected[0] += window.expected[0];
  }
  const Placement placement = Placement::identity(1, 4, 4).value();
  EXPECT_EQ(fold_counts(sum, placement).value().counts, (Counts{0, 0, batch * num_windows, 0}));
}

}  // namespace
}  // namespace trimtab::test
