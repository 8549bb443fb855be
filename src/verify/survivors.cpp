// SPDX-License-Identifier: Apache-2.0
#include "verify/survivors.hpp"

#include "verify/draw_deaths.hpp"

#include <algorithm>

namespace trimtab::verify {
namespace {

bool is_majority(const std::vector<Rank>& ranks, std::int32_t num_ranks) {
  const std::size_t twice = 2 * ranks.size();
  const auto all = static_cast<std::size_t>(num_ranks);
  return twice > all || (twice == all && std::ranges::find(ranks, Rank{0}) != ranks.end());
}

Fate fate_of_stop(const CaseFault& stop, const Case& drawn, const std::vector<Rank>& others) {
  if (!is_majority(others, drawn.topology.num_ranks())) return {};
  const Clock::duration silence = drawn.heartbeat.period * drawn.heartbeat.misses;
  const bool is_long = stop.length > 2 * silence + 4 * drawn.engine.deadline;
  return {others, is_long ? std::vector{stop.rank} : std::vector<Rank>{}};
}

/// One of its ends goes on with all others; which one, depends.
Fate fate_of_cut_link(const CaseFault& cut, std::vector<Rank> others) {
  std::erase_if(others, [&](Rank rank) { return rank == cut.rank || rank == *cut.peer; });
  return {others, {}};
}

Fate fate_of_cut(const CaseFault& cut, const Case& drawn, const std::vector<Rank>& all) {
  if (cut.peer && drawn.topology.num_ranks() > 2) return fate_of_cut_link(cut, all);
  Fate fate;
  for (Rank rank : all) {
    const bool is_here = rank == cut.rank || !severs(cut, rank, cut.rank);
    (is_here ? fate.serve : fate.stop).push_back(rank);
  }
  if (!is_majority(fate.serve, drawn.topology.num_ranks())) std::swap(fate.serve, fate.stop);
  return fate;
}

}  // namespace

Fate expected_fate(const Case& drawn, const std::vector<bool>& has_struck) {
  std::vector<Rank> all;
  for (Rank rank : ids<Rank>(drawn.topology.num_ranks())) all.push_back(rank);
  const CaseFault* death = nullptr;
  for (std::size_t i = 0; i < drawn.faults.size(); ++i) {
    const CaseFault& fault = drawn.faults[i];
    if (!has_struck[i]) continue;
    if (!is_death(fault.kind)) {
      if (fault.is_control || fault.kind == FaultKind::fail) return {};
      continue;
    }
    if (death != nullptr) return {};
    death = &fault;
  }
  if (death == nullptr) return {all, {}};
  std::vector<Rank> others = all;
  std::erase(others, death->rank);
  if (death->kind == FaultKind::kill) return {others, {death->rank}};
  return death->kind == FaultKind::stop ? fate_of_stop(*death, drawn, others)
                                        : fate_of_cut(*death, drawn, all);
}

}  // namespace trimtab::verify
