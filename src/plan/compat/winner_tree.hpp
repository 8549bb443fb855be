// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trimtab {

/// A number that is not negative, and who it belongs to; ordered by both. For such numbers the order of the
/// bits is that of the values, so the order is total and costs one or two integer comparisons.
template <class Value>
struct Key;

/// One 64-bit word, so that the smaller of two is chosen without a branch.
template <>
struct Key<float> {
  std::uint64_t bits;

  static Key smallest_first(float value, std::uint32_t owner) noexcept {
    return {std::uint64_t{std::bit_cast<std::uint32_t>(value)} << 32U | owner};
  }
  /// Owners of equal values ascend here too.
  static Key largest_first(float value, std::uint32_t owner) noexcept {
    return {std::uint64_t{~std::bit_cast<std::uint32_t>(value)} << 32U | owner};
  }
  static Key last() noexcept { return {~std::uint64_t{0}}; }

  /// Only of a key made by smallest_first.
  [[nodiscard]] float value() const noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits >> 32U));
  }
  [[nodiscard]] std::uint32_t owner() const noexcept { return static_cast<std::uint32_t>(bits); }

  friend auto operator<=>(Key, Key) noexcept = default;  // NOLINT(modernize-use-nullptr)
};

template <>
struct Key<double> {
  std::uint64_t bits;
  std::uint32_t who;

  static Key smallest_first(double value, std::uint32_t owner) noexcept {
    return {std::bit_cast<std::uint64_t>(value), owner};
  }
  static Key largest_first(double value, std::uint32_t owner) noexcept {
    return {~std::bit_cast<std::uint64_t>(value), owner};
  }
  static Key last() noexcept { return {~std::uint64_t{0}, ~std::uint32_t{0}}; }

  [[nodiscard]] double value() const noexcept { return std::bit_cast<double>(bits); }
  [[nodiscard]] std::uint32_t owner() const noexcept { return who; }

  friend auto operator<=>(Key, Key) noexcept = default;  // NOLINT(modernize-use-nullptr)
};

/// The least of a fixed number of keys, when one at a time changes: a knock-out tournament. A change replays
/// the matches of one player, with one comparison each and no data-dependent branch.
template <class Key>
class WinnerTree {
 public:
  /// Calls `key_of(i)` for i < count; count >= 1.
  template <class KeyOf>
  void assign(std::size_t count, KeyOf key_of) {
    width_ = std::bit_ceil(count);
    nodes_.resize(2 * width_);
    for (std::size_t i = 0; i < width_; ++i) nodes_[width_ + i] = i < count ? key_of(i) : Key::last();
    for (std::size_t i = width_ - 1; i >= 1; --i) nodes_[i] = std::min(nodes_[2 * i], nodes_[2 * i + 1]);
  }

  [[nodiscard]] Key winner() const noexcept { return nodes_[1]; }

  void replace(std::size_t player, Key key) noexcept {
    std::size_t at = width_ + player;
    nodes_[at] = key;
    while (at > 1) {
      key = std::min(key, nodes_[at ^ 1U]);
      at /= 2;
      nodes_[at] = key;
    }
  }

 private:
  std::size_t width_ = 0;
  std::vector<Key> nodes_;  ///< [1] is the winner, [width_ + i] player i.
};

}  // namespace trimtab
