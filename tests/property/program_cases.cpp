// SPDX-License-Identifier: Apache-2.0
#include "program_cases.hpp"

#include "migrate/staging.hpp"

#include <fmt/format.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace trimtab::test {
namespace {

/// In first..last. At full size from the first case on: the small ones say little here, and shrinking stays.
std::int32_t draw_within(std::int32_t first, std::int32_t last) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(first, last + 1));
}

Topology draw_topology(const ProgramCaseLimits& limits) {
  const auto num_ranks = draw_within(1, limits.ranks);
  const auto num_nodes = draw_within(1, std::min(3, num_ranks));
  const bool interleaved = *rc::gen::arbitrary<bool>();
  std::vector<RankInfo> ranks;
  for (std::int32_t r = 0; r < num_ranks; ++r) {
    const std::int32_t node = interleaved ? r % num_nodes : r * num_nodes / num_ranks;
    const bool is_alive = r == 0 || !limits.may_have_dead_ranks || draw_within(0, 5) != 0;
    const auto num_slots = draw_within(r == 0 ? 1 : 0, limits.slots_per_rank);
    ranks.push_back({NodeId{node}, num_slots, 1.0, is_alive});
  }
  return Topology::make(std::move(ranks)).value();
}

struct RowShape {
  std::int32_t vacant_one_in = 0;
  bool is_packed = false;  ///< The needed copies on the first live slots, so that whole nodes lack them.
};

RowShape draw_shape() { return {draw_within(0, 4), draw_within(0, 2) == 0}; }

/// Every expert on a live slot; the other live slots hold any expert or, one in `shape.vacant_one_in`, none.
std::vector<ExpertId> draw_row(const Topology& topology, std::int32_t num_experts, const RowShape& shape,
                               std::mt19937_64& random) {
  std::vector<SlotId> live;
  for (SlotId slot : ids<SlotId>(topology.num_slots())) {
    if (topology.is_alive(slot)) live.push_back(slot);
  }
  for (std::size_t i = shape.is_packed ? 0 : live.size(); i > 1; --i)
    std::swap(live[i - 1], live[random() % i]);
  std::vector<ExpertId> row(static_cast<std::size_t>(topology.num_slots()), no_expert);
  for (std::size_t i = 0; i < live.size(); ++i) {
    const bool is_first = i < static_cast<std::size_t>(num_experts);
    const auto any = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(num_experts));
    const bool is_vacant = !is_first && shape.vacant_one_in != 0 &&
                           random() % static_cast<std::uint64_t>(shape.vacant_one_in) == 0;
    row[live[i].index()] = is_first    ? ExpertId{static_cast<std::int32_t>(i)}
                           : is_vacant ? no_expert
                                       : ExpertId{any};
  }
  return row;
}

/// Exchanges a few slots of `row`.
std::vector<ExpertId> disturb(std::vector<ExpertId> row, const Topology& topology, std::mt19937_64& random) {
  for (int i = 0; i < 4; ++i) {
    const SlotId a{static_cast<std::int32_t>(random() % row.size())};
    const SlotId b{static_cast<std::int32_t>(random() % row.size())};
    if (topology.is_alive(a) && topology.is_alive(b)) std::swap(row[a.index()], row[b.index()]);
  }
  return row;
}

/// Slots of dead ranks keep in `to` what they hold in `from`, or give it up.
void fill_dead(std::vector<ExpertId>& from, std::vector<ExpertId>& to, std::int32_t num_experts,
               const Topology& topology, std::mt19937_64& random) {
  for (SlotId slot : ids<SlotId>(topology.num_slots())) {
    if (topology.is_alive(slot)) continue;
    from[slot.index()] =
        ExpertId{static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(num_experts))};
    to[slot.index()] = random() % 2 == 0 ? no_expert : from[slot.index()];
  }
}

std::size_t draw_budget(const std::vector<std::size_t>& bundle_bytes) {
  const std::size_t one = staged_bytes(std::ranges::max(bundle_bytes));
  return one * static_cast<std::size_t>(draw_within(1, 4)) + static_cast<std::size_t>(draw_within(0, 63));
}

std::optional<std::size_t> draw_stall() {
  if (*rc::gen::arbitrary<bool>()) return std::nullopt;
  return static_cast<std::size_t>(draw_within(0, 1499));
}

}  // namespace

ProgramCase draw_program_case(const ProgramCaseLimits& limits) {
  Topology topology = draw_topology(limits);
  const auto num_layers = draw_within(1, limits.layers);
  const auto num_experts = std::max(1, draw_within(1, topology.num_live_slots()) / draw_within(1, 3));
  const auto seed = static_cast<std::uint64_t>(draw_within(0, 1 << 30));
  std::mt19937_64 random(seed);
  std::vector<ExpertId> from;
  std::vector<ExpertId> to;
  std::vector<std::size_t> bundle_bytes;
  for (std::int32_t layer = 0; layer < num_layers; ++layer) {
    std::vector<ExpertId> before = draw_row(topology, num_experts, draw_shape(), random);
    std::vector<ExpertId> after = draw_within(0, 2) == 0
                                      ? disturb(before, topology, random)
                                      : draw_row(topology, num_experts, draw_shape(), random);
    fill_dead(before, after, num_experts, topology, random);
    from.insert(from.end(), before.begin(), before.end());
    to.insert(to.end(), after.begin(), after.end());
    bundle_bytes.push_back(static_cast<std::size_t>(draw_within(1, 299)));
  }
  const std::int32_t width = topology.num_slots();
  const std::size_t budget = draw_budget(bundle_bytes);
  return {std::move(topology),
          Placement::make(num_layers, width, num_experts, std::move(from)).value(),
          Placement::make(num_layers, width, num_experts, std::move(to)).value(),
          std::move(bundle_bytes),
          budget,
          draw_stall()};
}

namespace {

/// Walks through a program step by step and says what is wrong first.
class ProgramCheck {
 public:
  ProgramCheck(const ProgramCase& drawn, const Program& program)
      : drawn_(drawn), program_(program), now_(drawn.from) {}

  std::string run() {
    for (const Step& step : program_.steps) check_step(step);
    expect(now_ == drawn_.to, "the last step does not end in the new placement");
    expect(program_.staging_bytes == max_staging_, "staging_bytes is not the largest need");
    expect(program_.stall_bytes == max_stall_, "stall_bytes is not the largest exchange");
    check_cost();
    return fault_;
  }

 private:
  using Place = std::pair<LayerId, SlotId>;

  template <class... Args>
  void expect(bool is_right, fmt::format_string<Args...> text, Args&&... args) {
    if (!is_right && fault_.empty()) fault_ = fmt::format(text, std::forward<Args>(args)...);
  }

  [[nodiscard]] Rank rank_of(SlotId slot) const { return drawn_.topology.rank_of(slot); }
  [[nodiscard]] NodeId node_of(SlotId slot) const { return drawn_.topology.node_of(rank_of(slot)); }
  [[nodiscard]] std::size_t bytes_of(const Move& move) const {
    return drawn_.bundle_bytes[move.layer.index()];
  }

  void check_step(const Step& step) {
    expect(!step.moves.empty() || !step.vacations.empty(), "a step is empty");
    std::map<Place, Move> by_destination;
    for (const Move& move : step.moves) {
      const bool is_new = by_destination.emplace(Place{move.layer, move.destination}, move).second;
      expect(is_new, "layer {}: slot {} is written twice in a step", move.layer.value(),
             move.destination.value());
    }
    expect(std::ranges::is_sorted(step.moves, {},
                                  [](const Move& m) { return std::pair(m.layer, m.destination); }),
           "moves are not in order");
    for (const Move& move : step.moves) {
      check_move(move);
      check_source(move, by_destination);
    }
    for (const Vacation& vacation : step.vacations) {
      expect(!by_destination.contains({vacation.layer, vacation.slot}), "a slot is written and vacated");
      expect(now_.expert_at(vacation.layer, vacation.slot) != no_expert, "a vacant slot is vacated");
    }
    check_budgets(step);
    check_rounds(step);
    now_ = apply(now_, step);
    expect(check_live(now_, drawn_.topology).has_value(), "an expert has no live slot between two steps");
  }

  void check_move(const Move& move) {
    expect(drawn_.topology.is_alive(move.destination), "slot {} of a dead rank is written",
           move.destination.value());
    expect(drawn_.topology.is_alive(move.source), "slot {} of a dead rank is read", move.source.value());
    expect(now_.expert_at(move.layer, move.destination) != move.expert,
           "layer {}: slot {} gets what it holds", move.layer.value(), move.destination.value());
    expect(drawn_.from.expert_at(move.layer, move.destination) !=
               drawn_.to.expert_at(move.layer, move.destination),
           "layer {}: slot {} does not change but is written", move.layer.value(), move.destination.value());
    expect(is_remote(move.kind) == (rank_of(move.source) != rank_of(move.destination)),
           "a kind does not fit the ranks");
  }

  void check_source(const Move& move, const std::map<Place, Move>& by_destination) {
    const bool is_staged = move.kind == MoveKind::reuse || move.kind == MoveKind::relay;
    if (!is_staged) {
      expect(now_.expert_at(move.layer, move.source) == move.expert,
             "layer {}: slot {} does not hold expert {} before the step", move.layer.value(),
             move.source.value(), move.expert.value());
    }
    if (!is_staged && move.kind != MoveKind::displaced) return;
    const auto origin = by_destination.find({move.layer, move.source});
    expect(origin != by_destination.end(), "nothing arrives at source slot {} in this step",
           move.source.value());
    if (origin == by_destination.end()) return;
    const Move& other = origin->second;
    if (move.kind == MoveKind::displaced) {
      expect(other.kind == MoveKind::local_copy && other.source == move.destination,
             "an exchange is not one");
      return;
    }
    expect(other.expert == move.expert, "what arrives at slot {} is another expert", move.source.value());
    if (move.kind == MoveKind::reuse)
      expect(is_remote(other.kind), "what is reused did not come from another rank");
    if (move.kind == MoveKind::relay) {
      expect(other.kind == MoveKind::transfer && node_of(other.source) != node_of(move.source),
             "what is relayed did not come from another node");
      expect(node_of(move.source) == node_of(move.destination), "a relay leaves its node");
      expect(move.round > other.round, "a relay is not in a later round than what it passes on");
    }
  }

  void check_budgets(const Step& step) {
    struct Use {
      std::size_t staging = 0;
      std::size_t stall = 0;
      std::size_t writes = 0;
      std::size_t exchanges = 0;
    };
    std::map<Rank, Use> uses;
    for (const Move& move : step.moves) {
      Use& use = uses[rank_of(move.destination)];
      if (move.kind != MoveKind::displaced) use.staging += staged_bytes(bytes_of(move));
      use.stall += bytes_of(move);
      ++use.writes;
      if (move.kind == MoveKind::displaced) ++use.exchanges;
    }
    for (const auto& [rank, use] : uses) {
      expect(use.staging <= drawn_.staging_budget_bytes, "rank {} needs {} bytes of staging > {}",
             rank.value(), use.staging, drawn_.staging_budget_bytes);
      const bool is_atom = use.writes == 1 || (use.writes == 2 && use.exchanges == 1);
      expect(is_atom || use.stall <= drawn_.stall_budget_bytes.value_or(use.stall),
             "rank {} exchanges {} bytes > {}", rank.value(), use.stall,
             drawn_.stall_budget_bytes.value_or(0));
      max_staging_ = std::max(max_staging_, use.staging);
      max_stall_ = std::max(max_stall_, use.stall);
    }
  }

  void check_rounds(const Step& step) {
    std::set<std::pair<std::int32_t, Rank>> senders;
    std::set<std::pair<std::int32_t, Rank>> receivers;
    std::map<std::tuple<MoveKind, bool, Rank>, std::int32_t> degrees;
    std::map<MoveKind, std::int32_t> most;
    for (const Move& move : step.moves) {
      if (!is_remote(move.kind)) continue;
      const Rank sender = rank_of(move.source);
      const Rank receiver = rank_of(move.destination);
      expect(senders.emplace(move.round, sender).second, "rank {} sends twice in a round", sender.value());
      expect(receivers.emplace(move.round, receiver).second, "rank {} receives twice in a round",
             receiver.value());
      expect(move.round >= 0 && move.round < step.num_rounds, "round {} is not in 0..{}", move.round,
             step.num_rounds - 1);
      for (const auto& [sends, rank] : {std::pair(true, sender), std::pair(false, receiver)})
        most[move.kind] = std::max(most[move.kind], ++degrees[{move.kind, sends, rank}]);
    }
    expect(step.num_rounds == most[MoveKind::transfer] + most[MoveKind::relay],
           "{} rounds where {} and {} are enough", step.num_rounds, most[MoveKind::transfer],
           most[MoveKind::relay]);
  }

  /// Who holds which expert, by (layer, expert, group).
  using Groups = std::set<std::tuple<LayerId, ExpertId, std::int32_t>>;

  [[nodiscard]] Groups groups_of(const Placement& placement, bool by_node) const {
    Groups groups;
    for (LayerId layer : ids<LayerId>(placement.num_layers())) {
      for (SlotId slot : ids<SlotId>(placement.num_slots())) {
        const ExpertId expert = placement.expert_at(layer, slot);
        if (expert == no_expert || !drawn_.topology.is_alive(slot)) continue;
        groups.emplace(layer, expert, by_node ? node_of(slot).value() : rank_of(slot).value());
      }
    }
    return groups;
  }

  [[nodiscard]] std::uint64_t bytes_of_new(bool by_node) const {
    const Groups before = groups_of(drawn_.from, by_node);
    std::uint64_t bytes = 0;
    for (const auto& group : groups_of(drawn_.to, by_node)) {
      if (!before.contains(group)) bytes += drawn_.bundle_bytes[std::get<LayerId>(group).index()];
    }
    return bytes;
  }

  void check_cost() {
    std::uint64_t moved = 0;
    std::uint64_t across = 0;
    std::uint64_t written = 0;
    for (const Step& step : program_.steps) {
      for (const Move& move : step.moves) {
        written += bytes_of(move);
        if (!is_remote(move.kind)) continue;
        moved += bytes_of(move);
        if (node_of(move.source) != node_of(move.destination)) across += bytes_of(move);
      }
    }
    const ProgramCost& cost = program_.cost;
    expect(cost.bytes_moved == moved && cost.bytes_copied == written - moved,
           "bytes are not those of the moves");
    expect(cost.bytes_across_nodes == across, "bytes across nodes are not those of the moves");
    expect(cost.bytes_moved_bound == bytes_of_new(false), "the bound is not {}", bytes_of_new(false));
    expect(cost.bytes_across_nodes_bound == bytes_of_new(true), "the bound of nodes is not {}",
           bytes_of_new(true));
    expect(moved == cost.bytes_moved_bound, "{} bytes moved, bound {}", moved, cost.bytes_moved_bound);
    expect(across == cost.bytes_across_nodes_bound, "{} bytes across nodes, bound {}", across,
           cost.bytes_across_nodes_bound);
    check_extra(written);
  }

  void check_extra(std::uint64_t written) {
    std::uint64_t needed = 0;
    for (LayerId layer : ids<LayerId>(drawn_.to.num_layers())) {
      for (SlotId slot : ids<SlotId>(drawn_.to.num_slots())) {
        const ExpertId goal = drawn_.to.expert_at(layer, slot);
        if (goal != no_expert && goal != drawn_.from.expert_at(layer, slot))
          needed += drawn_.bundle_bytes[layer.index()];
      }
    }
    expect(program_.cost.bytes_extra == written - needed, "extra bytes are not {}", written - needed);
    expect(program_.cost.exchanges_forced > 0 || program_.cost.bytes_extra == 0,
           "extra bytes without an exchange");
  }

  const ProgramCase& drawn_;
  const Program& program_;
  Placement now_;
  std::size_t max_staging_ = 0;
  std::size_t max_stall_ = 0;
  std::string fault_;
};

}  // namespace

std::string find_fault(const ProgramCase& drawn, const Program& program) {
  return ProgramCheck(drawn, program).run();
}

std::size_t max_fills(const ProgramCase& drawn, LayerId layer) {
  std::size_t most = 0;
  std::map<Rank, std::size_t> fills;
  for (SlotId slot : ids<SlotId>(drawn.to.num_slots())) {
    const ExpertId goal = drawn.to.expert_at(layer, slot);
    if (goal == no_expert || goal == drawn.from.expert_at(layer, slot)) continue;
    most = std::max(most, ++fills[drawn.topology.rank_of(slot)]);
  }
  return most;
}

}  // namespace trimtab::test
