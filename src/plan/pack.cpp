// SPDX-License-Identifier: Apache-2.0
#include "plan/pack.hpp"

#include "plan/repair.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

namespace trimtab {
namespace {

/// The rank of least pressure among those on offer, the lower one of equals: a tournament of ranks, so that a
/// change costs one comparison a level. An entry is one number, the bits of the pressure (which order as
/// pressures do, as these are not negative) with the rank in the lowest ones: no branch depends on who wins,
/// and pressures closer than 2^-30 of themselves count as equal for a million ranks.
class LightestRank {
 public:
  explicit LightestRank(std::size_t num_ranks)
      : num_leaves_(std::bit_ceil(std::max<std::size_t>(num_ranks, 2))), nodes_(2 * num_leaves_, nobody) {}

  /// No rank is on offer.
  [[nodiscard]] bool empty() const noexcept { return nodes_[1] == nobody; }
  [[nodiscard]] std::size_t get() const noexcept { return nodes_[1] & (num_leaves_ - 1); }

  void offer(std::size_t rank, double pressure) noexcept {
    const auto bits = std::bit_cast<std::uint64_t>(std::max(pressure, 0.0));
    replace(rank, (bits & ~std::uint64_t{num_leaves_ - 1}) | rank);
  }
  void withdraw(std::size_t rank) noexcept { replace(rank, nobody); }

 private:
  static constexpr std::uint64_t nobody = std::numeric_limits<std::uint64_t>::max();

  void replace(std::size_t rank, std::uint64_t entry) noexcept {
    std::size_t node = num_leaves_ + rank;
    for (nodes_[node] = entry; node > 1; nodes_[node] = entry) {
      entry = std::min(entry, nodes_[node ^ 1]);
      node /= 2;
    }
  }

  std::size_t num_leaves_;
  std::vector<std::uint64_t> nodes_;  ///< The root is 1; the winner of 2n and 2n + 1 is at n.
};

struct Weighed {
  double share;
  ExpertId expert;
};

std::vector<Weighed> heaviest_first(const RankContents& contents, const Region& region) {
  std::vector<Weighed> order;
  order.reserve(region.experts.size());
  for (ExpertId expert : region.experts) order.push_back({contents.share(expert), expert});
  std::sort(order.begin(), order.end(), [](const Weighed& a, const Weighed& b) {
    return a.share != b.share ? a.share > b.share : a.expert < b.expert;
  });
  return order;
}

class HeaviestFirst {
 public:
  HeaviestFirst(RankContents& contents, const Region& region)
      : contents_(contents), region_(region), lightest_(region.ranks.size()) {
    for (std::size_t i = 0; i < region.ranks.size(); ++i) offer(i);
  }

  /// A rank that got a copy is not on offer for the next one.
  void place(ExpertId expert, std::int32_t copies) {
    taken_.clear();
    double least_taken = std::numeric_limits<double>::infinity();
    for (std::int32_t placed = 0; placed < copies; ++placed) {
      if (lightest_.empty()) {
        make_room_by_chain(contents_, region_, expert);
        was_held_back_ = true;
        continue;
      }
      taken_.push_back(lightest_.get());
      const Rank rank = region_.ranks[taken_.back()];
      was_held_back_ = was_held_back_ || least_taken < contents_.pressure(rank);
      contents_.add(rank, expert);
      if (contents_.has_room(rank)) least_taken = std::min(least_taken, contents_.pressure(rank));
      if (copies > 1) lightest_.withdraw(taken_.back());
    }
    for (std::size_t i : taken_) offer(i);
  }

  [[nodiscard]] bool was_held_back() const noexcept { return was_held_back_; }

 private:
  void offer(std::size_t i) {
    const Rank rank = region_.ranks[i];
    if (contents_.has_room(rank)) {
      lightest_.offer(i, contents_.pressure(rank));
    } else {
      lightest_.withdraw(i);
    }
  }

  RankContents& contents_;
  const Region& region_;
  LightestRank lightest_;
  std::vector<std::size_t> taken_;
  bool was_held_back_ = false;
};

}  // namespace

bool pack_heaviest_first(RankContents& contents, const Region& region, std::span<const std::int32_t> counts) {
  HeaviestFirst packer(contents, region);
  for (const Weighed& next : heaviest_first(contents, region)) {
    packer.place(next.expert, counts[next.expert.index()]);
  }
  return packer.was_held_back();
}

}  // namespace trimtab
