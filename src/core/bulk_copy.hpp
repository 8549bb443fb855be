// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace trimtab {

/// memcpy for a destination that is in no cache, but will be read again at once: its lines are asked for
/// ahead, where memcpy would wait for each, or write past the caches. The ranges are of one size and apart.
void bulk_copy(std::span<std::byte> to, std::span<const std::byte> from) noexcept;

/// Swaps the contents of two ranges of one size that are apart, in one pass, neither being in a cache.
void bulk_swap(std::span<std::byte> a, std::span<std::byte> b) noexcept;

}  // namespace trimtab
