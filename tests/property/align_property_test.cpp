// SPDX-License-Identifier: Apache-2.0
#include <trimtab/plan/align.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace trimtab::test {
namespace {

constexpr std::int32_t num_experts = 4;
constexpr LayerId layer{0};

Topology draw_ranks() {
  std::vector<RankInfo> ranks = {{NodeId{0}, num_experts}};  // room for every expert
  for (std::int32_t i = *rc::gen::inRange(0, 3); i > 0; --i) {
    ranks.push_back({NodeId{0}, *rc::gen::inRange(0, 6)});
  }
  return Topology::make(std::move(ranks)).value();
}

Placement draw_placement(const Topology& topology) {
  std::vector<ExpertId> map;
  for (std::int32_t s = 0; s < topology.num_slots(); ++s) {
    map.push_back(ExpertId{s < num_experts ? s : *rc::gen::inRange(-1, num_experts)});
  }
  for (std::int32_t s = num_experts - 1; s > 0; --s) {
    std::swap(map[static_cast<std::size_t>(s)], map[static_cast<std::size_t>(*rc::gen::inRange(0, s + 1))]);
  }
  return Placement::make(1, topology.num_slots(), num_experts, std::move(map)).value();
}

std::vector<ExpertId> sorted_rank(const Placement& placement, Rank rank, const Topology& topology) {
  std::vector<ExpertId> held;
  for (SlotId slot : topology.slots_of(rank)) held.push_back(placement.expert_at(layer, slot));
  std::sort(held.begin(), held.end());
  return held;
}

std::size_t num_kept(const Placement& current, Rank rank, const Topology& topology,
                     const std::vector<ExpertId>& held) {
  std::size_t kept = 0;
  std::size_t i = 0;
  for (SlotId slot : topology.slots_of(rank)) kept += current.expert_at(layer, slot) == held[i++] ? 1 : 0;
  return kept;
}

std::size_t most_kept(const Placement& current, Rank rank, const Topology& topology,
                      std::vector<ExpertId> sorted) {
  std::size_t most = 0;
  do {
    most = std::max(most, num_kept(current, rank, topology, sorted));
  } while (std::next_permutation(sorted.begin(), sorted.end()));
  return most;
}

RC_GTEST_PROP(AlignSlots, PermutesEachRankSoThatMostSlotsAreLeft, ()) {
  const Topology topology = draw_ranks();
  const Placement current = draw_placement(topology);
  const Placement next = draw_placement(topology);
  const Placement aligned = align_slots(current, next, topology);
  for (Rank rank : ids<Rank>(topology.num_ranks())) {
    const auto held = sorted_rank(next, rank, topology);
    RC_ASSERT(sorted_rank(aligned, rank, topology) == held);
    std::vector<ExpertId> in_slots;
    for (SlotId slot : topology.slots_of(rank)) in_slots.push_back(aligned.expert_at(layer, slot));
    RC_ASSERT(num_kept(current, rank, topology, in_slots) == most_kept(current, rank, topology, held));
  }
}

}  // namespace
}  // namespace trimtab::test
