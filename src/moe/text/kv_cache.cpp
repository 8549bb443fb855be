// SPDX-License-Identifier: Apache-2.0
#include "moe/text/kv_cache.hpp"

namespace trimtab::moe {

KvCache::KvCache(const TextConfig& config, std::size_t num_sequences, std::size_t num_positions)
    : layers_(static_cast<std::size_t>(config.num_layers())),
      heads_(config.num_heads()),
      head_floats_((num_positions + block_positions - 1) / block_positions * block_positions *
                   config.head_width()),
      memory_(num_sequences * layers_ * heads_ * 2 * head_floats_) {}

std::span<float> KvCache::keys(std::size_t sequence, std::size_t layer, std::size_t head) noexcept {
  const std::size_t index = (sequence * layers_ + layer) * heads_ + head;
  return std::span(memory_).subspan(index * 2 * head_floats_, head_floats_);
}

std::span<float> KvCache::values(std::size_t sequence, std::size_t layer, std::size_t head) noexcept {
  const std::size_t index = (sequence * layers_ + layer) * heads_ + head;
  return std::span(memory_).subspan((index * 2 + 1) * head_floats_, head_floats_);
}

}  // namespace trimtab::moe
