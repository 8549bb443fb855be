// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/result.hpp>
#include <trimtab/core/topology.hpp>
#include <trimtab/route/routing_table.hpp>
#include <trimtab/route/table_publisher.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace trimtab {

/// What a table buffer has room for. Fixes every offset in it.
struct TableCapacity {
  std::int32_t num_layers = 0;
  std::int32_t num_experts = 0;  ///< Per layer.
  std::int32_t num_slots = 0;    ///< Per layer.

  friend bool operator==(const TableCapacity&, const TableCapacity&) = default;
};

/// The head of a table buffer: 16 words of 64 bits in the machine's order.
struct TableBufferHead {
  std::uint64_t sequence = 0;  ///< Odd while the buffer is written; grows by 2 with each table. 0: no table.
  std::uint64_t format = 0;    ///< `table_buffer_format`.
  std::uint64_t epoch = 0;
  std::uint64_t split_version = 0;
  std::uint64_t model = 0;       ///< A ModelRole.
  std::uint64_t num_layers = 0;  ///< Of the table,
  std::uint64_t num_experts = 0;
  std::uint64_t num_slots = 0;
  std::uint64_t capacity_layers = 0;  ///< and of the buffer.
  std::uint64_t capacity_experts = 0;
  std::uint64_t capacity_slots = 0;
  std::uint64_t checksum = 0;  ///< XXH3 (64 bit) of format to capacity_slots, then of all arrays.
  std::uint64_t unused[4] = {};
};
static_assert(sizeof(TableBufferHead) == 128);

inline constexpr std::uint64_t table_buffer_format = 0x3130626274747274;  ///< "trttbb01"
inline constexpr std::size_t table_buffer_alignment = 64;

/// Where the arrays lie, in bytes from the beginning. Experts and slots are counted by capacity, so that no
/// shape ever changes; what a table does not use of them is empty.
struct TableBufferLayout {
  /// uint32 [layers][experts + 1]: the replicas of expert e of layer l are at the places `first[l][e]` up to
  /// `first[l][e + 1]`; the places of layer l begin at l * slots.
  std::size_t first = 0;
  std::size_t slots = 0;         ///< int32 [layers][slots]: the slot at each place, else -1.
  std::size_t share_begins = 0;  ///< uint32 [layers][slots]: as in RoutingTable, else 0.
  std::size_t size = 0;          ///< Of the whole buffer.
};

/// A pure function of the capacity, whose numbers are at least 1.
[[nodiscard]] constexpr TableBufferLayout table_buffer_layout(const TableCapacity& capacity) noexcept {
  const auto padded = [](std::size_t words) {
    return (words * 4 + table_buffer_alignment - 1) / table_buffer_alignment * table_buffer_alignment;
  };
  const auto layers = static_cast<std::size_t>(capacity.num_layers);
  const std::size_t places = layers * static_cast<std::size_t>(capacity.num_slots);
  TableBufferLayout layout;
  layout.first = sizeof(TableBufferHead);
  layout.slots = layout.first + padded(layers * (static_cast<std::size_t>(capacity.num_experts) + 1));
  layout.share_begins = layout.slots + padded(places);
  layout.size = layout.share_begins + padded(places);
  return layout;
}

/// Writes tables in place into memory that an engine's captured graphs read (R6).
///
/// Memory stays where it is and as large as it is. A table appears in it whole: while it is written the
/// sequence word is odd, and a reader that finds it odd, or changed when it is done, or a checksum that does
/// not fit, has read a torn table. Threads: one writer. Readers must not read while a table is written;
/// `publish` asks for proof of that, and the words above only show a breach.
class TableBuffer {
 public:
  /// Borrows `memory` until the object is gone, and makes it an empty buffer.
  /// @return `invalid_argument` with value and limit for a capacity below 1, memory that is smaller than
  ///         `table_buffer_layout(capacity).size` or not aligned to `table_buffer_alignment`; nothing is
  ///         written then.
  static Result<TableBuffer> make(std::span<std::byte> memory, const TableCapacity& capacity);

  /// Writes `table`, given that no reader holds a lease of `readers`.
  /// @return `unavailable` when one does; else as `publish_at_boundary`.
  Status publish(const RoutingTable& table, const TablePublisher& readers);

  /// Writes `table`, given that the caller knows that no forward reads the buffer.
  /// @return before anything is written: `version_mismatch` with both identities unless `table` is newer than
  ///         the one in the buffer; `invalid_argument` naming number and capacity when it is too large, or
  ///         the models when the buffer holds tables of another.
  Status publish_at_boundary(const RoutingTable& table);

  [[nodiscard]] const TableCapacity& capacity() const noexcept { return capacity_; }

 private:
  TableBuffer(std::span<std::byte> memory, const TableCapacity& capacity) noexcept;
  [[nodiscard]] Status check(const RoutingTable& table) const;

  std::span<std::byte> memory_;
  TableCapacity capacity_;
};

/// Copies the table out of a buffer, for dispatch on the host. `topology` is that of the service.
///
/// Nothing in the buffer is trusted: whatever its bytes are, no read leaves it.
/// @return `not_found` when it holds none; `corrupt` naming what is wrong when it is torn or damaged, or
/// names a
///         slot that the topology does not have or that is not on a live rank.
[[nodiscard]] Result<RoutingTable> read_table_buffer(std::span<const std::byte> memory,
                                                     const Topology& topology);

/// The maps that kernels of SGLang and vLLM read, in the engine's buffers of fixed shape.
template <class Int>
struct LogicalMaps {
  std::span<Int> slots;      ///< [layers][experts][width]: the slots of each expert, ascending, then -1.
  std::span<Int> num_valid;  ///< [layers][experts]: how many there are.
  std::int32_t width = 0;
};

/// Writes the maps. They have no shares: every slot that has one is listed.
/// @return before anything is written: `invalid_argument` naming sizes, or layer, expert, its number of slots
///         and the width when that is too small.
Status fill_logical_maps(const RoutingTable& table, const LogicalMaps<std::int32_t>& maps);
Status fill_logical_maps(const RoutingTable& table, const LogicalMaps<std::int64_t>& maps);

}  // namespace trimtab
