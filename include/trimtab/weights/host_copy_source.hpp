// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <trimtab/weights/expert_source.hpp>

#include <map>
#include <utility>
#include <vector>

namespace trimtab {

/// Copies of chosen experts in host memory, each with its checksum, within a budget of bytes (M8).
///
/// Threads: `add` and `remove` need that no other call runs.
class HostCopySource final : public ExpertSource {
 public:
  explicit HostCopySource(std::size_t budget_bytes) noexcept : budget_bytes_(budget_bytes) {}

  /// Copies `bundle`, laid out as in staging.
  /// @return `infeasible` when it does not fit the budget; `invalid_argument` when it is empty or the expert
  ///         is held already. Then nothing changed.
  Status add(LayerId layer, ExpertId expert, std::span<const std::byte> bundle);
  /// The same for bytes that came from elsewhere with their checksum, that of `ExpertStore`.
  /// @return `corrupt` as well, when the bytes have another.
  Status add(LayerId layer, ExpertId expert, std::span<const std::byte> bundle, std::uint64_t checksum);
  /// Gives the memory back. False when it was not held.
  bool remove(LayerId layer, ExpertId expert);

  [[nodiscard]] std::size_t held_bytes() const noexcept { return held_bytes_; }
  [[nodiscard]] std::size_t budget_bytes() const noexcept { return budget_bytes_; }

  /// The copy itself, to be sent to a peer; not verified. Empty when not held; valid until it is removed.
  [[nodiscard]] std::span<const std::byte> bundle(LayerId layer, ExpertId expert) const noexcept;
  /// Its checksum, from when it was added. 0 when not held.
  [[nodiscard]] std::uint64_t checksum(LayerId layer, ExpertId expert) const noexcept;

  [[nodiscard]] bool holds(LayerId layer, ExpertId expert) const override;
  [[nodiscard]] bool is_verified(LayerId layer, ExpertId expert) const override;
  [[nodiscard]] std::string describe() const override;

 private:
  struct Copy {
    std::vector<std::byte> bytes;
    std::uint64_t checksum = 0;
  };
  using Key = std::pair<LayerId, ExpertId>;

  Status read_bundle(LayerId layer, ExpertId expert, std::span<std::byte> bundle) override;
  [[nodiscard]] const Copy* find(LayerId layer, ExpertId expert) const noexcept;

  std::size_t budget_bytes_;
  std::size_t held_bytes_ = 0;
  std::map<Key, Copy> copies_;
};

}  // namespace trimtab
