// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/compat/winner_tree.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// Sorts by value, largest first, and leaves equal values in the order in which libstdc++'s
/// `std::sort(…, a.value > b.value)` leaves them, because that is what torch 1.13 sorts with.
///
/// It is that algorithm (introsort: median of three, Hoare partition, insertion sort below 17) without its
/// unpredictable branches: a partition lists what is on the wrong side before it swaps, and a short range,
/// where insertion sort is stable, is sorted by counting. std::sort itself takes four times as long here.
class TorchSort {
 public:
  /// Keys made by Key<float>::smallest_first.
  void operator()(std::span<Key<float>> keys);

 private:
  using Words = std::span<std::uint64_t>;

  void sort_range(Words words, int depth);
  /// Gives the size of the part that comes first.
  std::size_t partition(Words words);
  /// Swaps the pairs of the lists from `pair` on, up to `last` or until they cross. Gives where it stopped.
  std::size_t swap_pairs(Words words, std::size_t pair, std::size_t last);

  std::vector<std::uint64_t> words_;
  std::vector<std::uint32_t> from_left_;
  std::vector<std::uint32_t> from_right_;
};

}  // namespace trimtab
