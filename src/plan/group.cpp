// SPDX-License-Identifier: Apache-2.0
#include "plan/group.hpp"

#include "plan/group_search.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>

namespace trimtab {
namespace {

constexpr double rounding = GroupSearch::rounding;
/// Each is at most a search over 16 groups.
constexpr std::size_t max_resplits = 256;
/// Where there is no proof to be had, a gap this small is not worth a search.
constexpr double near_enough = 1e-4;

/// Groups heaviest first and nodes with those that are alike last; both are numbered so in here.
class Packer {
 public:
  Packer(std::span<const double> group_loads, std::span<const double> node_speeds)
      : groups_(group_loads.size()),
        nodes_(node_speeds.size()),
        per_node_(group_loads.size() / node_speeds.size()),
        node_of_(group_loads.size(), 0) {
    sort_groups(group_loads);
    sort_nodes(node_speeds);
    for (std::size_t group : groups_) loads_.push_back(group_loads[group]);
    for (std::size_t node : nodes_) speeds_.push_back(node_speeds[node]);
    bound_ = std::max(slowest_nodes_bound(), pigeonhole_bound());
  }

  GroupPacking run() {
    const bool is_solved = is_easy() || (groups_.size() <= GroupSearch::max_groups ? solve() : improve());
    GroupPacking packing;
    packing.node_of_group.resize(groups_.size());
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      packing.node_of_group[groups_[g]] = NodeId{static_cast<NodeId::rep>(nodes_[node_of_[g]])};
    }
    packing.pressure = pressure();
    packing.is_optimal = is_solved || packing.pressure <= bound_ * (1.0 + rounding);
    packing.bound = packing.is_optimal ? packing.pressure : bound_;
    return packing;
  }

 private:
  void sort_groups(std::span<const double> loads) {
    std::iota(groups_.begin(), groups_.end(), std::size_t{0});
    std::sort(groups_.begin(), groups_.end(), [&](std::size_t a, std::size_t b) {
      return loads[a] != loads[b] ? loads[a] > loads[b] : a < b;
    });
  }

  /// Slowest first, except that the speed most nodes have is last.
  void sort_nodes(std::span<const double> speeds) {
    std::iota(nodes_.begin(), nodes_.end(), std::size_t{0});
    const auto alike = [&](std::size_t n) { return std::count(speeds.begin(), speeds.end(), speeds[n]); };
    const auto most = std::max_element(nodes_.begin(), nodes_.end(),
                                       [&](std::size_t a, std::size_t b) { return alike(a) < alike(b); });
    const double usual = speeds[*most];
    const auto key = [&](std::size_t n) { return std::tuple(speeds[n] == usual, speeds[n], n); };
    std::sort(nodes_.begin(), nodes_.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  }

  [[nodiscard]] bool is_uniform() const { return speeds_.front() == speeds_.back(); }

  /// The m slowest nodes hold no less than as many of the lightest groups as they take; with all of them,
  /// the mean.
  [[nodiscard]] double slowest_nodes_bound() const {
    std::vector<double> slowest = speeds_;
    std::sort(slowest.begin(), slowest.end());
    auto group = loads_.rbegin();
    double load = 0.0;
    double speed = 0.0;
    double least = 0.0;
    for (double s : slowest) {
      load = std::accumulate(group, group + static_cast<std::ptrdiff_t>(per_node_), load);
      group += static_cast<std::ptrdiff_t>(per_node_);
      speed += s;
      least = std::max(least, load / speed);
    }
    return least;
  }

  /// Of the jN + 1 heaviest groups, j + 1 share a node; its others are no lighter than the lightest there
  /// are.
  [[nodiscard]] double pigeonhole_bound() const {
    double least = 0.0;
    for (std::size_t j = 0; j < per_node_; ++j) {
      const auto end = loads_.begin() + static_cast<std::ptrdiff_t>(j * nodes_.size() + 1);
      const double shared = std::accumulate(end - static_cast<std::ptrdiff_t>(j + 1), end, 0.0);
      const double others =
          std::accumulate(loads_.end() - static_cast<std::ptrdiff_t>(per_node_ - j - 1), loads_.end(), 0.0);
      least = std::max(least, shared + others);
    }
    return least / *std::max_element(speeds_.begin(), speeds_.end());
  }

  /// One group per node: heaviest to fastest. Two per node of equal speed: heaviest with lightest. An
  /// exchange never makes either better.
  bool is_easy() {
    if (per_node_ == 1) {
      std::vector<std::size_t> fastest(nodes_.size());
      std::iota(fastest.begin(), fastest.end(), std::size_t{0});
      std::stable_sort(fastest.begin(), fastest.end(),
                       [&](std::size_t a, std::size_t b) { return speeds_[a] > speeds_[b]; });
      node_of_ = std::move(fastest);
      return true;
    }
    if (nodes_.size() == 1) return true;
    if (per_node_ != 2 || !is_uniform()) return false;
    for (std::size_t n = 0; n < nodes_.size(); ++n) node_of_[n] = node_of_[groups_.size() - 1 - n] = n;
    return true;
  }

  /// The true optimum of up to 16 groups. Limits near the bound come first: they leave few subsets, and
  /// where there is a packing below one, the search ends with the best.
  bool solve() {
    pack_heaviest_first();
    swap_groups();
    const double found = pressure();
    if (found <= bound_ * (1.0 + rounding)) return true;
    GroupSearch search(loads_, speeds_);
    const std::size_t first_part = nodes_.size() == 2 ? 1 : 64;
    for (std::size_t part = first_part; part > 0; part /= 4) {
      const double limit = bound_ + (found - bound_) / static_cast<double>(part);
      if (!search.run(std::min(limit, found * (1.0 - rounding)), bound_)) continue;
      adopt(search);
      break;
    }
    return true;
  }

  void adopt(const GroupSearch& search) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (std::size_t n = 0; n < nodes_.size(); ++n) {
        if ((search.groups_of(n) >> g & 1U) != 0) node_of_[g] = n;
      }
    }
  }

  bool improve() {
    pack_heaviest_first();
    swap_groups();
    if (2 * per_node_ <= GroupSearch::max_groups) resplit_pairs();
    return false;
  }

  void pack_heaviest_first() {
    std::vector<std::size_t> room(nodes_.size(), per_node_);
    std::vector<double> load(nodes_.size(), 0.0);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const auto after = [&](std::size_t n) { return (load[n] + loads_[g]) / speeds_[n]; };
      std::size_t best = nodes_.size();
      for (std::size_t n = 0; n < nodes_.size(); ++n) {
        if (room[n] > 0 && (best == nodes_.size() || after(n) < after(best))) best = n;
      }
      node_of_[g] = best;
      load[best] += loads_[g];
      --room[best];
    }
  }

  [[nodiscard]] std::vector<double> node_loads() const {
    std::vector<double> load(nodes_.size(), 0.0);
    for (std::size_t g = 0; g < groups_.size(); ++g) load[node_of_[g]] += loads_[g];
    return load;
  }

  [[nodiscard]] std::size_t fullest(const std::vector<double>& load) const {
    std::size_t best = 0;
    for (std::size_t n = 1; n < nodes_.size(); ++n) {
      if (load[n] / speeds_[n] > load[best] / speeds_[best]) best = n;
    }
    return best;
  }

  [[nodiscard]] double pressure() const {
    const std::vector<double> load = node_loads();
    const std::size_t node = fullest(load);
    return load[node] / speeds_[node];
  }

  /// The best swap of a group of the fullest node with one of another node, at most twice per group.
  void swap_groups() {
    for (std::size_t i = 0; i < 2 * groups_.size() && swap_once(); ++i) {
    }
  }

  bool swap_once() {
    const std::vector<double> load = node_loads();
    const std::size_t full = fullest(load);
    double best = load[full] / speeds_[full] * (1.0 - rounding);
    if (best <= bound_) return false;
    std::pair<std::size_t, std::size_t> swap{0, 0};
    for (std::size_t a = 0; a < groups_.size(); ++a) {
      if (node_of_[a] != full) continue;
      for (std::size_t b = a + 1; b < groups_.size(); ++b) {  // lighter ones only
        const std::size_t other = node_of_[b];
        const double moved = loads_[a] - loads_[b];
        const double after =
            std::max((load[full] - moved) / speeds_[full], (load[other] + moved) / speeds_[other]);
        if (other != full && after < best) std::tie(best, swap) = std::tuple(after, std::pair(a, b));
      }
    }
    if (swap.first == swap.second) return false;
    std::swap(node_of_[swap.first], node_of_[swap.second]);
    return true;
  }

  /// Splits the groups of the fullest node and of another anew, as well as they can be.
  void resplit_pairs() {
    std::size_t resplits = 0;
    for (bool is_better = true; is_better;) {
      const std::vector<double> load = node_loads();
      const std::size_t full = fullest(load);
      is_better = false;
      if (load[full] / speeds_[full] <= bound_ * (1.0 + near_enough)) return;
      for (std::size_t n = nodes_.size(); n-- > 0 && !is_better;) {
        if (n == full || load[n] / speeds_[n] >= load[full] / speeds_[full]) continue;
        if (++resplits > max_resplits) return;
        is_better = resplit(full, n);
      }
    }
  }

  bool resplit(std::size_t a, std::size_t b) {
    std::vector<std::size_t> members;
    std::vector<double> loads;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (node_of_[g] != a && node_of_[g] != b) continue;
      members.push_back(g);
      loads.push_back(loads_[g]);
    }
    const std::array<double, 2> speeds{speeds_[a], speeds_[b]};
    GroupSearch search(loads, speeds);
    const double mean = std::accumulate(loads.begin(), loads.end(), 0.0) / (speeds[0] + speeds[1]);
    if (!search.run(pressure() * (1.0 - rounding), std::max(bound_, mean))) return false;
    for (std::size_t i = 0; i < members.size(); ++i)
      node_of_[members[i]] = (search.groups_of(0) >> i & 1U) != 0 ? a : b;
    return true;
  }

  std::vector<std::size_t> groups_;
  std::vector<std::size_t> nodes_;
  std::vector<double> loads_;
  std::vector<double> speeds_;
  std::size_t per_node_;
  std::vector<std::size_t> node_of_;
  double bound_;
};

}  // namespace

GroupPacking pack_groups(std::span<const double> group_loads, std::span<const double> node_speeds) {
  return Packer(group_loads, node_speeds).run();
}

}  // namespace trimtab
