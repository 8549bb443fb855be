// SPDX-License-Identifier: Apache-2.0
#include "route/phase_table.hpp"

#include "unit/route/tables.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace trimtab::test {
namespace {

constexpr LayerId layer0{0};

std::int32_t pick(const PhaseTable& phases, ExpertId expert, std::uint32_t phase) {
  const std::int16_t entry = phases.row(phase)[expert.value()];
  return PhaseTable::is_cut(entry) ? phases.pick_at_cut(entry, phase) : entry;
}

RoutingTable random_table(std::mt19937_64& random, std::int32_t num_experts, std::size_t num_slots) {
  std::vector<std::int32_t> map;
  std::vector<std::int64_t> assignments;
  for (std::size_t s = 0; s < num_slots; ++s) {
    const auto expert = s < static_cast<std::size_t>(num_experts)
                            ? static_cast<std::int32_t>(s)
                            : static_cast<std::int32_t>(random() % static_cast<unsigned>(num_experts));
    map.push_back(expert);
    assignments.push_back(static_cast<std::int64_t>(random() % (1U << (random() % 20))));
  }
  const auto slots = static_cast<std::int32_t>(num_slots);
  return make_table(make_placement(num_experts, {map}), 1, Split::make(1, slots, assignments).value());
}

// Rows and cuts are only a faster way to what the shares say; looked at where shares and ranges end, too.
TEST(PhaseTable, PicksWhatASearchOfTheTableFinds) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 100; ++round) {
    const RoutingTable table = random_table(random, 3, 4 + random() % 200);
    PhaseTable phases;
    phases.build(table, layer0);
    ASSERT_TRUE(phases.has_rows());
    for (ExpertId expert : ids<ExpertId>(3)) {
      std::vector<std::uint32_t> looked_at{0, 0xffffffffU};
      for (const std::uint32_t begin : table.share_begins(layer0, expert)) {
        looked_at.insert(looked_at.end(), {begin - 1, begin, begin + 1});
      }
      for (int i = 0; i < 200; ++i) looked_at.push_back(static_cast<std::uint32_t>(random()));
      for (std::uint32_t row = 0; row < 64; ++row) {
        looked_at.insert(looked_at.end(), {row << 26, (row << 26) - 1});
      }
      for (const std::uint32_t phase : looked_at) {
        ASSERT_EQ(pick(phases, expert, phase), PhaseTable::search(table, layer0, expert, phase).value());
      }
    }
    EXPECT_EQ(phases.row(static_cast<std::uint32_t>(random()))[-1], no_slot.value());
  }
}

// By the share, exactly: the replica changes where the shares end, wherever the expert begins.
TEST(PhaseTable, EveryReplicaHasItsShareOfThePhases) {
  const RoutingTable table =
      make_table(make_placement(1, {{0, 0, 0, 0}}), 1, Split::make(1, 4, {3, 5, 7, 1}).value());
  std::map<SlotId, std::uint64_t> phases;
  for (std::uint64_t phase = 0; phase < RoutingTable::whole_share; phase += 1U << 16) {
    ++phases[PhaseTable::search(table, layer0, ExpertId{0}, static_cast<std::uint32_t>(phase))];
  }
  EXPECT_EQ(phases[SlotId{0}], 65536U * 3 / 16);
  EXPECT_EQ(phases[SlotId{1}], 65536U * 5 / 16);
  EXPECT_EQ(phases[SlotId{2}], 65536U * 7 / 16);
  EXPECT_EQ(phases[SlotId{3}], 65536U * 1 / 16);
}

TEST(PhaseTable, ExpertsOfOneTokenDoNotAllTakeTheirFirstReplica) {
  const RoutingTable table = make_table(Placement::identity(1, 256, 128).value(), 1);
  int first = 0;
  for (ExpertId expert : ids<ExpertId>(128)) {
    first += PhaseTable::search(table, layer0, expert, 5) == table.replicas(layer0, expert).front() ? 1 : 0;
  }
  EXPECT_GT(first, 128 / 3);
  EXPECT_LT(first, 128 * 2 / 3);
}

}  // namespace
}  // namespace trimtab::test
