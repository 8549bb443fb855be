// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/core/ids.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace trimtab::verify {

/// The 8 bytes that tensor `tensor` of `expert` has from position 8 * `word` on. No two words of all layers,
/// experts, tensors and positions are equal. Preconditions: layer and expert below 2^16, tensor below 2^8,
/// word below 2^24.
[[nodiscard]] std::uint64_t expert_word(LayerId layer, ExpertId expert, std::size_t tensor,
                                        std::size_t word) noexcept;

/// One byte of them: at `position`, lowest first.
[[nodiscard]] std::byte expert_byte(LayerId layer, ExpertId expert, std::size_t tensor,
                                    std::size_t position) noexcept;

/// Fills `payload` with what the tensor has; a last word that does not fit is cut.
void fill_expert(LayerId layer, ExpertId expert, std::size_t tensor, std::span<std::byte> payload) noexcept;

}  // namespace trimtab::verify
