// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
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

  friend bool operator<(Key a, Key b) noexcept { return a.bits < b.bits; }
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

  friend bool operator<(Key a, Key b) noexcept { return a.bits != b.bits ? a.bits < b.bits : a.who < b.who; }
};

/// The least of a fixed number of keys, when one at a time changes: a knock-out tournament of four in each
/// match. A change replays the matches of one player; who else is in them is known beforehand, so that only
/// one comparison a round waits for the one before, and no branch depends on keys.
template <class Key>
class WinnerTree {
 public:
  /// Calls `key_of(i)` for i < count; count >= 1.
  template <class KeyOf>
  void assign(std::size_t count, KeyOf key_of) {
    width_ = 1;
    while (width_ < count) width_ *= 4;
    nodes_.resize(2 * width_);
    for (std::size_t i = 0; i < width_; ++i) nodes_[width_ + i] = i < count ? key_of(i) : Key::last();
    for (std::size_t round = width_ / 4; round >= 1; round /= 4) {
      for (std::size_t i = round; i < 2 * round; ++i) {
        const Key* match = nodes_.data() + 4 * i;
        nodes_[i] = lesser(lesser(match[0], match[1]), lesser(match[2], match[3]));
      }
    }
  }

  [[nodiscard]] Key winner() const noexcept { return nodes_[1]; }

  /// Gives the new winner.
  Key replace(std::size_t player, Key key) noexcept {
    Key* const nodes = nodes_.data();
    std::size_t at = width_ + player;
    nodes[at] = key;
    while (at > 1) {
      key = lesser(key, lesser(lesser(nodes[at ^ 1U], nodes[at ^ 2U]), nodes[at ^ 3U]));
      at /= 4;
      nodes[at] = key;
    }
    return key;
  }

 private:
  /// By value, so that the choice needs no branch.
  static Key lesser(Key a, Key b) noexcept { return b < a ? b : a; }

  std::size_t width_ = 0;
  std::vector<Key> nodes_;  ///< [1] is the winner, [4 i] to [4 i + 3] met for [i], [width_ + i] is player i.
};

}  // namespace trimtab
