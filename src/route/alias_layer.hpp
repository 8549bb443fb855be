// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/route/routing_table.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace trimtab {

/// One layer's shares as alias tables (Walker 1974; Vose 1991): a number that is spread evenly over 32 bits
/// picks each replica in proportion to its share, by one multiplication and one comparison. Exact to a few of
/// the 2^32 numbers.
class AliasLayer {
 public:
  void build(const RoutingTable& table, LayerId layer);

  /// A column of an expert's alias table: `slots[0]` below the threshold, else `slots[1]`.
  struct Column {
    std::uint32_t threshold = 0;
    std::array<std::int32_t, 2> slots{};
    std::int32_t unused = 0;  ///< Makes the size a power of two.
  };
  /// The columns of one expert.
  struct Head {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  /// For a dispatch loop: `heads[expert]`, and `heads[-1]` for padding.
  struct View {
    const Head* heads;
    const Column* columns;
  };
  [[nodiscard]] View view() const noexcept { return {heads_.data() + 1, columns_.data()}; }

  /// The slot that `phase` picks.
  [[nodiscard]] static std::int32_t pick(View view, std::int32_t expert, std::uint32_t phase) noexcept {
    const Head head = view.heads[expert];
    const std::uint64_t product = std::uint64_t{phase} * head.count;
    const Column& column = view.columns[head.first + (product >> 32)];
    return column.slots[static_cast<std::uint32_t>(product) >= column.threshold ? 1 : 0];
  }

 private:
  void add_expert(const RoutingTable& table, LayerId layer, ExpertId expert);
  template <class ColumnOf>
  void fill_columns(std::span<const SlotId> slots, ColumnOf column);

  std::vector<Head> heads_;  ///< [1 + experts]: padding, then by expert.
  std::vector<Column> columns_;
  std::vector<std::uint64_t> parts_;  ///< While an expert is added: what is left of each replica.
};

}  // namespace trimtab
