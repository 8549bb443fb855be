// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace trimtab {

/// Distance of two bundles in staging, so that tensors keep their alignment.
inline constexpr std::size_t staging_alignment = 64;

/// What one bundle takes in staging.
[[nodiscard]] constexpr std::size_t staged_bytes(std::size_t bundle_bytes) noexcept {
  return (bundle_bytes + staging_alignment - 1) / staging_alignment * staging_alignment;
}

/// The staging memory of one rank: one allocation, made once, handed out in blocks and never exceeded (M8).
/// Not thread-safe. Blocks must be given back before the arena is destroyed.
class StagingArena {
 public:
  explicit StagingArena(std::size_t budget_bytes);

  /// A block of `size` bytes, aligned to staging_alignment, or nothing when no gap is large enough.
  [[nodiscard]] std::optional<std::span<std::byte>> allocate(std::size_t size);
  /// Gives back a block that `allocate` returned.
  void release(std::span<std::byte> block) noexcept;

  [[nodiscard]] std::size_t budget_bytes() const noexcept { return budget_bytes_; }
  [[nodiscard]] std::size_t used_bytes() const noexcept;
  /// The most that was used at once, gaps for alignment included.
  [[nodiscard]] std::size_t peak_bytes() const noexcept { return peak_bytes_; }

 private:
  struct Deleter {
    void operator()(std::byte* memory) const noexcept;
  };
  struct Block {
    std::size_t offset;
    std::size_t size;
  };

  std::size_t budget_bytes_;
  std::unique_ptr<std::byte[], Deleter> memory_;
  std::vector<Block> blocks_;  ///< In use, ascending; few.
  std::size_t peak_bytes_ = 0;
};

}  // namespace trimtab
