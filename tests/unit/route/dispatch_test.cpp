// SPDX-License-Identifier: Apache-2.0
#include <trimtab/route/router.hpp>

#include "support/threaded_executor.hpp"
#include "unit/route/tables.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <random>

namespace trimtab::test {
namespace {

constexpr LayerId layer0{0};
constexpr std::int32_t num_experts = 6;
constexpr std::array all_modes{DispatchMode::nearest, DispatchMode::rank_invariant, DispatchMode::quota,
                               DispatchMode::exact_batch};

/// Twelve slots on three ranks: 3, 1, 2, 1, 1 and 4 replicas, with uneven shares.
RoutingTable uneven_table(ModelRole model = ModelRole::target) {
  const Placement placement = make_placement(num_experts, {{0, 5, 2, 5, 0, 1, 5, 3, 0, 2, 4, 5}});
  return RoutingTable::compile(placement, make_topology(3, 12), {.epoch = Epoch{1}},
                               Split::make(1, 12, {7, 1, 2, 5, 1, 9, 3, 9, 4, 11, 9, 2}).value(),
                               {.model = model})
      .value();
}

template <class Id>
std::vector<Id> random_ids(std::size_t count, unsigned seed, bool with_padding = true) {
  std::mt19937 random(seed);
  std::vector<Id> ids;
  for (std::size_t i = 0; i < count; ++i) {
    const auto draw = static_cast<int>(random() % (num_experts + (with_padding ? 1 : 0)));
    ids.push_back(static_cast<Id>(draw == num_experts ? -1 : draw));
  }
  return ids;
}

/// What a batch has for each expert, laid on its slots: all replicas take some where there is enough.
template <class Id>
std::vector<std::int64_t> assignments_for(const RoutingTable& table, std::span<const Id> ids) {
  std::vector<std::int64_t> assignments(static_cast<std::size_t>(table.num_slots()));
  for (ExpertId expert : trimtab::ids<ExpertId>(table.num_experts())) {
    auto left =
        static_cast<std::int64_t>(std::count(ids.begin(), ids.end(), static_cast<Id>(expert.value())));
    for (SlotId slot : table.replicas(layer0, expert)) {
      const bool is_last = slot == table.replicas(layer0, expert).back();
      const std::int64_t part = is_last ? left : left / 3;
      assignments[slot.index()] = part;
      left -= part;
    }
  }
  return assignments;
}

class Dispatch : public testing::TestWithParam<DispatchMode> {
 protected:
  [[nodiscard]] Router make_router(Rank rank = Rank{1}) const {
    return Router(1, num_experts, rank, {.mode = GetParam()});
  }
  template <class Id>
  [[nodiscard]] Batch batch_of(const RoutingTable& table, std::span<const Id> ids, std::int32_t top_k) {
    assignments_ = assignments_for(table, ids);
    Batch batch{.top_k = top_k};
    if (GetParam() == DispatchMode::exact_batch) batch.assignments = assignments_;
    return batch;
  }

  std::vector<std::int64_t> assignments_;
};

template <class Id>
std::vector<Id> dispatch_raw(Router& router, const RoutingTable& table, const std::vector<Id>& ids,
                             const Batch& batch) {
  std::vector<Id> slots(ids.size(), Id{77});
  const Status status = router.dispatch_raw(table, layer0, ids, slots, batch);
  EXPECT_TRUE(status) << status.error().message;
  return slots;
}

// Double mapping, vllm-project/vllm-ascend#5806: what is dispatched is a slot of the very expert, once.
TEST_P(Dispatch, SendsEveryAssignmentToAServingSlotOfItsExpert) {
  const RoutingTable table = uneven_table();
  Router router = make_router();
  const auto ids = random_ids<std::int32_t>(1200, 1);
  const auto slots = dispatch_raw(router, table, ids, batch_of<std::int32_t>(table, ids, 4));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == -1) {
      EXPECT_EQ(slots[i], -1);
    } else {
      const auto replicas = table.replicas(layer0, ExpertId{ids[i]});
      EXPECT_EQ(std::ranges::count(replicas, SlotId{slots[i]}), 1);
    }
  }
}

TEST_P(Dispatch, SixteenBitsInPlaceAndTypedIdsAllAgree) {
  const RoutingTable table = uneven_table();
  const auto wide = random_ids<std::int32_t>(600, 2);
  const std::vector<std::int16_t> narrow(wide.begin(), wide.end());
  std::vector<ExpertId> experts;
  for (std::int32_t id : wide) experts.push_back(ExpertId{id});
  const Batch batch = batch_of<std::int32_t>(table, wide, 6);

  Router first = make_router();
  const auto slots = dispatch_raw(first, table, wide, batch);
  Router second = make_router();
  const auto narrow_slots = dispatch_raw(second, table, narrow, batch);
  EXPECT_TRUE(std::ranges::equal(slots, narrow_slots));

  Router third = make_router();
  auto in_place = wide;
  ASSERT_TRUE(third.dispatch_raw(table, layer0, std::span<const std::int32_t>(in_place),
                                 std::span<std::int32_t>(in_place), batch));
  EXPECT_EQ(in_place, slots);

  Router fourth = make_router();
  const Result<std::span<SlotId>> typed = fourth.dispatch_in_place(table, layer0, experts, batch);
  ASSERT_TRUE(typed);
  EXPECT_EQ(static_cast<const void*>(typed->data()), static_cast<const void*>(experts.data()));
  EXPECT_TRUE(std::ranges::equal(slots, *typed, {}, {}, &SlotId::value));
}

// sgl-project/sglang#22525, #25367: the columns of fused shared experts lie behind the routed ones, with ids
// of their own, and are no business of the map.
TEST_P(Dispatch, LeavesSharedColumnsAlone) {
  const RoutingTable table = uneven_table();
  constexpr std::size_t num_tokens = 90;
  constexpr std::size_t stride = 6;
  const auto compact = random_ids<std::int32_t>(num_tokens * 4, 3);
  std::vector<std::int32_t> fused(num_tokens * stride);
  for (std::size_t t = 0; t < num_tokens; ++t) {
    std::copy_n(compact.begin() + static_cast<std::ptrdiff_t>(t * 4), 4,
                fused.begin() + static_cast<std::ptrdiff_t>(t * stride));
    fused[t * stride + 4] = num_experts;  // The id behind the last routed one,
    fused[t * stride + 5] = 1 << 20;      // and one that no map has.
  }
  Batch batch = batch_of<std::int32_t>(table, compact, 4);
  Router plain = make_router();
  const auto expected = dispatch_raw(plain, table, compact, batch);

  batch.row_stride = stride;
  Router router = make_router();
  const auto slots = dispatch_raw(router, table, fused, batch);
  Router in_place = make_router();
  auto same = fused;
  ASSERT_TRUE(in_place.dispatch_raw(table, layer0, std::span<const std::int32_t>(same),
                                    std::span<std::int32_t>(same), batch));
  for (std::size_t t = 0; t < num_tokens; ++t) {
    for (std::size_t column = 0; column < 4; ++column) {
      EXPECT_EQ(slots[t * stride + column], expected[t * 4 + column]);
      EXPECT_EQ(same[t * stride + column], expected[t * 4 + column]);
    }
    EXPECT_EQ(slots[t * stride + 4], 77) << "written out of place";
    EXPECT_EQ(same[t * stride + 4], num_experts);
    EXPECT_EQ(same[t * stride + 5], 1 << 20);
  }
}

// vllm-project/vllm#38128, sgl-project/sglang#28404: graphs pad batches, and what is in the padded rows is
// anything at all.
TEST_P(Dispatch, PaddedRowsAreNotReadAndBecomePadding) {
  const RoutingTable table = uneven_table();
  const auto valid = random_ids<std::int32_t>(200, 4);
  Batch batch = batch_of<std::int32_t>(table, valid, 4);
  Router plain = make_router();
  const auto expected = dispatch_raw(plain, table, valid, batch);

  auto padded = valid;
  padded.resize(320, 123456789);
  batch.num_valid_tokens = 50;
  Router router = make_router();
  const auto slots = dispatch_raw(router, table, padded, batch);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), slots.begin()));
  EXPECT_TRUE(std::all_of(slots.begin() + 200, slots.end(), [](std::int32_t slot) { return slot == -1; }));

  // Nor does padding move a counter: both go on alike.
  batch.num_valid_tokens = -1;
  EXPECT_EQ(dispatch_raw(router, table, valid, batch), dispatch_raw(plain, table, valid, batch));
}

TEST_P(Dispatch, AWildIdIsNamedAndNothingIsWritten) {
  const RoutingTable table = uneven_table();
  for (const std::int32_t wild :
       {num_experts, 1 << 30, -2, std::numeric_limits<std::int32_t>::min(), 65536 + 1, 32768}) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{9}, std::size_t{399}}) {
      auto ids = random_ids<std::int32_t>(400, 5);
      const Batch batch = batch_of<std::int32_t>(table, ids, 4);
      Router router = make_router();
      Router twin = make_router();
      const auto sound = ids;
      ids[at] = wild;
      std::vector<std::int32_t> slots(ids.size(), 77);
      const Status status = router.dispatch_raw(table, layer0, ids, slots, batch);
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code, Errc::invalid_argument);
      EXPECT_EQ(status.error().message, "layer 0, token " + std::to_string(at / 4) + ", column " +
                                            std::to_string(at % 4) + ": expert " + std::to_string(wild) +
                                            " is not in 0..5");
      EXPECT_TRUE(std::ranges::all_of(slots, [](std::int32_t slot) { return slot == 77; }));
      const auto before = ids;
      ASSERT_FALSE(router.dispatch_raw(table, layer0, std::span<const std::int32_t>(ids),
                                       std::span<std::int32_t>(ids), batch));
      EXPECT_EQ(ids, before);
      EXPECT_EQ(dispatch_raw(router, table, sound, batch), dispatch_raw(twin, table, sound, batch));
    }
  }
}

TEST_P(Dispatch, SixteenBitIdsAreCheckedToo) {
  const RoutingTable table = uneven_table();
  auto ids = random_ids<std::int16_t>(40, 6);
  const Batch batch = batch_of<std::int16_t>(table, ids, 1);
  ids[17] = std::numeric_limits<std::int16_t>::min();
  std::vector<std::int16_t> slots(ids.size(), 77);
  Router router = make_router();
  const Status status = router.dispatch_raw(table, layer0, ids, slots, batch);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "layer 0, token 17, column 0: expert -32768 is not in 0..5");
}

TEST_P(Dispatch, SlotsThatSixteenBitsCannotHoldAreRefused) {
  const Placement placement = Placement::identity(1, 40000, num_experts).value();
  const RoutingTable table = make_table(placement, 1);
  Router router = make_router(Rank{0});
  std::vector<std::int16_t> narrow(8, 0);
  const std::vector<std::int64_t> assignments(40000);
  Batch batch;
  if (GetParam() == DispatchMode::exact_batch) batch.assignments = assignments;
  const Status status = router.dispatch_raw(table, layer0, std::span<const std::int16_t>(narrow),
                                            std::span<std::int16_t>(narrow), batch);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "layer 0: slot 39999 of the routing table is above 32767");

  const auto ids = random_ids<std::int32_t>(3000, 7);
  const auto slots = dispatch_raw(router, table, ids, batch_of<std::int32_t>(table, ids, 1));
  for (std::size_t i = 0; i < ids.size(); ++i)
    EXPECT_EQ(slots[i] == -1 ? -1 : slots[i] % num_experts, ids[i]);
}

TEST_P(Dispatch, AnyNumberOfThreadsGivesTheSame) {
  const RoutingTable table = uneven_table();
  Router alone = make_router();
  Router together = make_router();
  ThreadedExecutor executor(4);
  for (unsigned round = 0; round < 3; ++round) {
    const auto ids = random_ids<std::int32_t>(8 * 65536 + 8 * 77 * round, 8 + round);
    Batch batch = batch_of<std::int32_t>(table, ids, 8);
    const auto expected = dispatch_raw(alone, table, ids, batch);
    batch.executor = &executor;
    EXPECT_EQ(dispatch_raw(together, table, ids, batch), expected);
  }
}

// Ranks without tokens are an everyday thing, and other systems hung on them: they must not even move.
TEST_P(Dispatch, AnEmptyBatchChangesNothing) {
  const RoutingTable table = uneven_table();
  Router router = make_router();
  Router twin = make_router();
  const auto ids = random_ids<std::int32_t>(120, 11);
  const std::vector<std::int64_t> nothing(12);
  for (int i = 0; i < 3; ++i) {
    Batch empty{.top_k = 8};
    if (GetParam() == DispatchMode::exact_batch) empty.assignments = nothing;
    EXPECT_TRUE(router.dispatch_raw(table, layer0, std::span<const std::int32_t>(), std::span<std::int32_t>(),
                                    empty));
    empty.num_valid_tokens = 0;
    std::vector<std::int32_t> rows(16, 5);
    EXPECT_TRUE(router.dispatch_raw(table, layer0, std::span<const std::int32_t>(rows),
                                    std::span<std::int32_t>(rows), empty));
    EXPECT_EQ(rows, std::vector<std::int32_t>(16, -1));
    const Batch batch = batch_of<std::int32_t>(table, ids, 8);
    EXPECT_EQ(dispatch_raw(router, table, ids, batch), dispatch_raw(twin, table, ids, batch));
  }
}

// sgl-project/sglang#28982, #19767: layers of the draft model were dispatched by the target's maps.
TEST_P(Dispatch, TablesOfAnotherModelAreRefused) {
  Router router = make_router();
  std::vector<std::int32_t> ids(8, 0);
  const Status status =
      router.dispatch_raw(uneven_table(ModelRole::draft), layer0, std::span<const std::int32_t>(ids),
                          std::span<std::int32_t>(ids), Batch{});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "routing table of the draft model, router of the target model");
  Router draft(1, num_experts, Rank{0}, {.mode = DispatchMode::quota, .model = ModelRole::draft});
  EXPECT_TRUE(draft.dispatch_raw(uneven_table(ModelRole::draft), layer0, std::span<const std::int32_t>(ids),
                                 std::span<std::int32_t>(ids), Batch{}));
}

TEST_P(Dispatch, SizesThatDoNotAgreeAreNamed) {
  const RoutingTable table = uneven_table();
  const auto refusal = [&](std::size_t size, Batch batch) {
    std::vector<std::int32_t> ids(size, -1);
    const std::vector<std::int64_t> nothing(12);
    if (GetParam() == DispatchMode::exact_batch) batch.assignments = nothing;
    Router router = make_router();
    const Status status = router.dispatch_raw(table, layer0, std::span<const std::int32_t>(ids),
                                              std::span<std::int32_t>(ids), batch);
    return status ? "accepted" : status.error().message;
  };
  EXPECT_EQ(refusal(12, {.top_k = 4}), "accepted");
  EXPECT_EQ(refusal(12, {.top_k = 0}), "layer 0: top-k 0 is below 1");
  EXPECT_EQ(refusal(12, {.top_k = 4, .row_stride = 3}), "layer 0: row stride 3 is below top-k 4");
  EXPECT_EQ(refusal(13, {.top_k = 4}), "layer 0: 13 ids are no whole rows of 4");
  EXPECT_EQ(refusal(12, {.top_k = 4, .num_valid_tokens = 4}), "layer 0: 4 valid tokens of 3");
  EXPECT_EQ(refusal(12, {.top_k = 4, .num_valid_tokens = -2}), "layer 0: -2 valid tokens of 3");
}

INSTANTIATE_TEST_SUITE_P(AllModes, Dispatch, testing::ValuesIn(all_modes), [](const auto& instance) {
  std::string name(to_string(instance.param));
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(DispatchMode, IsSpelledOneWay) {
  for (const DispatchMode mode : all_modes) EXPECT_EQ(parse_dispatch_mode(to_string(mode)).value(), mode);
  const auto bad = parse_dispatch_mode("random");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().message,
            "dispatch mode \"random\" is not nearest, rank-invariant, quota or exact-batch");
}

}  // namespace
}  // namespace trimtab::test
