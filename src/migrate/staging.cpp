// SPDX-License-Identifier: Apache-2.0
#include "migrate/staging.hpp"

#include <trimtab/core/assert.hpp>

#include <algorithm>
#include <new>
#include <numeric>

namespace trimtab {

void StagingArena::Deleter::operator()(std::byte* memory) const noexcept {
  ::operator delete[](memory, std::align_val_t{staging_alignment});
}

StagingArena::StagingArena(std::size_t budget_bytes)
    : budget_bytes_(budget_bytes),
      memory_(static_cast<std::byte*>(::operator new[](budget_bytes, std::align_val_t{staging_alignment}))) {}

std::optional<std::span<std::byte>> StagingArena::allocate(std::size_t size) {
  size = staged_bytes(size);
  std::size_t offset = 0;
  auto after = blocks_.begin();
  while (after != blocks_.end() && after->offset - offset < size) {
    offset = after->offset + after->size;
    ++after;
  }
  if (offset + size > budget_bytes_) return std::nullopt;
  blocks_.insert(after, Block{offset, size});
  peak_bytes_ = std::max(peak_bytes_, used_bytes());
  return std::span(memory_.get() + offset, size);
}

void StagingArena::release(std::span<std::byte> block) noexcept {
  const auto offset = static_cast<std::size_t>(block.data() - memory_.get());
  const auto found = std::ranges::find_if(
      blocks_, [&](const Block& b) { return b.offset == offset && b.size == block.size(); });
  TRIMTAB_ASSERT(found != blocks_.end());
  blocks_.erase(found);
}

std::size_t StagingArena::used_bytes() const noexcept {
  return std::accumulate(blocks_.begin(), blocks_.end(), std::size_t{0},
                         [](std::size_t sum, const Block& block) { return sum + block.size; });
}

}  // namespace trimtab
