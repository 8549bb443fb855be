// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace trimtab {

/// Fills the values of one row of a square matrix, one per column.
using ValueRow = std::function<void(std::size_t row, std::span<std::int64_t> values)>;

/// The column of each row in an assignment of largest total value, one to one. Shortest augmenting paths with
/// potentials (Kuhn 1955, Munkres 1957; in the form of Jonker and Volgenant 1987): O(n^3) at worst, in O(n)
/// memory, since rows are asked for again instead of being stored. Equal totals: decided by row and column
/// order. Precondition: values within +-2^40.
[[nodiscard]] std::vector<std::size_t> assign_best(std::size_t size, const ValueRow& value_row);

}  // namespace trimtab
