// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// A set of ranks as it travels: fixed size, no pointers.
class RankSet {
 public:
  static constexpr std::int32_t max_ranks = 1024;

  RankSet() = default;
  explicit RankSet(std::span<const Rank> ranks) noexcept {
    for (Rank rank : ranks) insert(rank);
  }

  void insert(Rank rank) noexcept { words_[rank.index() / 64] |= bit(rank); }
  void erase(Rank rank) noexcept { words_[rank.index() / 64] &= ~bit(rank); }
  [[nodiscard]] bool contains(Rank rank) const noexcept {
    return rank.value() >= 0 && rank.value() < max_ranks && (words_[rank.index() / 64] & bit(rank)) != 0;
  }
  [[nodiscard]] std::size_t size() const noexcept {
    std::size_t sum = 0;
    for (std::uint64_t word : words_) sum += static_cast<std::size_t>(std::popcount(word));
    return sum;
  }
  [[nodiscard]] bool is_empty() const noexcept { return *this == RankSet{}; }
  /// Ascending.
  [[nodiscard]] std::vector<Rank> ranks() const {
    std::vector<Rank> ranks;
    for (Rank rank : ids<Rank>(max_ranks)) {
      if (contains(rank)) ranks.push_back(rank);
    }
    return ranks;
  }

  friend bool operator==(const RankSet&, const RankSet&) = default;

 private:
  [[nodiscard]] static std::uint64_t bit(Rank rank) noexcept {
    return std::uint64_t{1} << (rank.index() % 64);
  }

  std::array<std::uint64_t, max_ranks / 64> words_{};
};

}  // namespace trimtab
