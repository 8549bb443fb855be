// SPDX-License-Identifier: Apache-2.0
#include "workspaces.hpp"

#include <algorithm>
#include <new>
#include <numeric>

namespace trimtab {
namespace {

constexpr std::align_val_t alignment{64};

}  // namespace

void Workspaces::Deleter::operator()(std::byte* memory) const noexcept {
  ::operator delete[](memory, alignment);
}

std::vector<std::size_t> Workspaces::reserve(std::span<const std::size_t> sizes) {
  std::vector<std::size_t> taken;
  for (const std::size_t size : sizes) {
    const auto is_free = [&](std::size_t i) {
      return pieces_[i].size == size && !std::ranges::count(taken, i);
    };
    std::size_t index = 0;
    while (size != 0 && index < pieces_.size() && !is_free(index)) ++index;
    if (size != 0 && index == pieces_.size()) {
      pieces_.push_back({size, {static_cast<std::byte*>(::operator new[](size, alignment)), {}}});
    }
    taken.push_back(size == 0 ? none : index);
  }
  return taken;
}

std::size_t Workspaces::total_bytes() const noexcept {
  return std::accumulate(pieces_.begin(), pieces_.end(), std::size_t{0},
                         [](std::size_t sum, const Piece& piece) { return sum + piece.size; });
}

}  // namespace trimtab
