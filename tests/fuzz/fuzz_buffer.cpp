// SPDX-License-Identifier: Apache-2.0
#include <trimtab/core/checksum.hpp>
#include <trimtab/route/router.hpp>
#include <trimtab/route/table_buffer.hpp>

#include "fuzz/fuzz_input.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

namespace trimtab::test {
namespace {

struct FreeAligned {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};

/// As large as it says and no byte larger, so that a read beyond it is seen.
class ExactMemory {
 public:
  explicit ExactMemory(std::size_t size)
      : memory_(static_cast<std::byte*>(std::aligned_alloc(table_buffer_alignment, size))), size_(size) {}

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {memory_.get(), size_}; }

 private:
  std::unique_ptr<std::byte, FreeAligned> memory_;
  std::size_t size_;
};

/// A checksum that fits, so that damage is not found by it alone.
void mend_checksum(std::span<std::byte> bytes) {
  TableBufferHead head;
  std::memcpy(&head, bytes.data(), sizeof(head));
  constexpr std::size_t first = offsetof(TableBufferHead, format);
  constexpr std::size_t last = offsetof(TableBufferHead, checksum);
  const std::uint64_t sum =
      checksum_of(bytes.subspan(sizeof(head)), checksum_of(bytes.subspan(first, last - first)));
  std::memcpy(bytes.data() + last, &sum, sizeof(sum));
}

void damage(FuzzInput& input, std::span<std::byte> bytes) {
  const int count = input.below(9);
  for (int i = 0; i < count; ++i) {
    // Half of it where it hurts: in the head.
    const std::size_t range = input.below(2) == 0 ? sizeof(TableBufferHead) : bytes.size();
    const std::size_t at = input.number<std::uint32_t>() % range;
    bytes[at] = static_cast<std::byte>(input.byte());
  }
  if (input.below(2) == 1) mend_checksum(bytes);
}

/// Whatever was read can be dispatched by.
void require_usable(const RoutingTable& table) {
  const std::size_t num_experts = static_cast<std::size_t>(table.num_experts());
  std::vector<std::int32_t> experts(num_experts);
  for (std::size_t e = 0; e < num_experts; ++e) experts[e] = static_cast<std::int32_t>(e);
  for (const auto mode : {DispatchMode::nearest, DispatchMode::rank_invariant, DispatchMode::quota}) {
    Router router(table.num_layers(), table.num_experts(), Rank{0}, {.mode = mode, .model = table.model()});
    std::vector<std::int32_t> slots(num_experts);
    require(router.dispatch_raw(table, LayerId{0}, experts, slots).has_value());
    for (std::size_t e = 0; e < num_experts; ++e) {
      require(std::ranges::count(table.replicas(LayerId{0}, ExpertId{experts[e]}), SlotId{slots[e]}) == 1);
    }
  }
}

}  // namespace

void fuzz_buffer(std::span<const std::uint8_t> bytes) {
  FuzzInput input(bytes);
  const TableCase drawn = draw_table(input);
  if (!drawn.table) return;
  const RoutingTable& table = *drawn.table;
  const TableCapacity capacity{table.num_layers() + input.below(2), table.num_experts() + input.below(3),
                               table.num_slots() + input.below(4)};
  const ExactMemory memory(table_buffer_layout(capacity).size);
  TableBuffer buffer = TableBuffer::make(memory.bytes(), capacity).value();
  require(buffer.publish_at_boundary(table).has_value());
  const auto sound = read_table_buffer(memory.bytes(), *drawn.topology);
  require(sound.has_value() && std::ranges::equal(sound->view().slots, table.view().slots));

  damage(input, memory.bytes());
  const auto read = read_table_buffer(memory.bytes(), *drawn.topology);
  if (read) {
    require_usable(*read);
  } else {
    require(!read.error().message.empty());
  }
  // A buffer that holds anything at all still takes a newer table or says why not.
  const Status again = buffer.publish_at_boundary(table);
  require(again.has_value() || !again.error().message.empty());
}

}  // namespace trimtab::test
