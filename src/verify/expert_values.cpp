// SPDX-License-Identifier: Apache-2.0
#include "verify/expert_values.hpp"

#include "verify/random.hpp"

#include <trimtab/core/assert.hpp>

namespace trimtab::verify {
namespace {

/// Where a tensor's words are counted from.
std::uint64_t place_of(LayerId layer, ExpertId expert, std::size_t tensor) noexcept {
  TRIMTAB_ASSERT(layer.index() < 1U << 16 && expert.index() < 1U << 16 && tensor < 1U << 8);
  return std::uint64_t{layer.index()} << 48 | std::uint64_t{expert.index()} << 32 |
         std::uint64_t{tensor} << 24;
}

std::byte byte_of(std::uint64_t word, std::size_t index) noexcept {
  return static_cast<std::byte>(word >> (8 * index));
}

}  // namespace

std::uint64_t expert_word(LayerId layer, ExpertId expert, std::size_t tensor, std::size_t word) noexcept {
  TRIMTAB_ASSERT(word < 1U << 24);
  return mix(place_of(layer, expert, tensor) | word);
}

std::byte expert_byte(LayerId layer, ExpertId expert, std::size_t tensor, std::size_t position) noexcept {
  return byte_of(expert_word(layer, expert, tensor, position / 8), position % 8);
}

void fill_expert(LayerId layer, ExpertId expert, std::size_t tensor, std::span<std::byte> payload) noexcept {
  const std::uint64_t place = place_of(layer, expert, tensor);
  for (std::size_t first = 0; first < payload.size(); first += 8) {
    const std::uint64_t word = mix(place | first / 8);
    for (std::size_t i = first; i < first + 8 && i < payload.size(); ++i)
      payload[i] = byte_of(word, i - first);
  }
}

}  // namespace trimtab::verify
