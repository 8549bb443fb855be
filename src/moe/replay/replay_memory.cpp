// SPDX-License-Identifier: Apache-2.0
#include "moe/replay/replay_memory.hpp"

#include <new>

namespace trimtab::moe {
namespace {

constexpr std::align_val_t table_alignment{table_buffer_alignment};

std::byte* make_table_memory(std::size_t bytes) {
  return static_cast<std::byte*>(::operator new(bytes, table_alignment));
}

}  // namespace

void ReplayMemory::Free::operator()(std::byte* memory) const noexcept {
  ::operator delete(memory, table_alignment);
}

ReplayMemory::ReplayMemory(const ModelConfig& config, const Topology& topology, Rank self,
                           std::size_t max_tokens)
    : states(max_tokens * config.width()),
      bias(config.layers() * config.experts()),
      experts(max_tokens * config.choices()),
      slots(experts.size()),
      answers(experts.size()),
      phases(bias.size()),
      messages(topology.num_ranks(), self, max_tokens * config.choices(), config.width()),
      table_capacity{config.num_layers, config.num_experts, topology.num_slots()},
      table_bytes_(table_buffer_layout(table_capacity).size),
      table_memory_(make_table_memory(table_bytes_)) {
  const std::size_t local = topology.slots_of(self).size();
  const std::size_t most_rows = static_cast<std::size_t>(topology.num_ranks()) * messages.capacity();
  rows.resize(config.layers() * local);
  grouped.values.resize(most_rows * config.width());
  grouped.scales.resize(most_rows);
  grouped.answers.resize(most_rows);
  grouped.begins.resize(local + 1);
  grouped.next.resize(local);
}

}  // namespace trimtab::moe
