// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/checksum.hpp>
#include <trimtab/route/table_buffer.hpp>

#include "route/identity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

namespace trimtab {
namespace {

/// Sizes beyond this are no capacity but damage; below it no product of them overflows.
constexpr std::uint64_t max_count = std::uint64_t{1} << 24;

Status check_capacity(const TableCapacity& capacity) {
  const auto is_in_range = [](std::int32_t count) {
    return count >= 1 && static_cast<std::uint64_t>(count) <= max_count;
  };
  if (is_in_range(capacity.num_layers) && is_in_range(capacity.num_experts) &&
      is_in_range(capacity.num_slots)) {
    return {};
  }
  return failure(Errc::invalid_argument,
                 fmt::format("a buffer of {} layers x {} experts x {} slots: each must be in 1..{}",
                             capacity.num_layers, capacity.num_experts, capacity.num_slots, max_count));
}

/// The words after the sequence, whose checksum begins that of the buffer.
std::uint64_t checksum_of_buffer(const TableBufferHead& head, std::span<const std::byte> memory) {
  const auto* words = reinterpret_cast<const std::byte*>(&head);
  const std::span named(words + offsetof(TableBufferHead, format),
                        offsetof(TableBufferHead, checksum) - offsetof(TableBufferHead, format));
  return checksum_of(memory.subspan(sizeof(TableBufferHead)), checksum_of(named));
}

void store_sequence(std::span<std::byte> memory, std::uint64_t value) noexcept {
  // Nothing of the table may be written before the first call or after the second.
  std::atomic_ref(*reinterpret_cast<std::uint64_t*>(memory.data()))
      .exchange(value, std::memory_order_acq_rel);
}

/// The checksum finds what this order of loads alone would not.
std::uint64_t load_sequence(std::span<const std::byte> memory) noexcept {
  auto* word = const_cast<std::uint64_t*>(reinterpret_cast<const std::uint64_t*>(memory.data()));
  return std::atomic_ref(*word).load(std::memory_order_seq_cst);
}

TableBufferHead head_of(std::span<const std::byte> memory) noexcept {
  TableBufferHead head;
  std::memcpy(&head, memory.data(), sizeof(head));
  return head;
}

TableIdentity identity_of(const TableBufferHead& head) noexcept {
  return {Epoch{head.epoch}, static_cast<std::uint32_t>(head.split_version)};
}

template <class T>
T* array_at(std::span<std::byte> memory, std::size_t offset) noexcept {
  return reinterpret_cast<T*>(memory.data() + offset);
}

void write_arrays(const RoutingTable& table, std::span<std::byte> memory, const TableCapacity& capacity) {
  const TableBufferLayout layout = table_buffer_layout(capacity);
  auto* first = array_at<std::uint32_t>(memory, layout.first);
  auto* slots = array_at<std::int32_t>(memory, layout.slots);
  auto* begins = array_at<std::uint32_t>(memory, layout.share_begins);
  const auto num_slots = static_cast<std::size_t>(capacity.num_slots);
  const auto num_rows = static_cast<std::size_t>(capacity.num_experts) + 1;
  for (LayerId layer : ids<LayerId>(capacity.num_layers)) {
    std::size_t place = layer.index() * num_slots;
    for (ExpertId expert : ids<ExpertId>(capacity.num_experts)) {
      first[layer.index() * num_rows + expert.index()] = static_cast<std::uint32_t>(place);
      if (layer.value() >= table.num_layers() || expert.value() >= table.num_experts()) continue;
      const auto replicas = table.replicas(layer, expert);
      const auto shares = table.share_begins(layer, expert);
      for (std::size_t i = 0; i < replicas.size(); ++i, ++place) {
        slots[place] = replicas[i].value();
        begins[place] = shares[i];
      }
    }
    first[layer.index() * num_rows + num_rows - 1] = static_cast<std::uint32_t>(place);
    for (; place < (layer.index() + 1) * num_slots; ++place) {
      slots[place] = no_slot.value();
      begins[place] = 0;
    }
  }
}

}  // namespace

TableBuffer::TableBuffer(std::span<std::byte> memory, const TableCapacity& capacity) noexcept
    : memory_(memory), capacity_(capacity) {}

Result<TableBuffer> TableBuffer::make(std::span<std::byte> memory, const TableCapacity& capacity) {
  if (Status s = check_capacity(capacity); !s) return failure(std::move(s));
  const std::size_t size = table_buffer_layout(capacity).size;
  if (memory.size() < size) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} bytes for a table buffer of {}", memory.size(), size));
  }
  if (const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
      address % table_buffer_alignment != 0) {
    return failure(Errc::invalid_argument,
                   fmt::format("a table buffer at address {:#x} is not aligned to {} bytes", address,
                               table_buffer_alignment));
  }
  std::fill_n(memory.begin(), size, std::byte{0});
  return TableBuffer(memory.first(size), capacity);
}

Status TableBuffer::check(const RoutingTable& table) const {
  if (table.num_layers() > capacity_.num_layers || table.num_experts() > capacity_.num_experts ||
      table.num_slots() > capacity_.num_slots) {
    return failure(
        Errc::invalid_argument,
        fmt::format("routing table of {} layers x {} experts x {} slots for a buffer of {} x {} x {}",
                    table.num_layers(), table.num_experts(), table.num_slots(), capacity_.num_layers,
                    capacity_.num_experts, capacity_.num_slots));
  }
  const TableBufferHead head = head_of(memory_);
  if (head.sequence == 0) return {};
  if (head.model != static_cast<std::uint64_t>(table.model())) {
    return failure(
        Errc::invalid_argument,
        fmt::format("routing table of the {} model for a buffer of another model", to_string(table.model())));
  }
  return check_newer(table.identity(), identity_of(head));
}

Status TableBuffer::publish(const RoutingTable& table, const TablePublisher& readers) {
  if (!readers.is_idle()) {
    return failure(Errc::unavailable, "a reader still holds a routing table, so none is written in place");
  }
  return publish_at_boundary(table);
}

Status TableBuffer::publish_at_boundary(const RoutingTable& table) {
  if (Status s = check(table); !s) return s;
  TableBufferHead head = head_of(memory_);
  const std::uint64_t sequence = head.sequence + 2;
  store_sequence(memory_, sequence - 1);
  head = {.sequence = sequence - 1,
          .format = table_buffer_format,
          .epoch = table.identity().epoch.value(),
          .split_version = table.identity().split_version,
          .model = static_cast<std::uint64_t>(table.model()),
          .num_layers = static_cast<std::uint64_t>(table.num_layers()),
          .num_experts = static_cast<std::uint64_t>(table.num_experts()),
          .num_slots = static_cast<std::uint64_t>(table.num_slots()),
          .capacity_layers = static_cast<std::uint64_t>(capacity_.num_layers),
          .capacity_experts = static_cast<std::uint64_t>(capacity_.num_experts),
          .capacity_slots = static_cast<std::uint64_t>(capacity_.num_slots)};
  write_arrays(table, memory_, capacity_);
  head.checksum = checksum_of_buffer(head, memory_);
  constexpr std::size_t after_sequence = offsetof(TableBufferHead, format);
  std::memcpy(memory_.data() + after_sequence, reinterpret_cast<const std::byte*>(&head) + after_sequence,
              sizeof(head) - after_sequence);
  store_sequence(memory_, sequence);
  return {};
}

namespace {

tl::unexpected<Error> corrupt(std::string what) {
  return failure(Errc::corrupt, "table buffer: " + std::move(what));
}

Result<TableCapacity> capacity_of(const TableBufferHead& head) {
  const auto is_in_range = [](std::uint64_t used, std::uint64_t capacity) {
    return used >= 1 && used <= capacity && capacity <= max_count;
  };
  if (!is_in_range(head.num_layers, head.capacity_layers) ||
      !is_in_range(head.num_experts, head.capacity_experts) ||
      !is_in_range(head.num_slots, head.capacity_slots)) {
    return corrupt(fmt::format("a table of {} layers x {} experts x {} slots for {} x {} x {}",
                               head.num_layers, head.num_experts, head.num_slots, head.capacity_layers,
                               head.capacity_experts, head.capacity_slots));
  }
  return TableCapacity{static_cast<std::int32_t>(head.capacity_layers),
                       static_cast<std::int32_t>(head.capacity_experts),
                       static_cast<std::int32_t>(head.capacity_slots)};
}

/// Checks all but the arrays' content, on a copy that nobody changes any more.
Status check_head(const TableBufferHead& head, std::span<const std::byte> memory) {
  if (head.format != table_buffer_format) {
    return corrupt(fmt::format("format {:#x} is not {:#x}", head.format, table_buffer_format));
  }
  if (head.model > static_cast<std::uint64_t>(ModelRole::draft)) {
    return corrupt(fmt::format("model {} is unknown", head.model));
  }
  if (head.split_version > std::numeric_limits<std::uint32_t>::max()) {
    return corrupt(fmt::format("split version {} is above 32 bits", head.split_version));
  }
  if (const std::uint64_t sum = checksum_of_buffer(head, memory); sum != head.checksum) {
    return corrupt(fmt::format("checksum {:#x} is not {:#x}", sum, head.checksum));
  }
  return {};
}

/// The arrays without their padding. The bounds of each expert are checked here, what they hold by `restore`.
Result<TableParts> parts_of(const TableBufferHead& head, std::span<std::byte> memory,
                            const TableCapacity& capacity) {
  const TableBufferLayout layout = table_buffer_layout(capacity);
  const auto* first = array_at<std::uint32_t>(memory, layout.first);
  const auto* slots = array_at<std::int32_t>(memory, layout.slots);
  const auto* begins = array_at<std::uint32_t>(memory, layout.share_begins);
  const auto num_rows = static_cast<std::size_t>(capacity.num_experts) + 1;
  const auto num_slots = static_cast<std::size_t>(capacity.num_slots);
  TableParts parts{.num_layers = static_cast<std::int32_t>(head.num_layers),
                   .num_experts = static_cast<std::int32_t>(head.num_experts)};
  parts.first_replica.push_back(0);
  for (LayerId layer : ids<LayerId>(parts.num_layers)) {
    for (ExpertId expert : ids<ExpertId>(parts.num_experts)) {
      const std::size_t begin = first[layer.index() * num_rows + expert.index()];
      const std::size_t end = first[layer.index() * num_rows + expert.index() + 1];
      if (begin < layer.index() * num_slots || end < begin || end > (layer.index() + 1) * num_slots) {
        return corrupt(fmt::format("layer {}, expert {}: places {} to {} are not within {} to {}",
                                   layer.value(), expert.value(), begin, end, layer.index() * num_slots,
                                   (layer.index() + 1) * num_slots));
      }
      for (std::size_t place = begin; place < end; ++place) {
        parts.slots.push_back(SlotId{slots[place]});
        parts.share_begins.push_back(begins[place]);
      }
      parts.first_replica.push_back(static_cast<std::uint32_t>(parts.slots.size()));
    }
  }
  return parts;
}

}  // namespace

Result<RoutingTable> read_table_buffer(std::span<const std::byte> memory, const Topology& topology) {
  if (memory.size() < sizeof(TableBufferHead)) {
    return corrupt(fmt::format("{} bytes hold no head of {}", memory.size(), sizeof(TableBufferHead)));
  }
  if (reinterpret_cast<std::uintptr_t>(memory.data()) % table_buffer_alignment != 0) {
    return corrupt(fmt::format("it is not aligned to {} bytes", table_buffer_alignment));
  }
  const std::uint64_t sequence = load_sequence(memory);
  if (sequence == 0) return failure(Errc::not_found, "table buffer: no table was published yet");
  if (sequence % 2 != 0) return corrupt(fmt::format("it is being written (sequence {})", sequence));
  const TableBufferHead head = head_of(memory);
  const Result<TableCapacity> capacity = capacity_of(head);
  if (!capacity) return failure(Result<TableCapacity>(capacity));
  const std::size_t size = table_buffer_layout(*capacity).size;
  if (size > memory.size()) return corrupt(fmt::format("{} bytes of {}", memory.size(), size));
  std::vector<std::byte> copy(memory.begin(), memory.begin() + static_cast<std::ptrdiff_t>(size));
  if (const std::uint64_t now = load_sequence(memory); now != sequence) {
    return corrupt(fmt::format("it was written meanwhile (sequence {}, then {})", sequence, now));
  }
  if (Status s = check_head(head, copy); !s) return failure(std::move(s));
  Result<TableParts> parts = parts_of(head, copy, *capacity);
  if (!parts) return failure(std::move(parts));
  return RoutingTable::restore(std::move(*parts), topology, identity_of(head),
                               {.model = static_cast<ModelRole>(head.model)});
}

namespace {

template <class Int>
Status check_maps(const RoutingTable& table, const LogicalMaps<Int>& maps) {
  const std::size_t num_rows =
      static_cast<std::size_t>(table.num_layers()) * static_cast<std::size_t>(table.num_experts());
  if (maps.width < 1 || maps.num_valid.size() != num_rows ||
      maps.slots.size() != num_rows * static_cast<std::size_t>(maps.width)) {
    return failure(
        Errc::invalid_argument,
        fmt::format("maps of {} slots and {} counts for {} layers x {} experts x width {}", maps.slots.size(),
                    maps.num_valid.size(), table.num_layers(), table.num_experts(), maps.width));
  }
  for (LayerId layer : ids<LayerId>(table.num_layers())) {
    for (ExpertId expert : ids<ExpertId>(table.num_experts())) {
      const std::size_t count = table.replicas(layer, expert).size();
      if (count <= static_cast<std::size_t>(maps.width)) continue;
      return failure(Errc::invalid_argument,
                     fmt::format("layer {}, expert {}: {} slots for a map of width {}", layer.value(),
                                 expert.value(), count, maps.width));
    }
  }
  return {};
}

template <class Int>
Status fill_maps(const RoutingTable& table, const LogicalMaps<Int>& maps) {
  if (Status s = check_maps(table, maps); !s) return s;
  std::size_t row = 0;
  for (LayerId layer : ids<LayerId>(table.num_layers())) {
    for (ExpertId expert : ids<ExpertId>(table.num_experts())) {
      const auto replicas = table.replicas(layer, expert);
      const auto width = static_cast<std::size_t>(maps.width);
      const auto slots = maps.slots.subspan(row * width, width);
      for (std::size_t i = 0; i < width; ++i) {
        slots[i] = static_cast<Int>((i < replicas.size() ? replicas[i] : no_slot).value());
      }
      maps.num_valid[row++] = static_cast<Int>(replicas.size());
    }
  }
  return {};
}

}  // namespace

Status fill_logical_maps(const RoutingTable& table, const LogicalMaps<std::int32_t>& maps) {
  return fill_maps(table, maps);
}

Status fill_logical_maps(const RoutingTable& table, const LogicalMaps<std::int64_t>& maps) {
  return fill_maps(table, maps);
}

}  // namespace trimtab
