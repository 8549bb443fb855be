// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

namespace trimtab {

/// Sets of numbers below `size` that only ever merge. The lowest member stands for its set.
class UnionFind {
 public:
  explicit UnionFind(std::size_t size) : parent_(size) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
  }

  [[nodiscard]] std::size_t find(std::size_t x) noexcept {
    while (parent_[x] != x) {
      parent_[x] = parent_[parent_[x]];
      x = parent_[x];
    }
    return x;
  }

  /// @return false when they were in one set already
  bool merge(std::size_t a, std::size_t b) noexcept {
    a = find(a);
    b = find(b);
    if (a == b) return false;
    parent_[a < b ? b : a] = a < b ? a : b;
    return true;
  }

 private:
  std::vector<std::size_t> parent_;
};

}  // namespace trimtab
