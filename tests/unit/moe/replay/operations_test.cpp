// SPDX-License-Identifier: Apache-2.0
#include "moe/replay/operations.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace trimtab::moe::replay {
namespace {

/// One expert on slots 3, 8 and 9 with shares of 1/2, 1/8 and 3/8, as a table buffer has it.
struct ThreeReplicas {
  std::vector<std::uint32_t> first{1, 4};
  std::vector<std::int32_t> table_slots{-1, 3, 8, 9};
  std::vector<std::uint32_t> share_begins{0, 0, 0x80000000, 0xa0000000};
  std::vector<std::uint32_t> phases{0};

  std::vector<SlotId> route(const std::vector<ExpertId>& experts) {
    std::vector<SlotId> slots(experts.size());
    const Route operation{first.data(),   table_slots.data(), share_begins.data(), phases.data(),
                          experts.data(), slots.data(),       experts.size()};
    EXPECT_TRUE(operation.run().has_value());
    return slots;
  }
};

TEST(ReplayRoute, MeetsSharesToWithinAFewAssignmentsAtEveryMoment) {
  ThreeReplicas table;
  const std::vector<SlotId> slots = table.route(std::vector<ExpertId>(10'000, ExpertId{0}));
  double taken[10] = {};
  for (std::size_t i = 0; i < slots.size(); ++i) {
    taken[slots[i].index()] += 1.0;
    const auto n = static_cast<double>(i + 1);
    ASSERT_LE(std::abs(taken[3] - n / 2), 4.0) << "after " << n;
    ASSERT_LE(std::abs(taken[8] - n / 8), 4.0) << "after " << n;
    ASSERT_LE(std::abs(taken[9] - n * 3 / 8), 4.0) << "after " << n;
  }
}

TEST(ReplayRoute, PaddingStaysPaddingAndTakesNoTurn) {
  ThreeReplicas plain;
  ThreeReplicas padded;
  const std::vector<SlotId> wanted = plain.route(std::vector<ExpertId>(4, ExpertId{0}));
  const std::vector<SlotId> got =
      padded.route({ExpertId{0}, no_expert, ExpertId{0}, no_expert, no_expert, ExpertId{0}, ExpertId{0}});
  EXPECT_EQ(got,
            (std::vector<SlotId>{wanted[0], no_slot, wanted[1], no_slot, no_slot, wanted[2], wanted[3]}));
}

TEST(ReplayGate, PaddingChoosesNobody) {
  const ModelConfig config{.num_layers = 1, .num_experts = 4, .top_k = 2, .hidden = 8, .intermediate = 8};
  const ReplicatedWeights weights(config);
  GateStage stage(config, weights, 4);
  const ReplayInput input{.num_tokens = 3, .number = Forward{0}, .rows_tag = {}, .answers_tag = {}};
  const std::vector<float> states(4 * 8, 1.0f);
  const std::vector<float> bias(4, 0.0f);
  std::vector<ExpertId> experts(4 * 2, ExpertId{77});
  const Gate operation{&input, &stage, LayerId{0}, states.data(), bias.data(), experts.data(), 4, 8, 4, 2};
  EXPECT_TRUE(operation.run().has_value());
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(experts[i], stage.experts()[i]);
  EXPECT_EQ(experts[6], no_expert);
  EXPECT_EQ(experts[7], no_expert);
}

/// What rank 1 of two, with slots 2 and 3, finds in the messages of both.
struct ReceivedRows {
  static constexpr ModelConfig config{
      .num_layers = 1, .num_experts = 4, .top_k = 1, .hidden = 8, .intermediate = 8};

  ReceivedRows() {
    for (const Rank sender : ids<Rank>(2)) {
      const RowsMessage& message = memory.messages.rows_from()[sender.index()];
      *message.header = make_header(MessageKind::rows, source.key(), 2);
      message.targets[0] = {SlotId{3}, {0.5f, 7}};
      message.targets[1] = {SlotId{2}, {0.25f, 9}};
    }
  }

  std::string problem() {
    const Receive operation{
        source, &topology, Rank{1},         memory.messages.rows_from(), memory.messages.answers_to(),
        4,      8,         &memory.grouped, memory.rows.data()};
    const Status received = operation.run();
    return received ? "" : received.error().message;
  }

  Topology topology = *Topology::make_uniform(2, 1, 4);
  ReplayMemory memory{config, topology, Rank{1}, 4};
  TableBufferHead table{};
  KeySource source{&memory.input, &table, LayerId{0}};
};

TEST(ReplayReceive, SortsRowsOfAllRanksBySlot) {
  ReceivedRows rows;
  EXPECT_EQ(rows.problem(), "");
  EXPECT_EQ(rows.memory.rows, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(rows.memory.grouped.scales[0].sum, 9);
  EXPECT_EQ(rows.memory.grouped.scales[2].sum, 7);
  EXPECT_EQ(rows.memory.messages.answers_to()[0].header->num_rows, 2U);
}

TEST(ReplayReceive, RefusesARowForASlotOfAnotherRank) {
  for (const std::int32_t wrong : {1, 4, -1}) {
    ReceivedRows rows;
    rows.memory.messages.rows_from()[0].targets[1].slot = SlotId{wrong};
    EXPECT_EQ(rows.problem(),
              "layer 0: rank 0 sent row 1 to slot " + std::to_string(wrong) + ", which is not of rank 1");
  }
}

TEST(ReplayReceive, RefusesMoreRowsThanThereIsRoomFor) {
  ReceivedRows rows;
  rows.memory.messages.rows_from()[0].header->num_rows = 5;
  EXPECT_NE(rows.problem(), "");
}

}  // namespace
}  // namespace trimtab::moe::replay
