// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>

namespace trimtab {

/// Finds the best split of a few groups into equally large parts, one for each node, by depth-first search:
/// node after node takes a subset of what is left.
///
/// What keeps it small:
/// - under a limit T on load / speed, a node's subset must be below T, and above what the nodes after it can
///   no longer take; the window moves with the loads, so groups that are nearly equal cost no more than
///   others;
/// - what was found to have no split below T is not looked at again when it is left over by another way;
/// - where the nodes left are alike, the next one takes the heaviest group left; of equal groups, the first.
class GroupSearch {
 public:
  static constexpr std::size_t max_groups = 16;
  /// Sums of the same loads in another order differ by less than this share; no search goes on for that.
  static constexpr double rounding = 1e-12;

  /// @param loads  heaviest first, at most 16. Borrowed, like `speeds`.
  /// @param speeds  best with nodes that are alike last; they divide the groups
  GroupSearch(std::span<const double> loads, std::span<const double> speeds);

  /// Looks for splits whose pressure (largest load / speed) is below `limit`, each better than the last,
  /// until there is none or one is within rounding of `bound`, which none is below.
  /// @return true when one was found
  bool run(double limit, double bound);

  /// Of the best split found.
  [[nodiscard]] double pressure() const noexcept { return best_pressure_; }
  /// Groups of the n-th node, in ascending order of their place in `loads`: bit g for group g.
  [[nodiscard]] std::uint32_t groups_of(std::size_t node) const noexcept { return best_[node]; }

 private:
  /// What a node may choose from.
  struct Left {
    std::array<std::uint8_t, max_groups> group;
    std::array<double, max_groups + 1> sum_before;  ///< Load of the groups before each.
    std::size_t size = 0;
    std::uint32_t mask = 0;
    double pressure = 0.0;  ///< Of the nodes that have chosen.
  };
  /// What the node has chosen so far.
  struct Choice {
    std::size_t next;  ///< From here on in Left.
    std::size_t need;
    double load;
    std::uint32_t mask;
  };

  void descend(std::size_t node, std::uint32_t mask, double pressure);
  void choose(std::size_t node, const Left& left, const Choice& choice);
  void take(std::size_t node, const Left& left, const Choice& choice);
  void keep(double pressure);

  [[nodiscard]] Left list(std::uint32_t mask, double pressure) const;
  [[nodiscard]] double highest(std::size_t node) const { return limit_ * speeds_[node]; }
  [[nodiscard]] double lowest(std::size_t node, const Left& left) const {
    return left.sum_before[left.size] * (1.0 - rounding) - limit_ * speed_after_[node];
  }
  [[nodiscard]] bool is_over(const Left& left) const { return left.pressure >= limit_ || is_done_; }

  std::span<const double> loads_;
  std::span<const double> speeds_;
  std::size_t per_node_;
  std::array<double, max_groups> speed_after_;  ///< Of the nodes after each.
  std::array<bool, max_groups> are_alike_;      ///< Each node and those after it.
  std::array<std::uint32_t, max_groups> parts_;
  std::array<std::uint32_t, max_groups> best_;
  double best_pressure_ = 0.0;
  double limit_ = 0.0;
  double good_enough_ = 0.0;
  bool is_done_ = false;
  std::bitset<std::size_t{1} << max_groups> has_no_split_;  ///< Below the limit, by what is left.
};

}  // namespace trimtab
