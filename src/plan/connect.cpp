// SPDX-License-Identifier: Apache-2.0
#include "plan/connect.hpp"

#include "plan/region_row.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

namespace trimtab {
namespace {

/// Different ranks or experts of equal loads must not be swapped for ever.
constexpr double least_gain = 1e-12;
/// Swaps that are tried to bring two components together, best first.
constexpr std::size_t tries_per_merge = 6;
/// Swaps of experts without copies that bring the ranks below the limit again after one step.
constexpr std::size_t swaps_to_settle = 6;
/// Ranks that are looked at for such a swap.
constexpr std::size_t max_partners = 32;
/// Searches for such a swap in one phase, those that were undone included.
constexpr std::size_t lowerings_per_rank = 6;

class Connector {
 public:
  explicit Connector(RegionRow& row) : row_(row) {}

  /// Nearly as even as before if that can be, else less even, up to `limit`; then as even as before again
  /// if that can be.
  /// @return components left
  std::size_t run(double limit) {
    const double before = row_.pressure(row_.fullest());
    std::size_t components = row_.size();
    for (const double share : {1.0 / 8.0, 1.0}) {
      limit_ = before + share * (limit - before);
      lowerings_left_ = lowerings_per_rank * row_.size();
      components = merge_all();
      if (components == 1 || limit == before) break;
    }
    if (components == 1) spread_links();
    lowerings_left_ = lowerings_per_rank * row_.size();
    lower_to(before, 2 * row_.size());
    return components;
  }

 private:
  struct Candidate {
    double excess;  ///< Pressure above the limit afterwards.
    std::ptrdiff_t unevenness;
    double pressure;
    Site leaves;
    Site enters;

    friend bool operator<(const Candidate& a, const Candidate& b) {
      const auto key = [](const Candidate& c) {
        return std::tuple(c.excess, c.unevenness, c.pressure, c.leaves.slot, c.enters.slot);
      };
      return key(a) < key(b);
    }
  };

  std::size_t merge_all() {
    Components components = find_components(row_);
    while (components.count > 1 && (merge_one(components) || merge_one(find_components(row_, false)))) {
      components = find_components(row_);
    }
    return components.count;
  }

  /// Ties the smallest component that can be tied to another: the copies inside it that are spare go out, or
  /// spare ones of others come in.
  bool merge_one(const Components& components) {
    std::vector<std::size_t> roots;
    for (std::size_t r = 0; r < row_.size(); ++r) {
      if (components.size[r] > 0) roots.push_back(r);
    }
    std::stable_sort(roots.begin(), roots.end(),
                     [&](auto a, auto b) { return components.size[a] < components.size[b]; });
    return std::any_of(roots.begin(), roots.end(), [&](std::size_t root) { return tie(components, root); });
  }

  bool tie(const Components& components, std::size_t root) {
    std::vector<Candidate> found;
    for (const Site& spare : components.spare) {
      const bool is_inside = components.of[spare.rank] == root;
      for (std::size_t rank = 0; rank < row_.size(); ++rank) {
        if ((components.of[rank] == root) != is_inside) add_candidates(spare, rank, found);
      }
    }
    return try_best(found, [] { return true; });
  }

  /// Swaps of `spare` with each expert of `rank` that is not linked.
  void add_candidates(const Site& spare, std::size_t rank, std::vector<Candidate>& found) const {
    const auto unevenness =
        static_cast<std::ptrdiff_t>(row_.degree(rank)) - static_cast<std::ptrdiff_t>(row_.degree(spare.rank));
    for (SlotId slot : row_.slots(rank)) {
      if (row_.is_linked(slot) || row_.at(slot) == no_expert) continue;
      const double pressure = row_.pressure_after(spare, {rank, slot});
      found.push_back({std::max(0.0, pressure - limit_), unevenness, pressure, spare, {rank, slot}});
      if (found.size() == 2 * tries_per_merge) keep_best(found);
    }
  }

  /// No more are tried, and all of them would be spare copies times slots.
  static void keep_best(std::vector<Candidate>& found) {
    const std::size_t tries = std::min(found.size(), tries_per_merge);
    std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(tries), found.end());
    found.erase(found.begin() + static_cast<std::ptrdiff_t>(tries), found.end());
  }

  template <class IsWanted>
  bool try_best(std::vector<Candidate>& found, IsWanted is_wanted) {
    keep_best(found);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::size_t mark = row_.num_swaps();
      row_.swap(found[i].leaves, found[i].enters);
      if (lower_to(limit_, swaps_to_settle) && is_wanted()) return true;
      row_.undo_to(mark);
    }
    return false;
  }

  /// Swaps experts that are not linked between the fullest rank and others until none is above `target`.
  bool lower_to(double target, std::size_t max_swaps) {
    for (std::size_t i = 0;; ++i) {
      const std::size_t fullest = row_.fullest();
      if (row_.pressure(fullest) <= target) return true;
      if (i == max_swaps || lowerings_left_ == 0) return false;
      --lowerings_left_;
      if (!lower(fullest, target)) return false;
    }
  }

  /// The first swap that reaches `target`, else the best.
  bool lower(std::size_t fullest, double target) {
    Lowering best{row_.pressure(fullest) * (1.0 - least_gain), {fullest, no_slot}, {fullest, no_slot}};
    for (std::size_t other : emptiest()) {
      if (best.pressure <= target) break;
      const double level =
          (row_.load(fullest) + row_.load(other)) / (row_.speed(fullest) + row_.speed(other));
      if (other != fullest && level < best.pressure) look_for_swap(other, best);
    }
    if (best.leaves.slot == no_slot) return false;
    row_.swap(best.leaves, best.enters);
    return true;
  }

  struct Lowering {
    double pressure;
    Site leaves;
    Site enters;
  };

  /// Ranks with most room, emptiest first: they can take what must leave a full one.
  [[nodiscard]] std::span<const std::size_t> emptiest() {
    order_.resize(row_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    const std::size_t num = std::min(order_.size(), max_partners);
    const auto key = [&](std::size_t r) { return std::pair(row_.pressure(r), r); };
    std::partial_sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(num), order_.end(),
                      [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
    return std::span(order_).first(num);
  }

  void look_for_swap(std::size_t other, Lowering& best) const {
    const std::size_t fullest = best.leaves.rank;
    const auto ours = row_.free_shares(fullest);
    const auto theirs = row_.free_shares(other);
    double least = row_.load(fullest) - best.pressure * row_.speed(fullest);
    double most = best.pressure * row_.speed(other) - row_.load(other);
    for (std::size_t i = 0; i < ours.size(); ++i) {
      for (std::size_t j = 0; j < theirs.size(); ++j) {
        const double moved = ours[i] - theirs[j];
        const bool is_better = (moved > least) & (moved < most);  // one branch, hardly ever taken
        if (!is_better) continue;
        best.leaves = {fullest, nth_slot(fullest, i)};
        best.enters = {other, nth_slot(other, j)};
        best.pressure = row_.pressure_after(best.leaves, best.enters);
        least = row_.load(fullest) - best.pressure * row_.speed(fullest);
        most = best.pressure * row_.speed(other) - row_.load(other);
      }
    }
  }

  [[nodiscard]] SlotId nth_slot(std::size_t rank, std::size_t n) const {
    return SlotId{row_.slots(rank).first().value() + static_cast<SlotId::rep>(n)};
  }

  /// Moves linked copies from the rank with most of them to the one with fewest, as long as all stays
  /// connected.
  void spread_links() {
    for (std::size_t i = 0; i < row_.size(); ++i) {
      const auto [fewest, most] = extremes();
      if (row_.degree(most) < row_.degree(fewest) + 2 || !move_link(most, fewest)) return;
    }
  }

  [[nodiscard]] std::pair<std::size_t, std::size_t> extremes() const {
    std::size_t fewest = 0;
    std::size_t most = 0;
    for (std::size_t r = 1; r < row_.size(); ++r) {
      if (row_.degree(r) < row_.degree(fewest)) fewest = r;
      if (row_.degree(r) > row_.degree(most)) most = r;
    }
    return {fewest, most};
  }

  bool move_link(std::size_t from, std::size_t to) {
    std::vector<Candidate> found;
    for (SlotId slot : row_.slots(from)) {
      if (row_.is_linked(slot) && !row_.holds(to, row_.at(slot))) add_candidates({from, slot}, to, found);
    }
    return try_best(found, [&] { return find_components(row_).count == 1; });
  }

  RegionRow& row_;
  double limit_ = 0.0;
  std::size_t lowerings_left_ = 0;
  std::vector<std::size_t> order_;
};

std::vector<double> shares_of(LayerLoads loads, const Topology& topology, std::span<const ExpertId> row) {
  std::vector<double> copies(loads.size(), 0.0);
  for (SlotId slot : ids<SlotId>(row.size())) {
    if (row[slot.index()] != no_expert && topology.is_alive(slot)) copies[row[slot.index()].index()] += 1.0;
  }
  std::vector<double> share(loads.size(), 0.0);
  for (std::size_t e = 0; e < loads.size(); ++e) share[e] = copies[e] > 0.0 ? loads[e] / copies[e] : 0.0;
  return share;
}

std::vector<std::vector<Rank>> regions_of(const Topology& topology, bool within_nodes) {
  if (!within_nodes) return {usable_ranks(topology)};
  std::vector<std::vector<Rank>> regions;
  for (NodeId node : ids<NodeId>(topology.num_nodes())) regions.push_back(usable_ranks(topology, node));
  std::erase_if(regions, [](const auto& ranks) { return ranks.empty(); });
  return regions;
}

}  // namespace

Connection connect_replicas(LayerLoads loads, const Topology& topology, const ConnectOptions& options,
                            std::span<ExpertId> row) {
  const std::vector<double> share = shares_of(loads, topology, row);
  const std::vector<std::vector<Rank>> regions = regions_of(topology, options.within_nodes);
  std::vector<RegionRow> parts;
  parts.reserve(regions.size());
  for (const auto& ranks : regions) parts.emplace_back(share, topology, ranks, row);
  Connection result;
  for (const RegionRow& part : parts) {
    result.components_before += static_cast<std::int32_t>(find_components(part).count);
    result.pressure_before = std::max(result.pressure_before, part.pressure(part.fullest()));
  }
  const double limit = std::max(options.max_pressure, result.pressure_before);
  for (RegionRow& part : parts) {
    result.components += static_cast<std::int32_t>(Connector(part).run(limit));
    result.pressure = std::max(result.pressure, part.pressure(part.fullest()));
    result.swaps += static_cast<std::int32_t>(part.num_swaps());
  }
  return result;
}

}  // namespace trimtab
