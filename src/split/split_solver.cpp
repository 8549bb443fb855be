// SPDX-License-Identifier: Apache-2.0
#include <trimtab/split/split_solver.hpp>

#include "split/leveller.hpp"
#include "split/share_network.hpp"
#include "split/tight_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace trimtab {
namespace {

constexpr Rank no_rank{-1};

Status check_row(std::span<const ExpertId> row, std::int32_t num_experts, const Topology& topology) {
  if (num_experts < 1) {
    return failure(Errc::invalid_argument, fmt::format("{} experts: must be at least 1", num_experts));
  }
  if (row.size() != static_cast<std::size_t>(topology.num_slots())) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} slots placed, the topology has {}", row.size(), topology.num_slots()));
  }
  std::vector<bool> is_live(static_cast<std::size_t>(num_experts), false);
  for (SlotId slot : ids<SlotId>(row.size())) {
    const ExpertId expert = row[slot.index()];
    if (expert == no_expert) continue;
    if (expert.value() < 0 || expert.value() >= num_experts) {
      return failure(Errc::invalid_argument, fmt::format("slot {}: expert {} is not in 0..{}", slot.value(),
                                                         expert.value(), num_experts - 1));
    }
    if (topology.is_alive(slot)) is_live[expert.index()] = true;
  }
  const auto missing = std::find(is_live.begin(), is_live.end(), false);
  if (missing == is_live.end()) return {};
  return failure(Errc::infeasible,
                 fmt::format("expert {} has no slot on a live rank", missing - is_live.begin()));
}

/// Sums whole numbers below 2^53 without wrapping round: their upper parts apart.
bool is_total_allowed(std::span<const std::int64_t> loads) {
  std::uint64_t bits = 0;
  std::uint64_t upper = 0;
  std::uint64_t sum = 0;
  for (std::int64_t load : loads) {
    const auto value = static_cast<std::uint64_t>(load);
    bits |= value;
    upper += value >> 21;
    sum += value;
  }
  const auto limit = static_cast<std::uint64_t>(max_split_total);
  return bits <= limit + (limit - 1) && upper <= limit >> 21 && sum <= limit;
}

Status check_loads(std::span<const std::int64_t> loads) {
  if (is_total_allowed(loads)) return {};
  std::int64_t sum = 0;
  for (std::size_t e = 0; e < loads.size(); ++e) {
    if (loads[e] < 0) {
      return failure(Errc::invalid_argument, fmt::format("expert {}: load {} is less than 0", e, loads[e]));
    }
    if (loads[e] > max_split_total - sum) {
      return failure(Errc::invalid_argument, fmt::format("expert {}: with its load {} the sum is above {}", e,
                                                         loads[e], max_split_total));
    }
    sum += loads[e];
  }
  return {};
}

/// Whole numbers in the ratio of `loads` with a sum near 2^52; exact where the loads are whole and smaller.
void scale(std::span<const double> loads, std::vector<std::int64_t>& whole) {
  double sum = 0.0;
  for (double load : loads) sum += load;
  int exponent = 0;
  std::frexp(sum, &exponent);
  const double factor = std::ldexp(1.0, std::min(52 - exponent, 1000));
  const double second =
      std::ldexp(1.0, std::max(0, 52 - exponent - 1000));  // the factor of tiny loads is no double
  for (std::size_t e = 0; e < loads.size(); ++e) {
    whole[e] = static_cast<std::int64_t>(loads[e] * factor * second);
  }
}

}  // namespace

struct SplitSolver::State {
  State(ShareNetwork made, std::int32_t num_experts, std::size_t slots);

  void set_fixed(std::span<const std::int64_t> loads);
  void start_evenly(SharedId shared, std::int64_t load);
  void start_evenly(std::span<const std::int64_t> loads);
  void start_from(std::span<const std::int64_t> start, std::span<const std::int64_t> loads);
  void place(EdgeId edge, std::int64_t amount);
  void write(std::span<const std::int64_t> loads, std::span<std::int64_t> assignments) const;
  [[nodiscard]] bool is_confined(ExpertId expert) const;
  template <class Load>
  double find_tight(std::span<const Load> loads);
  SplitResult finish(std::span<const std::int64_t> loads, std::span<std::int64_t> assignments,
                     SplitDepth depth);
  [[nodiscard]] Status check(std::span<const std::int64_t> loads, std::span<std::int64_t> assignments) const;
  [[nodiscard]] Status check_start(std::span<const std::int64_t> start) const;

  ShareNetwork network;
  std::size_t num_slots;
  Leveller leveller;
  TightSearch tight_search;
  std::vector<std::int64_t> fixed_loads;  ///< By Rank: load of experts that are on no other.
  ShareFlow<std::int64_t> flow;
  std::vector<std::int64_t> whole;     ///< Scaled loads of `optimum`.
  std::vector<std::uint8_t> is_tight;  ///< By Rank.
  std::span<const Rank> tight_ranks;
  std::vector<ExpertId> tight_experts;
};

SplitSolver::State::State(ShareNetwork made, std::int32_t num_experts, std::size_t slots)
    : network(std::move(made)),
      num_slots(slots),
      leveller(network),
      tight_search(network),
      whole(static_cast<std::size_t>(num_experts), 0),
      is_tight(network.num_ranks(), 0) {
  fixed_loads.assign(network.num_ranks(), 0);
  flow.resize(network);
  tight_experts.reserve(whole.size());
}

Status SplitSolver::State::check(std::span<const std::int64_t> loads,
                                 std::span<std::int64_t> assignments) const {
  if (loads.size() != whole.size()) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} loads for {} experts", loads.size(), whole.size()));
  }
  if (assignments.size() != num_slots) {
    return failure(Errc::invalid_argument,
                   fmt::format("room for {} assignments, {} slots", assignments.size(), num_slots));
  }
  return check_loads(loads);
}

Status SplitSolver::State::check_start(std::span<const std::int64_t> start) const {
  if (start.size() != num_slots) {
    return failure(Errc::invalid_argument,
                   fmt::format("a start of {} numbers, {} slots", start.size(), num_slots));
  }
  const auto negative =
      std::find_if(start.begin(), start.end(), [](std::int64_t share) { return share < 0; });
  if (negative == start.end()) return {};
  return failure(Errc::invalid_argument,
                 fmt::format("start, slot {}: {} is less than 0", negative - start.begin(), *negative));
}

void SplitSolver::State::set_fixed(std::span<const std::int64_t> loads) {
  for (Rank rank : ids<Rank>(network.num_ranks())) {
    std::int64_t sum = 0;
    for (ExpertId expert : network.fixed_experts.of(rank)) sum += loads[expert.index()];
    fixed_loads[rank.index()] = sum;
    flow.load[rank.index()] = sum;
  }
}

void SplitSolver::State::place(EdgeId edge, std::int64_t amount) {
  flow.on_edge[edge.index()] = amount;
  flow.load[network.rank_of[edge.index()].index()] += amount;
}

void SplitSolver::State::start_evenly(SharedId shared, std::int64_t load) {
  auto ranks = static_cast<std::int64_t>(network.edges_of(shared).size());
  for (EdgeId edge : network.edges_of(shared)) {
    const std::int64_t amount = load / ranks--;
    place(edge, amount);
    load -= amount;
  }
}

void SplitSolver::State::start_evenly(std::span<const std::int64_t> loads) {
  for (SharedId shared : ids<SharedId>(network.shared.size())) {
    start_evenly(shared, loads[network.shared[shared.index()].index()]);
  }
}

void SplitSolver::State::start_from(std::span<const std::int64_t> start,
                                    std::span<const std::int64_t> loads) {
  const auto weight = [&](EdgeId edge) {
    return static_cast<double>(start[network.edge_slots[edge.index()].index()]) *
           network.num_slots[edge.index()];
  };
  for (SharedId shared : ids<SharedId>(network.shared.size())) {
    const auto edges = network.edges_of(shared);
    std::int64_t left = loads[network.shared[shared.index()].index()];
    double sum = 0.0;
    for (EdgeId edge : edges) sum += weight(edge);
    if (sum <= 0.0) {
      start_evenly(shared, left);
      continue;
    }
    const double factor = static_cast<double>(left) / sum;
    EdgeId last = edges.first();
    for (EdgeId edge : edges) {
      const std::int64_t amount = std::min(left, static_cast<std::int64_t>(weight(edge) * factor));
      place(edge, amount);
      left -= amount;
      if (amount > 0) last = edge;
    }
    flow.on_edge[last.index()] += left;
    flow.load[network.rank_of[last.index()].index()] += left;
  }
}

/// No rank beyond `tight_ranks` can take its load.
bool SplitSolver::State::is_confined(ExpertId expert) const {
  const Rank fixed = network.fixed_rank[expert.index()];
  if (fixed != no_rank) return is_tight[fixed.index()] != 0;
  for (EdgeId edge : network.edges_of(network.shared_id[expert.index()])) {
    if (is_tight[network.rank_of[edge.index()].index()] == 0) return false;
  }
  return true;
}

/// Fills the tight sets, and returns the load of the experts over the speed of the ranks.
template <class Load>
double SplitSolver::State::find_tight(std::span<const Load> loads) {
  tight_ranks = tight_search.find(leveller.regions(), fixed_loads, flow);
  double speed = 0.0;
  std::fill(is_tight.begin(), is_tight.end(), std::uint8_t{0});
  for (Rank rank : tight_ranks) {
    is_tight[rank.index()] = 1;
    speed += network.speeds[rank.index()];
  }
  tight_experts.clear();
  const bool is_all = tight_ranks.size() == network.order.size();
  Load sum = 0;
  for (ExpertId expert : ids<ExpertId>(loads.size())) {
    if (loads[expert.index()] == 0 || !(is_all || is_confined(expert))) continue;
    tight_experts.push_back(expert);
    sum += loads[expert.index()];
  }
  return static_cast<double>(sum) / speed;
}

void SplitSolver::State::write(std::span<const std::int64_t> loads,
                               std::span<std::int64_t> assignments) const {
  for (SlotId slot : network.silent_slots) assignments[slot.index()] = 0;
  const auto& fixed = network.fixed_experts.items;
  for (std::size_t i = 0; i < fixed.size(); ++i) {
    assignments[network.fixed_slots[i].index()] = loads[fixed[i].index()];
  }
  for (std::size_t i = 0; i < network.num_edges(); ++i) {
    assignments[network.edge_slots[i].index()] = flow.on_edge[i];
  }
  for (const auto& stack : network.stacks) {
    divide_evenly(assignments[stack.front().index()], stack, assignments);
  }
}

SplitResult SplitSolver::State::finish(std::span<const std::int64_t> loads,
                                       std::span<std::int64_t> assignments, SplitDepth depth) {
  leveller.level(flow, fixed_loads, depth);
  SplitResult result;
  result.optimum = find_tight(loads);
  result.tight_ranks = tight_ranks;
  result.tight_experts = tight_experts;
  for (Rank rank : ids<Rank>(network.num_ranks())) {
    const std::int64_t load = flow.load[rank.index()];
    result.max_load = std::max(result.max_load, load);
    result.max_pressure =
        std::max(result.max_pressure, static_cast<double>(load) / network.speeds[rank.index()]);
  }
  write(loads, assignments);
  return result;
}

SplitSolver::SplitSolver(std::unique_ptr<State> state) : state_(std::move(state)) {}
SplitSolver::SplitSolver(SplitSolver&&) noexcept = default;
SplitSolver& SplitSolver::operator=(SplitSolver&&) noexcept = default;
SplitSolver::~SplitSolver() = default;

Result<SplitSolver> SplitSolver::make(std::span<const ExpertId> row, std::int32_t num_experts,
                                      const Topology& topology) {
  if (Status checked = check_row(row, num_experts, topology); !checked) return failure(std::move(checked));
  return SplitSolver(
      std::make_unique<State>(make_share_network(row, num_experts, topology), num_experts, row.size()));
}

Result<SplitResult> SplitSolver::solve(std::span<const std::int64_t> loads,
                                       std::span<std::int64_t> assignments, SplitDepth depth) {
  if (Status checked = state_->check(loads, assignments); !checked) return failure(std::move(checked));
  state_->set_fixed(loads);
  state_->start_evenly(loads);
  return state_->finish(loads, assignments, depth);
}

Result<SplitResult> SplitSolver::solve_from(std::span<const std::int64_t> start,
                                            std::span<const std::int64_t> loads,
                                            std::span<std::int64_t> assignments, SplitDepth depth) {
  if (Status checked = state_->check(loads, assignments); !checked) return failure(std::move(checked));
  if (Status checked = state_->check_start(start); !checked) return failure(std::move(checked));
  state_->set_fixed(loads);
  state_->start_from(start, loads);
  return state_->finish(loads, assignments, depth);
}

double SplitSolver::optimum(std::span<const double> loads) {
  scale(loads, state_->whole);
  state_->set_fixed(state_->whole);
  state_->start_evenly(state_->whole);
  state_->leveller.level(state_->flow, state_->fixed_loads, SplitDepth::fullest);
  return state_->find_tight(loads);
}

}  // namespace trimtab
