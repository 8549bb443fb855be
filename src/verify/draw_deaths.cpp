// SPDX-License-Identifier: Apache-2.0
#include "verify/draw_deaths.hpp"

#include "verify/forward_board.hpp"
#include "verify/random.hpp"

#include <trimtab/core/assert.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace trimtab::verify {
namespace {

constexpr std::uint64_t deaths_salt = 0xd1b54a32d192ed03U;

std::int32_t most_slots(const Topology& topology) {
  std::int32_t most = 0;
  for (Rank rank : ids<Rank>(topology.num_ranks())) most = std::max(most, topology.rank(rank).num_slots);
  return most;
}

/// Slot s holds expert s mod E, E being at least the slots of any rank: so the first 2 E slots have every
/// expert on two ranks. `names` renames the experts, `extra` fills the slots behind those.
Placement make_doubled(const Placement& like, const std::vector<ExpertId>& names, Random& random) {
  std::vector<ExpertId> map;
  const std::size_t num_experts = names.size();
  for (std::int32_t layer = 0; layer < like.num_layers(); ++layer) {
    for (std::size_t slot = 0; slot < static_cast<std::size_t>(like.num_slots()); ++slot) {
      const bool is_kept = slot < 2 * num_experts;
      map.push_back(is_kept ? names[slot % num_experts] : random.one_in(5) ? no_expert : random.pick(names));
    }
  }
  auto placement = Placement::make(like.num_layers(), like.num_slots(),
                                   static_cast<std::int32_t>(num_experts), std::move(map));
  TRIMTAB_ASSERT(placement.has_value());
  return std::move(*placement);
}

bool can_double(const Topology& topology) {
  return topology.num_ranks() > 1 && 2 * most_slots(topology) <= topology.num_slots();
}

/// Mostly the doubled slots stay, so that the last copy of an expert is at risk only now and then.
void double_placements(Case& drawn, Random& random) {
  const std::int32_t fewest = most_slots(drawn.topology);
  std::vector<ExpertId> names;
  for (ExpertId expert : ids<ExpertId>(random.within(fewest, drawn.topology.num_slots() / 2)))
    names.push_back(expert);
  random.shuffle(names);
  drawn.first = make_doubled(drawn.first, names, random);
  for (Placement& target : drawn.targets) {
    if (random.one_in(3)) random.shuffle(names);
    target = make_doubled(drawn.first, names, random);
  }
}

/// Any split into two sides; both have a rank.
std::vector<Rank> draw_side(const Topology& topology, Rank rank, Random& random) {
  std::vector<Rank> others;
  for (Rank other : ids<Rank>(topology.num_ranks())) {
    if (other != rank) others.push_back(other);
  }
  random.shuffle(others);
  others.resize(random.below(others.size()));
  others.push_back(rank);
  std::ranges::sort(others);
  return others;
}

CaseFault draw_death(const Case& drawn, const std::vector<FaultKind>& kinds, Random& random) {
  const std::int32_t num_ranks = drawn.topology.num_ranks();
  CaseFault fault;
  fault.kind = random.pick(kinds);
  fault.rank = random.one_in(3) ? Rank{0} : Rank{random.within(0, num_ranks - 1)};
  fault.tick = random.below(60);
  if (!random.one_in(4)) fault.transition = 1 + random.below(random.one_in(3) ? 28 : 9);
  const Clock::duration silence = drawn.heartbeat.period * drawn.heartbeat.misses;
  fault.length = silence / 8 * random.within(1, 40);
  if (fault.kind != FaultKind::cut) return fault;
  if (random.one_in(3)) {
    fault.peer = Rank{(fault.rank.value() + random.within(1, num_ranks - 1)) % num_ranks};
  } else {
    fault.side_of_rank = draw_side(drawn.topology, fault.rank, random);
  }
  return fault;
}

/// Beats come several times per period also where every second turn of a rank is skipped.
HeartbeatOptions draw_heartbeat(const Pace& pace, Random& random) {
  const bool is_slow = pace.budget == Clock::duration(0) || pace.skips_one_in == 2;
  return {.period = pace.tick * (is_slow ? random.within(20, 40) : random.within(6, 12)), .misses = 3};
}

/// Not what leaves a link deaf to take-overs while its ends hear each other's beats: no transport does that.
bool is_beside_deaths(const CaseFault& fault) {
  return is_message_fault(fault.kind) && fault.side == Side::send;
}

/// At most one cut: both ends of a link must know of it.
void add_deaths(Case& drawn, const std::vector<FaultKind>& kinds, Random& random) {
  const std::size_t count = drawn.topology.num_ranks() > 3 && random.one_in(4) ? 2 : 1;
  for (std::size_t i = 0; i < count; ++i) {
    const CaseFault death = draw_death(drawn, kinds, random);
    const bool is_second_cut =
        death.kind == FaultKind::cut &&
        std::ranges::count(drawn.faults, FaultKind::cut, [](const CaseFault& f) { return f.kind; }) > 0;
    if (!is_second_cut) drawn.faults.push_back(death);
  }
}

}  // namespace

void draw_deaths(Case& drawn, const CaseOptions& options) {
  Random random(mix(drawn.seed ^ deaths_salt));
  std::vector<FaultKind> kinds;
  std::ranges::copy_if(options.faults, std::back_inserter(kinds), is_death);
  const std::int32_t num_ranks = drawn.topology.num_ranks();
  if (kinds.empty() || num_ranks < 2 || num_ranks > ForwardBoard::max_ranks) return;
  if (kinds.size() < options.faults.size() && random.one_in(2)) return;
  drawn.has_deaths = true;
  drawn.heartbeat = draw_heartbeat(drawn.pace, random);
  drawn.engine.decided_deadline = 2 * drawn.engine.deadline;
  drawn.has_source = random.one_in(2) || !can_double(drawn.topology);
  if (!drawn.has_source) double_placements(drawn, random);
  std::erase_if(drawn.faults, [](const CaseFault& fault) { return !is_beside_deaths(fault); });
  add_deaths(drawn, kinds, random);
}

std::string describe_death(const CaseFault& fault) {
  const std::string when = fault.transition ? fmt::format("with its change of state {}", *fault.transition)
                                            : fmt::format("at tick {}", fault.tick);
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(fault.length).count();
  if (fault.kind == FaultKind::kill) return fmt::format("rank {} is killed {}", fault.rank.value(), when);
  if (fault.kind == FaultKind::stop)
    return fmt::format("rank {} stops for {} us {}", fault.rank.value(), us, when);
  if (fault.peer) {
    return fmt::format("the link of rank {} to rank {} is cut {}", fault.rank.value(), fault.peer->value(),
                       when);
  }
  std::string side;
  for (Rank rank : fault.side_of_rank) side += fmt::format(" {}", rank.value());
  return fmt::format("ranks{} are cut off when rank {} is {}", side, fault.rank.value(), when);
}

bool severs(const CaseFault& cut, Rank a, Rank b) {
  if (cut.peer) return (a == cut.rank && b == *cut.peer) || (b == cut.rank && a == *cut.peer);
  const auto is_here = [&](Rank rank) {
    return std::ranges::find(cut.side_of_rank, rank) != cut.side_of_rank.end();
  };
  return is_here(a) != is_here(b);
}

bool is_cut(const Case& drawn, bool has_struck, Rank a, Rank b) {
  if (!has_struck) return false;
  const auto cut = std::ranges::find(drawn.faults, FaultKind::cut, &CaseFault::kind);
  return cut != drawn.faults.end() && severs(*cut, a, b);
}

}  // namespace trimtab::verify
