// SPDX-License-Identifier: Apache-2.0
#include "plan/replicate.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace trimtab {
namespace {

struct Candidate {
  double average;
  std::int32_t copies;
  ExpertId expert;
};

/// Total order; the greatest candidate is raised next. An object, so that the heap compares without calls.
constexpr auto is_less_urgent = [](const Candidate& a, const Candidate& b) {
  if (a.average != b.average) return a.average < b.average;
  if (a.average == 0.0 && a.copies != b.copies) return a.copies > b.copies;
  return a.expert > b.expert;
};

std::int32_t most_slots(const Region& region, const Topology& topology) {
  std::int32_t most = 0;
  for (Rank rank : region.ranks) most = std::max(most, topology.rank(rank).num_slots);
  return most;
}

ExpertId most_urgent(LayerLoads loads, const Region& region, const std::vector<std::int32_t>& counts) {
  const auto candidate = [&](ExpertId e) {
    return Candidate{loads[e.index()] / counts[e.index()], counts[e.index()], e};
  };
  return *std::max_element(region.experts.begin(), region.experts.end(), [&](ExpertId a, ExpertId b) {
    return is_less_urgent(candidate(a), candidate(b));
  });
}

/// Of a mean rank's load. Twice as much packs badly, half as much leaves hot experts with three copies where
/// two ranks more could be tied.
constexpr double ample_share = 0.35;

std::vector<double> equal_speeds(const Region& region) {
  std::vector<double> capacity(region.ranks.size() + 1);
  std::iota(capacity.begin(), capacity.end(), 0.0);
  return capacity;
}

}  // namespace

CopyRoom::CopyRoom(const Region& region, const Topology& topology)
    : CopyRoom(region, topology, std::numeric_limits<std::int64_t>::max()) {}

CopyRoom::CopyRoom(const Region& region, const Topology& topology, std::int64_t max_raises)
    : num_with_at_least_{region.experts.size(), region.experts.size()} {
  // Beyond the largest slot count only the total limits, so those entries fold into the last one.
  const auto most = static_cast<std::size_t>(most_slots(region, topology));
  const std::size_t width = std::min(region.experts.size(), most);
  for (std::size_t j = 1; j <= width; ++j) {
    room_.push_back(distinct_slots_of(region.ranks, topology, j) - static_cast<std::int64_t>(j));
  }
  const std::int64_t in_total = distinct_slots_of(region.ranks, topology, region.experts.size()) -
                                static_cast<std::int64_t>(region.experts.size());
  room_.push_back(std::min(in_total, max_raises));
}

std::size_t CopyRoom::num_above(std::int32_t copies) const noexcept {
  const auto c = static_cast<std::size_t>(copies) + 1;
  return c < num_with_at_least_.size() ? num_with_at_least_[c] : 0;
}

bool CopyRoom::admits(std::int32_t copies) const noexcept {
  const auto first =
      room_.begin() + static_cast<std::ptrdiff_t>(std::min(num_above(copies), room_.size() - 1));
  return std::all_of(first, room_.end(), [](std::int64_t room) { return room > 0; });
}

void CopyRoom::raise(std::int32_t copies) {
  for (std::size_t j = std::min(num_above(copies), room_.size() - 1); j < room_.size(); ++j) --room_[j];
  const auto c = static_cast<std::size_t>(copies) + 1;
  if (c == num_with_at_least_.size()) num_with_at_least_.push_back(0);
  ++num_with_at_least_[c];
}

std::vector<std::int32_t> raise_highest_average(LayerLoads loads, std::span<const ExpertId> experts,
                                                std::span<const double> capacity, CopyRoom room,
                                                double ample) {
  std::vector<std::int32_t> counts(loads.size(), 0);
  std::vector<Candidate> heap;
  heap.reserve(experts.size());
  for (ExpertId e : experts) {
    counts[e.index()] = 1;
    heap.push_back({loads[e.index()] / capacity[1], 1, e});
  }
  std::make_heap(heap.begin(), heap.end(), is_less_urgent);
  while (!heap.empty() && !room.is_exhausted()) {
    std::pop_heap(heap.begin(), heap.end(), is_less_urgent);
    Candidate& top = heap.back();
    if (!room.admits(top.copies)) {
      heap.pop_back();
      continue;
    }
    room.raise(top.copies);
    counts[top.expert.index()] = ++top.copies;
    top.average = loads[top.expert.index()] / capacity[static_cast<std::size_t>(top.copies)];
    if (top.average <= ample) top.average /= 2.0;
    std::push_heap(heap.begin(), heap.end(), is_less_urgent);
  }
  return counts;
}

std::vector<std::int32_t> count_replicas(LayerLoads loads, const Region& region, const Topology& topology) {
  return raise_highest_average(loads, region.experts, equal_speeds(region), CopyRoom(region, topology));
}

std::vector<std::int32_t> count_replicas_for_split(LayerLoads loads, const Region& region,
                                                   const Topology& topology) {
  const double mean = load_of(region.experts, loads) / static_cast<double>(region.ranks.size());
  return raise_highest_average(loads, region.experts, equal_speeds(region), CopyRoom(region, topology),
                               ample_share * mean);
}

std::vector<Duplicate> force_duplicates(LayerLoads loads, const Region& region, const Topology& topology,
                                        std::vector<std::int32_t>& counts) {
  std::vector<Duplicate> duplicates;
  const auto num_experts = static_cast<std::int32_t>(region.experts.size());
  for (std::int32_t in_use = num_experts; in_use < most_slots(region, topology); ++in_use) {
    ExpertId expert = no_expert;
    for (Rank rank : region.ranks) {
      if (topology.rank(rank).num_slots <= in_use) continue;
      if (expert == no_expert || loads[expert.index()] == 0.0) expert = most_urgent(loads, region, counts);
      duplicates.push_back({rank, expert});
      ++counts[expert.index()];
    }
  }
  return duplicates;
}

}  // namespace trimtab
