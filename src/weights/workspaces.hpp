// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace trimtab {

/// Memory for the ND copies of one layer at a time, one piece for each shape of tensor, reused by all layers.
/// Pieces are never freed or moved.
class Workspaces {
 public:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  /// Indices of pieces of the wanted sizes, all different; `none` for size 0. What exists is used first.
  [[nodiscard]] std::vector<std::size_t> reserve(std::span<const std::size_t> sizes);

  [[nodiscard]] std::span<std::byte> operator[](std::size_t index) const noexcept {
    return {pieces_[index].memory.get(), pieces_[index].size};
  }
  [[nodiscard]] std::size_t total_bytes() const noexcept;

 private:
  struct Deleter {
    void operator()(std::byte* memory) const noexcept;
  };
  struct Piece {
    std::size_t size;
    std::unique_ptr<std::byte[], Deleter> memory;
  };

  std::vector<Piece> pieces_;
};

}  // namespace trimtab
