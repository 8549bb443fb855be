// SPDX-License-Identifier: Apache-2.0
#include "migrate/stage_pieces.hpp"
#include "migrate/stage_run.hpp"
#include "migrate/staging.hpp"
#include "support/placements.hpp"
#include "unit/migrate/largest_allocation.hpp"
#include "verify/virtual_clock.hpp"

#include <trimtab/transport/decorator.hpp>
#include <trimtab/transport/inproc.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

namespace trimtab::test {
namespace {

using verify::VirtualClock;

std::vector<TensorSpec> tensors_of(std::initializer_list<std::size_t> sizes) {
  std::vector<TensorSpec> tensors;
  for (const std::size_t size : sizes) {
    TensorSpec& tensor = tensors.emplace_back();
    tensor.slot_bytes = size;
  }
  return tensors;
}

TEST(Pieces, CoverABundleInOrderAndNeverExceedTheirSize) {
  const auto tensors = tensors_of({1, piece_bytes - 1, 3 * piece_bytes + 5, 7, piece_bytes});
  std::vector<std::size_t> covered(tensors.size());
  std::size_t num_pieces = 0;
  for (std::size_t offset = 0; offset < 5 * piece_bytes + 12; ++num_pieces) {
    std::size_t size = 0;
    for (const TensorPart& part : piece_at(tensors, offset)) {
      EXPECT_EQ(part.offset, covered[part.tensor]);
      covered[part.tensor] += part.size;
      size += part.size;
    }
    EXPECT_GT(size, 0U);
    EXPECT_LE(size, piece_bytes);
    offset += size;
  }
  EXPECT_EQ(num_pieces, 6U);
  for (std::size_t t = 0; t < tensors.size(); ++t) EXPECT_EQ(covered[t], tensors[t].slot_bytes);
}

TEST(Pieces, OfASmallBundleAreAllItsTensors) {
  const auto parts = piece_at(tensors_of({8, 16, 24}), 0);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[2].size, 24U);
  EXPECT_TRUE(piece_at(tensors_of({8, 16, 24}), 48).empty());
}

/// Notes what each posting is given, which is what a back-end may copy at once.
class NotingTransport final : public TransportDecorator {
 public:
  using TransportDecorator::TransportDecorator;

  Result<Ticket> post(std::span<const Leg> legs) override {
    posted_bytes = 0;
    for (const Leg& leg : legs) posted_bytes += leg.memory.size();
    if (legs.front().side == Side::send) receivers.insert(legs.front().peer);
    return inner().post(legs);
  }

  std::size_t posted_bytes = 0;  ///< The last time.
  std::set<Rank> receivers;      ///< To whom anything was sent.
};

constexpr std::size_t small = 40;

/// A rank's slots, of two tensors each, and memory to stage three bundles.
struct StagingRank {
  StagingRank(IdRange<SlotId> slots, std::size_t large, std::unique_ptr<Transport> end)
      : weights(slots.size() * (large + small)),
        store(1, slots),
        staging(3 * staged_bytes(large + small)),
        channel(std::move(end)) {
    const auto num_slots = static_cast<std::int32_t>(slots.size());
    const std::vector<TensorSpec> tensors{
        {"w", ElementType::int8, weights.data(), num_slots, large, large},
        {"scale", ElementType::int8, weights.data() + slots.size() * large, num_slots, small, small}};
    EXPECT_TRUE(store.register_layer(LayerId{0}, tensors));
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = static_cast<std::byte>(i * 31 + slots.first().index() + i / 509);
  }

  std::vector<std::byte> weights;
  ExpertStore store;
  std::vector<std::byte> staging;
  NotingTransport channel;
};

/// Ranks in the middle of a step, without engines: each call is the test's.
class Staging {
 public:
  Staging(std::int32_t num_ranks, std::int32_t num_slots, std::size_t num_pieces, std::vector<Move> moves)
      : topology_(uniform(num_ranks, 1, num_slots)) {
    const std::size_t large = (num_pieces - 1) * piece_bytes + 100;
    step_.moves = std::move(moves);
    auto ends = *make_inproc_transports(num_ranks);
    for (Rank rank : ids<Rank>(num_ranks)) {
      StagingRank& made = *ranks_.emplace_back(
          std::make_unique<StagingRank>(topology_.slots_of(rank), large, std::move(ends[rank.index()])));
      runs_.push_back(std::make_unique<StageRun>(
          StageRun::Context{made.channel, made.store, topology_, Tag{7}}, step_, made.staging));
    }
  }

  [[nodiscard]] StagingRank& rank(std::size_t index) { return *ranks_[index]; }
  [[nodiscard]] StageRun& run(std::size_t index) { return *runs_[index]; }
  /// Without a budget.
  bool progress(std::size_t index) {
    Result<bool> worked = run(index).progress(clock_, clock_.now());
    EXPECT_TRUE(worked) << worked.error().message;
    return worked && *worked;
  }
  /// Until nothing can be done.
  void progress_all(std::size_t index) {
    while (progress(index)) {
    }
  }
  [[nodiscard]] bool is_complete() const {
    return std::ranges::all_of(runs_, [](const auto& run) { return run->is_complete(); });
  }
  [[nodiscard]] std::vector<std::byte> bundle(std::int32_t slot) const {
    const ExpertStore& store = ranks_[topology_.rank_of(SlotId{slot}).index()]->store;
    std::vector<std::byte> bytes(store.bundle_bytes(LayerId{0}));
    store.read_bundle(LayerId{0}, SlotId{slot}, bytes);
    return bytes;
  }
  [[nodiscard]] std::vector<std::byte> staged() const {
    std::vector<std::byte> all;
    for (const auto& rank : ranks_) all.insert(all.end(), rank->staging.begin(), rank->staging.end());
    return all;
  }

 private:
  Topology topology_;
  VirtualClock clock_;
  Step step_;
  std::vector<std::unique_ptr<StagingRank>> ranks_;
  std::vector<std::unique_ptr<StageRun>> runs_;
};

Move move(std::int32_t expert, std::int32_t source, std::int32_t destination, MoveKind kind,
          std::int32_t round = 0) {
  return {LayerId{0}, ExpertId{expert}, SlotId{source}, SlotId{destination}, kind, round};
}

/// Slots 0 to 3 are of one rank, 4 to 7 of another; slot s holds expert s.
const std::vector<Move> every_kind_but_relays{
    move(5, 5, 0, MoveKind::transfer), move(2, 2, 1, MoveKind::displaced),
    move(1, 1, 2, MoveKind::local_copy), move(5, 0, 3, MoveKind::reuse), move(0, 0, 4, MoveKind::transfer)};

std::size_t num_different(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), std::size_t{0}, std::plus<>(),
                            [](std::byte x, std::byte y) { return std::size_t{x != y}; });
}

TEST(Staging, WorksOnOnePieceAtATimeWithoutABudget) {
  Staging staging(2, 8, 3, every_kind_but_relays);
  std::size_t num_calls = 0;
  std::vector<std::byte> before = staging.staged();
  for (std::size_t rank = 0; !staging.is_complete(); rank = 1 - rank) {
    staging.rank(rank).channel.posted_bytes = 0;
    num_calls += staging.progress(rank) ? 1 : 0;
    EXPECT_LE(staging.rank(rank).channel.posted_bytes, piece_bytes + sizeof(std::uint64_t));
    std::vector<std::byte> after = staging.staged();
    EXPECT_LE(num_different(before, after), piece_bytes);
    before = std::move(after);
    ASSERT_LT(num_calls, 1000U);
  }
  // Pieces of two transfers are posted and taken off on two sides, so are their checksums on one; what the
  // other three move is read once.
  EXPECT_EQ(num_calls, 2 * (4 * 3 + 2) + 3 * 3U);
}

TEST(Staging, LeavesTheSlotsAndEndsWithTheRightBundles) {
  Staging staging(2, 8, 3, every_kind_but_relays);
  std::vector<std::vector<std::byte>> before;
  for (std::int32_t slot = 0; slot < 8; ++slot) before.push_back(staging.bundle(slot));
  for (std::size_t call = 0; !staging.is_complete(); ++call) {
    staging.progress(call % 2);
    ASSERT_LT(call, 1000U);
  }
  for (std::int32_t slot = 0; slot < 8; ++slot)
    EXPECT_EQ(staging.bundle(slot), before[static_cast<std::size_t>(slot)]) << slot;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    staging.run(rank).exchange();
    EXPECT_TRUE(staging.run(rank).verify_exchanged(100, 0));
  }
  const std::size_t expert_in[]{5, 2, 1, 5, 0, 5, 6, 7};
  for (std::int32_t slot = 0; slot < 8; ++slot)
    EXPECT_EQ(staging.bundle(slot), before[expert_in[slot]]) << slot;
}

TEST(Staging, KeepsPayloadsNowhereButInItsStaging) {
  Staging staging(2, 8, 8, every_kind_but_relays);
  static_cast<void>(take_largest_allocation());
  for (std::size_t call = 0; !staging.is_complete(); ++call) {
    staging.progress(call % 2);
    ASSERT_LT(call, 1000U);
  }
  for (std::size_t rank = 0; rank < 2; ++rank) staging.run(rank).exchange();
  EXPECT_LT(take_largest_allocation(), piece_bytes / 32);
}

/// Rank 0 has something for each other rank, in three rounds; what it receives in the first does not come.
TEST(Staging, SendsNoMoreThanOneRoundAhead) {
  Staging staging(4, 8, 2,
                  {move(7, 7, 1, MoveKind::transfer, 0), move(0, 0, 2, MoveKind::transfer, 0),
                   move(0, 0, 4, MoveKind::transfer, 1), move(1, 1, 6, MoveKind::transfer, 2)});
  const std::set<Rank>& receivers = staging.rank(0).channel.receivers;
  for (int i = 0; i < 10; ++i) {
    for (std::size_t rank : {0U, 1U, 2U}) staging.progress_all(rank);
  }
  EXPECT_EQ(receivers, (std::set{Rank{1}, Rank{2}}));
  for (int i = 0; !staging.is_complete(); ++i) {
    for (std::size_t rank = 0; rank < 4; ++rank) staging.progress_all(rank);
    ASSERT_LT(i, 20);
  }
  EXPECT_EQ(receivers.size(), 3U);
}

/// Ranks 0 and 2 both send to rank 1, which has no receive for the second bundle before those for the first.
TEST(Staging, ReceivesInTheOrderOfRounds) {
  Staging staging(3, 6, pieces_in_flight + 1,
                  {move(4, 4, 2, MoveKind::transfer, 1), move(0, 0, 3, MoveKind::transfer, 0)});
  for (int i = 0; i < 10; ++i) {
    staging.progress_all(2);
    staging.progress_all(1);
  }
  EXPECT_EQ(staging.run(1).bytes_received(), 0U);
  for (int i = 0; !staging.is_complete(); ++i) {
    for (std::size_t rank = 0; rank < 3; ++rank) staging.progress_all(rank);
    ASSERT_LT(i, 20);
  }
}

}  // namespace
}  // namespace trimtab::test
